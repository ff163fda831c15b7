"""``fairpc audit``: what a model and a table say about each other; a report, and an exit code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from fairpc.cli.levels import gaps_by_level, show_levels
from fairpc.cli.options import Limit, TextFormat, with_options
from fairpc.cli.screen import Screen, complain, print_json, say
from fairpc.cli.tables import (
    about,
    check_output,
    column,
    evidence,
    is_large,
    loaded,
    model_source,
    note_absent,
    opened,
    ready,
    unseen_columns,
)
from fairpc.data.frame import exactly
from fairpc.data.source import Warned
from fairpc.errors import AuditError, FairpcError, TableError

if TYPE_CHECKING:
    import polars as pl

    from fairpc.auditing import Audit
    from fairpc.auditing.gaps import ParityFacts
    from fairpc.auditing.verdict import Verdict
    from fairpc.data.files import TableFiles
    from fairpc.estimators.base import CircuitClassifier

GAP_EXCEEDED: Final = 1
# Parts of the record that only the page needs: megabytes that no reader of JSON asks for.
_PAGE_ONLY: Final = ("what_if",)


def run(
    model_file: str,
    table: str,
    output: str | None,
    limit: Limit,
    label: str | None,
    trade_off: bool | None,
    by: str | None,
    weight: str | None,
    allow_unseen: list[str] | None,
    seed: int,
    max_memory: str | None,
    text: TextFormat,
    screen: Screen,
) -> None:
    """Audit a model on a table; end with 1 if the gap between groups may be larger than allowed."""
    from fairpc.auditing import audit
    from fairpc.refits.workbench import progress

    if output is not None:
        if Path(output).suffix.lower() not in (".html", ".htm"):
            raise FairpcError(f"{output}: the report is an HTML page, give a name ending in .html")
        check_output(output, model_file, table)
    # Other methods take most of the time, and only the report shows them.
    others = output is not None if trade_off is None else trade_off
    model = loaded(model_file)
    warned = Warned()
    with opened(table, text) as files, about(files.source):
        note_absent(model, files, screen)
        unseen = unseen_columns(model, files, allow_unseen, screen)
        with warned.watching():
            given, cells = _given(model, files, unseen, label, weight, max_memory, screen)
            by = None if by is None else column(files.names(), by, "--by", files.source)
            if limit.fail_over is not None and not (screen.talks or screen.json or output):
                # Nothing is shown: the gap is all that is needed.
                _judge(_gap_alone(model, given, limit, seed), limit, screen)
                return
            levels = gaps_by_level(model, given, cells, by)
            with progress(screen.shows_progress, None) as step:
                found = audit(model, random_state=seed, baselines=others, progress=step, **given)
        found = told(found)
        if found.parity is None and limit.fail_over is not None:
            raise _not_known(found.left_out.get("parity", "no two groups have known members"))
        bound = None if found.parity is None else _bound(found.parity, limit)
    if output is not None:
        found.save(output)
    if screen.json:
        shown = {k: v for k, v in found.to_dict().items() if k not in _PAGE_ONLY}
        over = {"fail_over": limit.fail_over, "exceeded": _exceeds(bound, limit)}
        facts = {"report": output, "gap": limit.gap, "gap_upper": bound, "by": levels}
        print_json(facts | over | shown)
    elif screen.talks:
        show_verdict(found.verdict)
        if levels is not None:
            show_levels(levels)
        hint = "Give -o report.html to write the full report."
        say(hint if output is None else f"The report is in {output}.")
    screen.notes(warned)
    _judge(bound, limit, screen)


def told(found: Audit) -> Audit:
    """An audit whose sentences name options; the form of the page has none."""
    worded: Audit = with_options(replace(found, what_if=None))
    return replace(worded, what_if=found.what_if)


def _gap_alone(model: CircuitClassifier, given: dict[str, Any], limit: Limit, seed: int) -> float:
    """Upper bound of the gap that is asked for, without the rest of an audit."""
    from fairpc.auditing import group_gaps

    try:
        return _bound(group_gaps(model, random_state=seed, **given), limit)
    except AuditError as error:
        raise _not_known(str(error)) from None


def _bound(found: ParityFacts, limit: Limit) -> float:
    """Upper bound of the gap that is asked for."""
    if limit.gap == "either":
        return found.gap_upper
    parts = found.scores if limit.gap == "scores" else found.decisions
    return max(d.gap_upper for d in parts)


def _not_known(why: str) -> TableError:
    return TableError(
        f"the gap between groups is not known ({why}): --fail-over needs the sensitive columns"
    )


def _exceeds(bound: float | None, limit: Limit) -> bool:
    return limit.fail_over is not None and bound is not None and bound > limit.fail_over


def _judge(bound: float | None, limit: Limit, screen: Screen) -> None:
    """End with code 1 if the gap may be larger than allowed, and say so even if --quiet."""
    if limit.fail_over is None:
        return
    of = "scores or decisions" if limit.gap == "either" else limit.gap
    said = f"the gap between groups in {of} may be as large as {bound:.4f}"
    if _exceeds(bound, limit):
        complain(f"{said}, which is more than the {limit.fail_over:g} of --fail-over")
        raise typer.Exit(GAP_EXCEEDED)
    screen.note(f"{said}; --fail-over allows {limit.fail_over:g}")


def show_verdict(found: Verdict) -> None:
    """What was found, how sure that is, what to do."""
    say(found.headline, "bold")
    parts = {"Found": found.found, "How sure": found.sure, "What to do": found.to_do}
    for title, sentences in parts.items():
        say(f"\n{title}", "bold")
        for sentence in sentences:
            say(f"- {sentence}")
    say(f"\n{found.disclaimer}")


def _given(
    model: CircuitClassifier,
    files: TableFiles,
    unseen: tuple[str, ...],
    label: str | None,
    weight: str | None,
    max_memory: str | None,
    screen: Screen,
) -> tuple[dict[str, Any], pl.DataFrame | None]:
    """Arguments of ``audit`` for a table, the label if it is there; and its cells in memory."""
    fitted, names = model.coding_.labels.name, files.names()
    name = fitted if fitted in names else None
    if label is not None:
        name = column(names, label, "--label", files.source)
    if weight is not None:
        weight = column(names, weight, "--weight", files.source)
    if name is None:
        screen.note(
            f"{files.source} has no label column {fitted!r}: the comparison of decisions with "
            "labels is left out"
        )
    if max_memory is not None or is_large(files):
        named = {"y": name, "sample_weight": weight, "max_memory": max_memory}
        return {"X": model_source(model, files, unseen), **named}, None
    cells = ready(files.read(), files)
    apart = [each for each in (name, weight) if each is not None]
    given = evidence(model, cells.drop(exactly(apart)), unseen)
    if name is not None:
        given["y"] = cells[name]
    if weight is not None:
        given["sample_weight"] = cells[weight].to_numpy()
    return given, cells
