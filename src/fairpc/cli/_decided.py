"""Decisions of any model in a table: the columns of an audit that needs no model of fairpc."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairpc.cli._labelled import labelled
from fairpc.cli._options import ColumnOptions, DecisionOptions, ModelOptions
from fairpc.cli._tables import column
from fairpc.core import OptionError, TableError
from fairpc.data import TableFiles, exactly

if TYPE_CHECKING:
    import polars as pl

    from fairpc.auditing import GivenDecisions
    from fairpc.models import FittedModel

    AuditedTable = tuple[FittedModel | GivenDecisions, dict[str, Any], pl.DataFrame | None]


def decided_table(
    files: TableFiles, label: str | None, decided: DecisionOptions, weight: str | None
) -> AuditedTable:
    """Decisions beside their table, arguments of ``audit`` for it, and its cells in memory."""
    from fairpc.auditing import given_decisions

    if label is None or not decided.sensitive or decided.decision is None:
        lacking = "--label" if label is None else "--sensitive"
        raise OptionError(
            f"{lacking} is missing: --decision is audited beside the recorded label and the groups"
        )
    names, source = files.names(), files.source
    decision = column(names, decided.decision, "--decision", source)
    score = None if decided.score is None else column(names, decided.score, "--score", source)
    roles = ColumnOptions([label], decided.sensitive, decided.positive, drop=decided.drop)
    rows = labelled(files, roles, ModelOptions(given=decided.given, weight=weight or None))
    apart = [decision] if score is None else [decision, score]
    for name in apart:
        if name not in rows.X.columns or name in (*rows.roles.sensitive, *rows.given):
            raise TableError(
                f"{source}: column {name!r} is given as --decision or --score and as something "
                "else: it can be one of the two, take the other away"
            )
    groups = rows.X.select(exactly(rows.roles.sensitive))
    table = rows.X.drop(exactly([*apart, *rows.roles.sensitive]))
    about = {"sensitive_features": groups, "sample_weight": rows.weights}
    subject = given_decisions(
        rows.X[decision],
        table,
        rows.y,
        **about,
        scores=None if score is None else rows.X[score],
        positive=decided.positive,
        given=rows.given,
    )
    return subject, {"X": table, "y": rows.y, **about}, rows.X
