"""``fairpc audit``: what a model and a table say about each other; a report, and an exit code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from fairpc.cli._levels import gaps_by_level, show_levels
from fairpc.cli._options import Limit, TextFormat
from fairpc.cli._screen import Screen, complain, print_json, say
from fairpc.cli._tables import (
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
from fairpc.core import AuditError, FairpcError, TableError
from fairpc.data import Warned, exactly

if TYPE_CHECKING:
    import polars as pl

    from fairpc.auditing import ParityFacts, Verdict
    from fairpc.data import TableFiles
    from fairpc.models import CircuitClassifier

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
    from fairpc.models import progress

    if output is not None:
        if Path(output).suffix.lower() not in (".html", ".htm"):
            raise FairpcError(f"{output}: the report is an HTML page, give a name ending in .html")
        check_output(output, model_file, table)
    # Other methods take most of the time, and only the report shows them.
    others = output is not None if trade_off is None else trade_off
    model = loaded(model_file)
    warned = Warned()
    with opened(table, text, model.table_options_) as files, about(files.source):
        note_absent(model, files, screen)
        unseen = unseen_columns(model, files, allow_unseen, screen)
        with warned.watching():
            given, cells = _given(model, files, unseen, label, weight, max_memory, screen)
            by = None if by is None else column(files.names(), by, "--by", files.source)
            if limit.fail_over is not None and not (screen.talks or screen.json or output):
                # Nothing is shown: the gap is all that is needed.
                _judge(_gaps_alone(model, given, seed), limit, screen)
                return
            levels = gaps_by_level(model, given, cells, by)
            with progress(screen.shows_progress, None) as step:
                found = audit(model, random_state=seed, baselines=others, progress=step, **given)
        if found.parity is None and limit.fail_over is not None:
            raise _not_known(found.left_out.get("parity", "no two groups have known members"))
    if output is not None:
        found.save(output)
    if screen.json:
        shown = {k: v for k, v in found.to_dict().items() if k not in _PAGE_ONLY}
        facts = {"report": output, "by": levels, "fail_over": limit.fail_over}
        print_json(facts | _gate(found.parity, limit) | shown)
    elif screen.talks:
        show_verdict(found.verdict)
        if levels is not None:
            show_levels(levels)
        hint = "Give -o report.html to write the full report."
        say(hint if output is None else f"The report is in {output}.")
    screen.notes(warned)
    _judge(found.parity, limit, screen)


def _gaps_alone(model: CircuitClassifier, given: dict[str, Any], seed: int) -> ParityFacts:
    """Gaps between groups, without the rest of an audit."""
    from fairpc.auditing import group_gaps

    try:
        return group_gaps(model, random_state=seed, **given)
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


def _gate(found: ParityFacts | None, limit: Limit) -> dict[str, Any]:
    """The gap that is asked for: its upper bound, whether that is too large or says nothing."""
    if found is None:
        return {"gap": limit.gap, "gap_upper": None, "exceeded": False, "undecided": None}
    bound = _bound(found, limit)
    asked = ("decisions", "scores") if limit.gap == "either" else (limit.gap,)
    return {
        "gap": limit.gap,
        "gap_upper": bound,
        "exceeded": limit.fail_over is not None and bound > limit.fail_over,
        "undecided": next((found.undecided[of] for of in asked if of in found.undecided), None),
    }


def _judge(found: ParityFacts | None, limit: Limit, screen: Screen) -> None:
    """End with code 1 if the gap may be larger than allowed, or these rows cannot tell, and say
    so even if --quiet."""
    if limit.fail_over is None:
        return
    gate = _gate(found, limit)
    of = "scores or decisions" if limit.gap == "either" else limit.gap
    said = f"the gap between groups in {of} may be as large as {gate['gap_upper']:.4f}"
    if gate["exceeded"]:
        complain(f"{said}, which is more than the {limit.fail_over:g} of --fail-over")
        raise typer.Exit(GAP_EXCEEDED)
    if gate["undecided"]:
        complain(f"--fail-over cannot be decided: {gate['undecided']}")
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
    weight = _weight(model, files, weight, screen)
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


def _weight(
    model: CircuitClassifier, files: TableFiles, weight: str | None, screen: Screen
) -> str | None:
    """The column of the weights: the one that is named, or that of the fit; "" names none."""
    if weight is not None:
        return column(files.names(), weight, "--weight", files.source) if weight else None
    fitted = model.table_options_.get("weight")
    if fitted is None:
        return None
    there = fitted in files.names()
    used = "is used" if there else f"is not in {files.source}: all rows count alike"
    screen.note(f"the column of weights of the fit, {fitted!r}, {used}")
    return fitted if there else None
