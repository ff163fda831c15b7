"""``fairpc audit --by``: the gaps between groups within each level of a column, one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fairpc.cli._screen import grid, say
from fairpc.core import Codes, FairpcError, Floats, OptionError, TableError
from fairpc.data import code_columns, read_frame

if TYPE_CHECKING:
    import polars as pl

    from fairpc.evidence import Parity
    from fairpc.models import FittedModel

Facts = dict[str, Any]

MOST: Final = 20
"""Levels of a column that is no feature of the model."""
LEVEL: Final = 0.95


def _levels_of(model: FittedModel, cells: pl.DataFrame, name: str) -> tuple[tuple[str, ...], Codes]:
    """Names of the levels of a column, and that of each row, -1 where it is missing.

    Of a feature they are those of the model: numbers are in bins.
    """
    import polars as pl

    features = model.coding_.features
    if name in features.names:
        column = features.column(name)
        frame = read_frame(cells.select(pl.col(name)))
        return column.labels, code_columns((column,), frame, features.missing_values, None)[:, 0]
    texts = cells[name].alias("").cast(pl.String)
    known = tuple(sorted(t for t in texts.unique().drop_nulls().to_list() if t))
    if not 0 < len(known) <= MOST:
        raise TableError(
            f"column {name!r} has {len(known)} values: --by takes a column of 1 to {MOST}, or a "
            "feature of the model"
        )
    codes = {text: code for code, text in enumerate(known)}
    return known, np.array([codes.get(text, -1) for text in texts.to_list()], np.int16)


def gaps_by_level(
    model: FittedModel, given: Mapping[str, Any], cells: pl.DataFrame | None, column: str | None
) -> Facts | None:
    """Gaps of labels and of decisions in each level of a column; None where none is asked for.

    All intervals of a kind hold together. ``given`` are the arguments of an audit: X, and what goes
    with its rows; ``cells`` are those of the table, None where it is read in parts.
    """
    if column is None:
        return None
    if cells is None:
        raise OptionError(
            "--by needs the table in memory, and it is read in parts: give fewer rows, or leave "
            "out --max-memory"
        )
    coding = model.coding_
    names, codes = _levels_of(model, cells, column)
    table, apart = given["X"], given.get("sensitive_features")
    s = coding.group_codes(table, read_frame(table), apart)
    if s is None:
        raise TableError("--by compares groups, and the table has no sensitive columns: add them")
    rows = {"X": table} if apart is None else {"X": table, "sensitive_features": apart}
    decided = (model.predict(**rows) == model.positive_class_).astype(np.float64)
    labels = None if given.get("y") is None else coding.labels.transform(given["y"])
    weights = given.get("sample_weight")
    groups = np.array([*coding.groups.names, ""], dtype=object)[s]
    found = []
    for code, name in enumerate(names):
        here = (codes == code) & (s >= 0)
        record: Facts = {"level": name, "rows": int((codes == code).sum())}
        if not record["rows"]:
            continue
        record["decisions"] = _gap(decided, groups, here, weights, len(names))
        if labels is not None:
            favoured = (labels == coding.labels.positive).astype(np.float64)
            record["labels"] = _gap(favoured, groups, here & (labels >= 0), weights, len(names))
        found.append(record)
    return {"column": column, "levels": found}


def _gap(
    values: Floats, groups: Any, here: Any, weights: Floats | None, n_levels: int
) -> Facts | None:
    """The largest gap between groups in some rows; None where they are too few to say."""
    from fairpc.evidence import parity

    kept = None if weights is None else np.asarray(weights)[here]
    try:
        found: Parity = parity(
            values[here],
            groups[here].astype(str),
            level=1 - (1 - LEVEL) / n_levels,
            sample_weight=kept,
        )
    except FairpcError:
        return None
    pair = found.largest
    return {
        "first": pair.first,
        "last": pair.last,
        "difference": pair.difference,
        "interval": list(pair.difference_interval),
        "rates": {str(group.group): group.mean for group in found.groups},
    }


def show_levels(facts: Facts) -> None:
    """Print a line per level."""
    column, found = facts["column"], facts["levels"]
    with_labels = any("labels" in record for record in found)
    kinds = ("labels", "decisions") if with_labels else ("decisions",)
    say(f"\nBy {column!r}, the largest gap between groups ({LEVEL:.0%} intervals, all together):\n")
    lines = [(r["level"], f"{r['rows']:,}", *(_cell(r.get(kind)) for kind in kinds)) for r in found]
    grid((column, "rows", *(f"gap of {kind}" for kind in kinds)), lines)


def _cell(gap: Facts | None) -> str:
    if gap is None:
        return "too few rows"
    low, high = gap["interval"]
    return f"{gap['difference']:+.3f} [{low:+.3f}, {high:+.3f}] {gap['last']} − {gap['first']}"
