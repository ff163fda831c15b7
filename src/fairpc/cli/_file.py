"""``fairpc file`` and ``explain``: papers from one audit, and the reasons for one person."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from fairpc.cli._options import TextFormat
from fairpc.cli._screen import Screen, grid, print_json, say
from fairpc.cli._tables import (
    STDIN,
    STDOUT,
    check_output,
    column,
    evidence,
    loaded,
    note_absent,
    opened,
    ready,
)
from fairpc.core import (
    FileFormatError,
    NotAnsweredError,
    OptionError,
    TableError,
    counted,
    read_whole,
    write_atomically,
)
from fairpc.data import Warned

if TYPE_CHECKING:
    import polars as pl

    from fairpc.auditing import Answers, Audit, Document, Reasons
    from fairpc.models import FittedModel

FORM: Final = "answers"
PAPERS: Final = ("card", "ll144", "annex-iv", FORM)


def run(
    paper: str, audit_file: str | None, answers: str | None, output: str | None, screen: Screen
) -> None:
    """Write a paper from an audit, or the form for what people have to state."""
    if paper not in PAPERS:
        raise OptionError(f"{paper!r} is no paper: choose one of {', '.join(PAPERS)}")
    if paper == FORM:
        _write_form(audit_file, answers, output, screen)
        return
    if audit_file is None:
        raise OptionError(
            f"{paper} needs an audit: write one with `fairpc audit MODEL TABLE --json > audit.json`"
        )
    _check(output, screen, audit_file, answers)
    known = _answers(answers)
    _deliver(_papers()[paper](_audit(audit_file), known), output, screen)


def _papers() -> Mapping[str, Callable[[Audit, Answers], Document]]:
    from fairpc.auditing import bias_audit_tables, model_card, technical_documentation

    makers = (model_card, bias_audit_tables, technical_documentation)
    return dict(zip(PAPERS, makers, strict=False))


def _write_form(
    audit_file: str | None, answers: str | None, output: str | None, screen: Screen
) -> None:
    from fairpc.auditing import form

    if audit_file is not None or answers is not None:
        raise OptionError(f"{FORM} is an empty form: leave out the audit and --answers")
    if screen.json:
        raise OptionError(f"{FORM} is a form to fill in, in TOML: leave out --json")
    if output is None or output == STDOUT:
        sys.stdout.write(form())
        return
    if not output.lower().endswith(".toml"):
        raise OptionError(f"{output}: the form is TOML, give a name that ends in .toml")
    check_output(output)
    write_atomically(output, form().encode())
    screen.note(f"the form is in {output}: fill in what you know, and give it as --answers")


def _check(output: str | None, screen: Screen, *reads: str | None) -> None:
    """Refuse what cannot be written before the work begins."""
    from fairpc.auditing import is_markdown

    if output is None or output == STDOUT:
        return
    is_markdown(output)  # an error where it is neither Markdown nor HTML
    check_output(output, *(name for name in reads if name is not None and name != STDIN))


def _answers(path: str | None) -> Answers:
    from fairpc.auditing import Answers, read_answers

    return Answers() if path is None else read_answers(path)


def _audit(path: str) -> Audit:
    from fairpc.auditing import Audit
    from fairpc.core import MAX_BYTES

    piped = path == STDIN
    text = sys.stdin.buffer.read(MAX_BYTES + 1) if piped else read_whole(path, MAX_BYTES)
    try:
        return Audit.from_json(text)
    except FileFormatError as error:
        raise FileFormatError(f"{'stdin' if piped else path}: {error}") from None


def _deliver(document: Document, output: str | None, screen: Screen) -> None:
    """Write a document; without a file, as Markdown on stdout."""
    to_file = output is not None and output != STDOUT
    if to_file and output is not None:
        document.save(output)
    if screen.json:
        print_json({"output": output} | document.to_dict())
    elif to_file:
        screen.note(f"{document.kind}: written to {output}. {document.unfilled}".rstrip())
    else:
        sys.stdout.write(document.to_markdown())


def explain(
    model_file: str,
    person: str | None,
    table: str | None,
    row: int | None,
    answers: str | None,
    output: str | None,
    text: TextFormat,
    screen: Screen,
) -> None:
    """Say what moved the score of one person; write a statement of reasons."""
    from fairpc.auditing import reasons, statement_of_reasons
    from fairpc.models import LatentDecision

    if (person is None) == (table is None):
        raise OptionError(
            'explain is about one person: give what is known, such as "age=37, sex=F", or a row '
            "of a table, with --table and --row"
        )
    if (table is None) != (row is None):
        raise OptionError("--table and --row go together: give both, or neither")
    _check(output, screen, model_file, table, answers)
    known = _answers(answers)
    model = loaded(model_file, then="PERSON")
    if isinstance(model, LatentDecision):
        raise NotAnsweredError(
            f"{model_file} holds a LatentDecision, which cannot sum a value out: explain a model "
            "that `fairpc fit --model FairPC` wrote"
        )
    warned = Warned()
    with warned.watching():
        cells = _said(model, person) if table is None else _taken(model, table, row, text, screen)
        given = {_NAMES.get(k, k): v for k, v in evidence(model, cells).items()}
        found = reasons(model, **given)
    screen.notes(warned)
    if output is not None or screen.json:
        _tell(found, statement_of_reasons(found, known), output, screen)
    else:
        _show(found, known)


_NAMES: Final = {"X": "row"}


def _tell(found: Reasons, document: Document, output: str | None, screen: Screen) -> None:
    if output == STDOUT and screen.json:
        raise OptionError("-o - and --json both want stdout: give -o a file, or leave out --json")
    if not screen.json:
        _deliver(document, output, screen)
        return
    if output is not None:
        document.save(output)
    print_json({"output": output} | found.to_dict())


def _said(model: FittedModel, person: str | None) -> pl.DataFrame:
    """One row with what is said of a person; the rest is empty."""
    import polars as pl

    from fairpc.models import parse

    query = parse(person or "")
    coding = model.coding_
    names = (*coding.features.names, *coding.groups.column_names)
    cells: dict[str, Any] = {}
    if query.given:
        raise OptionError('PERSON has a bar: say only what is known, such as "age=37, sex=F"')
    for term in query.targets:
        if term.sign not in ("", "=") or term.also is not None:
            raise OptionError(f"PERSON says {str(term)!r}: give one value for each name, with =")
        name = column(names, term.name, "PERSON", "the model")
        if name in cells:
            raise OptionError(f"PERSON names {name!r} twice: give it once")
        cells[name] = term.value
    return pl.DataFrame({name: [value] for name, value in cells.items()}, strict=False).cast(
        pl.String
    )


def _taken(
    model: FittedModel, table: str, row: int | None, text: TextFormat, screen: Screen
) -> pl.DataFrame:
    """One row of a table."""
    number = row or 1
    with opened(table, text, model.table_options_) as files:
        note_absent(model, files, screen)
        with files.reading():
            cells = ready(files.scan().slice(number - 1, 1).collect(), files)
        if not cells.height:
            raise TableError(f"{files.source} has no row {number}: rows are counted from 1")
        return cells


def _show(found: Reasons, known: Answers) -> None:
    """Reasons on the screen."""
    from fairpc.auditing import in_words, of_what

    say(f"{of_what(found)} is {found.score:.2%}: the decision is {found.decision!r}.", "bold")
    if found.bounds is not None:
        low, high = found.bounds
        say(f"The labels leave {low:.2%} to {high:.2%} possible.")
    elif found.latent:
        say(f"What the labels leave possible is not known: {found.no_bounds}.")
    moved = sorted((*found.lowered, *found.raised), key=lambda r: r.change)
    rows = [(in_words(r, known.words), f"{100 * r.change:+.2f}", f"{r.without:.2%}") for r in moved]
    say()
    grid(("Value", "Change, points", "Score without it"), rows)
    if found.unmoved:
        say(f"{counted(len(found.unmoved), 'known value')} changed nothing.")
    if found.group is not None:
        name, change = ", ".join(found.sensitive), 100 * found.group.change
        say(f"The score took {name} into account: {change:+.2f} points.")
    say(
        "Each change is exact: the score, minus the score when this one value is not known. Values "
        "that go together share their effect, so changes do not add up."
    )
