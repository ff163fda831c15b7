"""``fairpc audit``: what a model and a table say about each other; a report, and an exit code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fairpc.cli.absent import note_absent
from fairpc.cli.models import loaded
from fairpc.cli.outputs import check_output
from fairpc.cli.screen import Voice, console, print_json, say
from fairpc.cli.streamed import is_large, ready_source
from fairpc.cli.tables import Reading, about, column, evidence, opened, ready
from fairpc.data.source import Warned
from fairpc.errors import FairpcError, TableError

if TYPE_CHECKING:
    from fairpc.auditing import Audit
    from fairpc.data.files import TableFiles
    from fairpc.estimators.base import CircuitClassifier

GAPS: Final = ("either", "scores", "decisions")
# Parts of the record that only the page needs: megabytes that no reader of JSON asks for.
_PAGE_ONLY: Final = ("what_if",)


def run(
    model_file: str,
    table: str,
    output: str | None,
    *,
    fail_over: float | None,
    gap: str,
    label: str | None,
    trade_off: bool | None,
    seed: int,
    max_memory: str | None,
    reading: Reading,
    voice: Voice,
) -> bool:
    """Audit a model on a table; whether the gap between groups may be larger than allowed."""
    if gap not in GAPS:
        raise FairpcError(f"--gap is {gap!r}: use {', '.join(GAPS)}")
    if output is not None:
        if Path(output).suffix.lower() not in (".html", ".htm"):
            raise FairpcError(f"{output}: the report is an HTML page, give a name that ends .html")
        check_output(output, model_file, table)
    # Other methods take most of the time, and only the report shows them.
    others = output is not None if trade_off is None else trade_off
    model = loaded(model_file)
    warned = Warned()
    with opened(table, reading) as files, about(files.source):
        note_absent(model, files, voice)
        with warned.watching():
            found = _audited(model, files, label, others, seed, max_memory, voice)
        bound = _bound(found, gap, files.source, fail_over)
    if output is not None:
        found.save(output)
    over = fail_over is not None and bound is not None and bound > fail_over
    if voice.json:
        print_json(_facts(found, output, gap, bound, fail_over, over))
    elif voice.talks:
        _show(found, output)
    if fail_over is not None:
        verdict = "larger than" if over else "not larger than"
        voice.note(
            f"the gap between groups ({gap}) is at most {bound:.4f}: {verdict} {fail_over:g}"
        )
    voice.notes(warned)
    return over


def _audited(
    model: CircuitClassifier,
    files: TableFiles,
    label: str | None,
    others: bool,
    seed: int,
    max_memory: str | None,
    voice: Voice,
) -> Audit:
    from fairpc.auditing import audit
    from fairpc.refits.workbench import progress

    name = _label(model, files, label)
    if name is None:
        voice.note(
            f"{files.source} has no label column {model.coding_.labels.name!r}: what compares "
            "decisions with labels is left out"
        )
    given: dict[str, Any]
    if max_memory is not None or is_large(files):
        given = {"X": ready_source(model, files), "y": name, "max_memory": max_memory}
    else:
        cells = ready(files.read(), files)
        given = evidence(model, cells if name is None else cells.drop(name))
        given["y"] = None if name is None else cells[name]
    with progress(voice.shows_progress, None) as step:
        return audit(model, random_state=seed, baselines=others, progress=step, **given)


def _label(model: CircuitClassifier, files: TableFiles, given: str | None) -> str | None:
    """The label column: the one that is named, or that of the fit if it is there."""
    if given is not None:
        return column(files.names(), given, "--label", files.source)
    fitted = model.coding_.labels.name
    return fitted if fitted in files.names() else None


def _bound(found: Audit, gap: str, source: str, fail_over: float | None) -> float | None:
    """Upper bound of the gap that is asked for."""
    if found.parity is None:
        if fail_over is None:
            return None
        why = found.left_out.get("parity", "no two groups have known members among the rows")
        raise TableError(
            f"{source}: the gap between groups is not known ({why}): --fail-over needs the "
            "sensitive columns"
        )
    if gap == "either":
        return found.parity.gap_upper
    parts = found.parity.scores if gap == "scores" else found.parity.decisions
    return max(d.gap_upper for d in parts)


def _facts(
    found: Audit,
    output: str | None,
    gap: str,
    bound: float | None,
    fail_over: float | None,
    over: bool,
) -> dict[str, Any]:
    sections = {k: v for k, v in found.to_dict().items() if k not in _PAGE_ONLY}
    return {
        "report": output,
        "gap": gap,
        "gap_upper": bound,
        "fail_over": fail_over,
        "exceeded": over,
        **sections,
    }


def _show(found: Audit, output: str | None) -> None:
    out = console()
    for i, sentence in enumerate(found.verdict.sentences):
        say(sentence, out, "bold" if i == 0 else "")
    say(f"\n{found.verdict.disclaimer}", out)
    if output is not None:
        say(f"The report is in {output}.", out)
    else:
        say("Give -o report.html to have it all on a page.", out)
