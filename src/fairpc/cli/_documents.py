"""``fairpc explain`` and ``document``: reasons for the score of one person, and what people must
file or publish, made from an audit."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final

import fairpc.cli._options as opt
import fairpc.cli._polars as pl
import fairpc.cli._tables as tables
from fairpc import auditing, core, data, models
from fairpc.cli._model_file import circuit_model
from fairpc.cli._screen import Screen, grid, print_json, say
from fairpc.core import FairpcError, FileFormatError, OptionError, TableError

FORM: Final = "answers"
MAKERS: Final = {
    "card": "model_card",
    "ll144": "bias_audit_tables",
    "annex-iv": "technical_documentation",
}
"""Who makes each document of ``auditing``."""


def explain(
    model_file: opt.ModelFile,
    person: Annotated[
        str | None,
        opt.argument("PERSON", "'age=37, job=clerk, sex=F': what is known of one person."),
    ] = None,
    table: Annotated[
        str | None, opt.option("TABLE", "A table to take the person from, with --row.")
    ] = None,
    row: Annotated[
        int | None,
        opt.option("N", "Which row of --table, counted from 1: review_id plus 1.", min=1),
    ] = None,
    answers: opt.AnswersFile = None,
    output: Annotated[
        str | None, opt.output("A statement of reasons: .html or .md; - for Markdown on stdout.")
    ] = None,
    *,
    text: opt.TextFormat,
    screen: Screen,
) -> None:
    """Say what moved the score of one person, value by value.

    Each change is exact: the score, minus the score when this one value is not known.

    Example: fairpc explain loans.fairpc "age=37, amount=4000" -o reasons.html
    """
    if (person is None) == (table is None):
        raise OptionError(
            'explain is about one person: give what is known, such as "age=37, sex=F", or a row '
            "of a table, with --table and --row"
        )
    if (table is None) != (row is None):
        raise OptionError("--table and --row go together: give both, or neither")
    check_document(output, model_file, table, answers)
    known = answers_of(answers)
    model = circuit_model(model_file, "PERSON")
    warned = data.Warned()
    with warned.watching():
        cells = _said(model, person) if table is None else _taken(model, table, row, text, screen)
        given = tables.evidence(model, cells)
        explained = auditing.reasons(model, given.pop("X"), **given)
    screen.notes(warned)
    if output is None and not screen.json:
        _show(explained, known)
        return
    if output == tables.STDOUT:
        tables.refuse_both(screen)
    deliver(auditing.statement_of_reasons(explained, known), output, screen, explained.to_dict())


def _said(model: models.FittedModel, person: str | None) -> pl.DataFrame:
    """One row with what is said of a person; the rest is empty."""
    query = models.parse(person or "")
    names = (*model.coding_.features.names, *model.coding_.groups.column_names)
    for term in query.targets:
        if not term.sign and term.name not in names and opt.as_number(term.name) is not None:
            raise OptionError(
                f"PERSON has {term.name!r} after a comma: write decimals with a point, as 5.8, or "
                "put the value into quotes"
            )
    columns = [tables.column(names, term.name, "PERSON", "the model") for term in query.targets]
    signs = {term.sign if term.also is None else "<" for term in query.targets}
    if query.given or not signs <= {"", "="} or len({*columns}) < len(columns):
        raise OptionError(
            "PERSON says more than what is known: give one value for each name, with =, such as "
            '"age=37, sex=F"'
        )
    cells = dict(zip(columns, (term.value for term in query.targets), strict=True))
    written = {each.name for each in model.coding_.features.columns if each.decimal != "."}
    # A query has numbers as programs write them, however the table does.
    numbers = {name: opt.as_number(cells[name] or "") for name in written & {*columns}}
    known = cells | {name: number for name, number in numbers.items() if number is not None}
    types = {n: pl.Float64 if isinstance(value, float) else pl.String for n, value in known.items()}
    return pl.DataFrame([known], schema=types)


def _taken(
    model: models.FittedModel, table: str, row: int | None, text: opt.TextFormat, screen: Screen
) -> pl.DataFrame:
    """One row of a table."""
    number = row or 1
    with tables.opened(table, text, model.table_options_) as files:
        tables.note_absent(model, files, screen)
        with files.reading():
            cells = tables.ready(files.scan().slice(number - 1, 1).collect(), files)
        if not cells.height:
            raise TableError(f"{files.source} has no row {number}: rows are counted from 1")
        return cells


def _show(reasons: auditing.Reasons, known: auditing.Answers) -> None:
    """Reasons on the screen."""
    what = auditing.of_what(reasons).removeprefix("the")
    say(f"The{what} is {reasons.score:.2%}: the decision is {reasons.decision!r}.", "bold")
    if reasons.bounds is not None:
        low, high = reasons.bounds
        say(
            f"For all people with this score the labels leave {low:.2%} to {high:.2%} possible, "
            "sampling error apart; one person may differ from them."
        )
    elif reasons.latent:
        say(f"What the labels leave possible is not known: {reasons.no_bounds}.")
    moved = sorted((*reasons.lowered, *reasons.raised), key=lambda r: r.change)
    rows = [
        (auditing.in_words(r, known.words), f"{100 * r.change:+.2f}", f"{r.without:.2%}")
        for r in moved
    ]
    say()
    grid(("Value", "Change, points", "Score without it"), rows)
    if reasons.unmoved:
        say(f"{core.counted(len(reasons.unmoved), 'known value')} changed nothing.")
    if reasons.group is not None:
        name, change = ", ".join(reasons.sensitive), 100 * reasons.group.change
        say(f"The score took {name} into account: {change:+.2f} points.")
    say(
        "Each change is exact: the score, minus the score when this one value is not known. Values "
        "that go together share their effect, so changes do not add up."
    )


def document(
    name: Annotated[
        str,
        opt.argument(
            "NAME",
            "card, a model card; ll144, New York City's tables; annex-iv, sections of the EU AI "
            "Act; or answers, an empty form for what people have to state.",
        ),
    ],
    audit_file: Annotated[
        str | None, opt.argument("AUDIT", "What `fairpc audit --json` printed; - for stdin.")
    ] = None,
    answers: opt.AnswersFile = None,
    output: Annotated[
        str | None, opt.output("The document: .html or .md; Markdown on stdout by default.")
    ] = None,
    *,
    screen: Screen,
) -> None:
    """Write a document that people must file or publish, from an audit.

    What the tool cannot know is marked as to be filled in, or comes from --answers.

    Example: fairpc audit loans.fairpc new.csv --json > audit.json

    fairpc document card audit.json --answers answers.toml -o card.html
    """
    if name not in (*MAKERS, FORM):
        raise OptionError(f"there is no document {name!r}: choose {', '.join((*MAKERS, FORM))}")
    if name == FORM:
        _write_form(audit_file, answers, output, screen)
        return
    if audit_file is None:
        raise OptionError(
            f"{name} needs an audit: write one with `fairpc audit MODEL TABLE --json > audit.json`"
        )
    check_document(output, audit_file, answers)
    known = answers_of(answers)
    piped, most = audit_file == tables.STDIN, core.MAX_BYTES
    text = sys.stdin.buffer.read(most + 1) if piped else core.read_whole(audit_file, most)
    source = "stdin" if piped else audit_file
    try:
        made = getattr(auditing, MAKERS[name])(auditing.Audit.from_json(text), known)
    except FileFormatError as error:
        raise FileFormatError(f"{source}: {error}") from None
    except FairpcError:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError):  # as of a group that is not there
        raise FileFormatError(
            f"{source}: what it says does not fit together: give what `fairpc audit --json` printed"
        ) from None
    deliver(made, output, screen)


def _write_form(
    audit_file: str | None, answers: str | None, output: str | None, screen: Screen
) -> None:
    if audit_file is not None or answers is not None:
        raise OptionError(f"{FORM} is an empty form: leave out the audit and --answers")
    if screen.json:
        raise OptionError(f"{FORM} is a form to fill in, in TOML: leave out --json")
    if output is None or output == tables.STDOUT:
        sys.stdout.write(auditing.form())
        return
    if not output.lower().endswith(".toml"):
        raise OptionError(f"{output}: the form is TOML, give a name that ends in .toml")
    tables.check_output(output)
    core.write_atomically(output, auditing.form().encode())
    screen.note(f"the form is in {output}: fill in what you know, and give it as --answers")


def check_document(output: str | None, *reads: str | None) -> None:
    """Refuse what cannot be written before the work begins."""
    if output is not None and output != tables.STDOUT:
        auditing.is_markdown(output)  # an error where it is neither Markdown nor HTML
        tables.check_output(output, *(name for name in reads if name != tables.STDIN))


def answers_of(path: str | None) -> auditing.Answers:
    return auditing.Answers() if path is None else auditing.read_answers(path)


def deliver(
    document: auditing.Document,
    output: str | None,
    screen: Screen,
    facts: dict[str, Any] | None = None,
) -> None:
    """Write a document, without a file as Markdown on stdout; or it or its facts as JSON."""
    file = None if output == tables.STDOUT else output
    if file is not None:
        document.save(file)
    if screen.json:
        print_json({"output": output} | (facts or document.to_dict()))
    elif file is not None:
        screen.note(f"{document.kind}: written to {file}. {document.unfilled}".rstrip())
    else:
        sys.stdout.write(document.to_markdown())
