"""``fairpc audit``: what a model and a table say about each other; a report, and an exit code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from fairpc.cli.levels import gaps_by_level, show_levels
from fairpc.cli.options import Limit, TextFormat
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
)
from fairpc.data.frame import exactly
from fairpc.data.source import Warned
from fairpc.errors import FairpcError, TableError

if TYPE_CHECKING:
    import polars as pl

    from fairpc.auditing import Audit
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
        with warned.watching():
            given, cells = _given(model, files, label, weight, max_memory, screen)
            by = None if by is None else column(files.names(), by, "--by", files.source)
            levels = gaps_by_level(model, given, cells, by)
            with progress(screen.shows_progress, None) as step:
                found = audit(model, random_state=seed, baselines=others, progress=step, **given)
        bound = _bound(found, limit, files.source)
    if output is not None:
        found.save(output)
    over = limit.fail_over is not None and bound is not None and bound > limit.fail_over
    if screen.json:
        sections = {k: v for k, v in found.to_dict().items() if k not in _PAGE_ONLY}
        facts = {"report": output, "gap": limit.gap, "gap_upper": bound, "by": levels}
        print_json(facts | {"fail_over": limit.fail_over, "exceeded": over} | sections)
    elif screen.talks:
        show_verdict(found.verdict)
        if levels is not None:
            show_levels(levels)
        hint = "Give -o report.html to write the full report."
        say(hint if output is None else f"The report is in {output}.")
    screen.notes(warned)
    if limit.fail_over is not None:
        of = "scores or decisions" if limit.gap == "either" else limit.gap
        said = f"the gap between groups in {of} may be as large as {bound:.4f}"
        if over:  # said even if --quiet, for whoever looks why a check failed
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
        return {"X": model_source(model, files), **named}, None
    cells = ready(files.read(), files)
    apart = [each for each in (name, weight) if each is not None]
    given = evidence(model, cells.drop(exactly(apart)))
    if name is not None:
        given["y"] = cells[name]
    if weight is not None:
        given["sample_weight"] = cells[weight].to_numpy()
    return given, cells


def _bound(found: Audit, limit: Limit, source: str) -> float | None:
    """Upper bound of the gap that is asked for."""
    if found.parity is None:
        if limit.fail_over is None:
            return None
        why = found.left_out.get("parity", "no two groups have known members among the rows")
        raise TableError(
            f"{source}: the gap between groups is not known ({why}): --fail-over needs the "
            "sensitive columns"
        )
    if limit.gap == "either":
        return found.parity.gap_upper
    parts = found.parity.scores if limit.gap == "scores" else found.parity.decisions
    return max(d.gap_upper for d in parts)
