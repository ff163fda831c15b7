"""``fairpc audit`` and ``file``: what a model and a table say about each other; a report, an exit
code, and the papers that people must file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np
import typer

import fairpc.cli._options as opt
from fairpc.cli._decided import decided_table
from fairpc.cli._options import Limit
from fairpc.cli._review import classes_of, show_review
from fairpc.cli._review_files import read_reviews
from fairpc.cli._screen import Screen, complain, grid, print_json, say
from fairpc.cli._tables import (
    STDIN,
    STDOUT,
    about,
    answers_of,
    check_document,
    check_output,
    column,
    deliver,
    evidence,
    is_large,
    loaded,
    model_source,
    note_absent,
    opened,
    ready,
    unseen_columns,
)
from fairpc.core import (
    MAX_BYTES,
    AuditError,
    Codes,
    FairpcError,
    FileFormatError,
    Floats,
    OptionError,
    TableError,
    read_whole,
    write_atomically,
)
from fairpc.data import Warned, code_columns, exactly, read_frame

if TYPE_CHECKING:
    import polars as pl

    from fairpc.auditing import Answers, Audit, Document, GivenDecisions, ParityFacts, Verdict
    from fairpc.cli._decided import AuditedTable
    from fairpc.data import TableFiles
    from fairpc.models import CircuitClassifier, FittedModel, Reviewed

Facts = dict[str, Any]

GAP_EXCEEDED: Final = 1
# Parts of the record that only the page needs: megabytes that no reader of JSON asks for.
_PAGE_ONLY: Final = ("what_if",)
MOST_LEVELS: Final = 20
"""Levels of a column that is no feature of the model."""
LEVEL: Final = 0.95
FORM: Final = "answers"
PAPERS: Final = ("card", "ll144", "annex-iv", FORM)


def audit(
    model_file: Annotated[
        str, opt.argument("[MODEL]", "A file that fit wrote; left out with --decision.")
    ],
    table: Annotated[
        str | None,
        opt.argument("TABLE", "As for fit: a file, a folder, a sheet, or - for stdin."),
    ] = None,
    output: Annotated[str | None, opt.output("The report, one HTML file.")] = None,
    *,
    decided: opt.DecisionOptions,
    limit: opt.Limit,
    label: Annotated[
        str | None,
        opt.option("COL", "The label column; with a model, if it has another name than at fit."),
    ] = None,
    level: Annotated[
        float,
        opt.option("SHARE", "Confidence of intervals and ranges.", min=0.5, max=0.9999),
    ] = LEVEL,
    trade_off: Annotated[
        bool | None,
        opt.option(
            None,
            "Also fit other methods for the report (slow).",
            "--trade-off/--no-trade-off",
            show_default=False,
        ),
    ] = None,
    by: Annotated[
        str | None,
        opt.option(
            "COL",
            "Also give the gaps between groups within each level of a column, such as a branch.",
        ),
    ] = None,
    reviewed: opt.ReviewedFiles = None,
    weight: opt.Weight = None,
    allow_unseen: opt.AllowUnseen = None,
    seed: opt.Seed = 0,
    max_memory: opt.MaxMemory = None,
    text: opt.TextFormat,
    screen: Screen,
) -> None:
    """Test a model and its assumptions on a table, or decisions of any model; write the report.

    The table is read as the fit was told to read its own, and its weights are used.

    Example: fairpc audit loans.fairpc new.csv -o report.html

    Any model: fairpc audit new.csv --label repaid --sensitive sex --decision granted -o report.html

    In CI: fairpc audit loans.fairpc new.csv --fail-over 0.05
    """
    from fairpc import auditing
    from fairpc.models import progress

    if output is not None:
        if Path(output).suffix.lower() not in (".html", ".htm"):
            raise FairpcError(f"{output}: the report is an HTML page, give a name ending in .html")
        check_output(output, *filter(None, (model_file, table)))
    # Other methods take most of the time: `fairpc compare` is for them.
    others = bool(trade_off)
    model = _model(model_file, table, decided)
    warned = Warned()
    at_fit = {} if model is None else model.table_options_
    with opened(table or model_file, text, at_fit) as files, about(files.source):
        with warned.watching():
            if model is None:
                found = decided_table(files, label, decided, weight)
            else:
                found = _of_model(model, files, allow_unseen, label, weight, max_memory, screen)
            subject, given, cells = found
            by = None if by is None else column(files.names(), by, "--by", files.source)
            if limit.fail_over is not None and not (screen.prints_text or screen.json or output):
                # Nothing is shown: the gap is all that is needed.
                _judge(_gaps_alone(subject, given, seed, level), limit, screen)
                return
            levels = gaps_by_level(subject, given, cells, by)
            if reviewed:
                given["reviewed"] = _answers_of(reviewed, cells, subject, files, label, screen)
            how: Facts = {"level": level, "random_state": seed, "baselines": others}
            with progress(screen.shows_progress, None) as step:
                audited = auditing.audit(subject, progress=step, **how, **given)
        if audited.parity is None and limit.fail_over is not None:
            raise _not_known(audited.left_out.get("parity", "no two groups have known members"))
    if output is not None:
        audited.save(output)
    if screen.json:
        shown = {k: v for k, v in audited.to_dict().items() if k not in _PAGE_ONLY}
        facts = {"report": output, "by": levels, "fail_over": limit.fail_over}
        print_json(facts | _gate(audited.parity, limit) | shown)
    elif screen.prints_text:
        show_verdict(audited.verdict)
        if audited.review is not None:
            show_review(audited.review)
        if levels is not None:
            show_levels(levels)
        hint = "Give -o report.html to write the full report."
        say(hint if output is None else f"The report is in {output}.")
    screen.notes(warned)
    _judge(audited.parity, limit, screen)


def _answers_of(
    paths: list[str],
    cells: pl.DataFrame | None,
    model: FittedModel | GivenDecisions,
    files: TableFiles,
    label: str | None,
    screen: Screen,
) -> Reviewed:
    """What reviewers said of the table."""
    if cells is None:
        raise OptionError(
            "--reviewed needs the table in memory, and it is read in parts: give fewer rows, or "
            "leave out --max-memory"
        )
    name = column(files.names(), label or model.coding_.labels.name, "--label", files.source)
    if name not in cells.columns:  # beside decisions the label is apart
        cells = ready(files.read(), files)
    return read_reviews(paths, cells, files.source, (name, classes_of(model.coding_)), screen)[0]


def _model(model_file: str, table: str | None, decided: opt.DecisionOptions) -> FittedModel | None:
    """The model that is audited; None where decisions are, and MODEL is the table."""
    if decided.decision is None:
        if table is None:
            raise OptionError(
                "audit was given one file: give MODEL and TABLE, or TABLE alone with --label, "
                "--sensitive and --decision to audit decisions of any model"
            )
        return loaded(model_file)
    if table is not None:
        raise OptionError(
            "--decision audits a column of TABLE: give TABLE alone, or leave out --decision for "
            "the decisions of MODEL"
        )
    return None


def _gaps_alone(
    model: FittedModel | GivenDecisions, given: Facts, seed: int, level: float
) -> ParityFacts:
    """Gaps between groups, without the rest of an audit."""
    from fairpc.auditing import group_gaps

    try:
        return group_gaps(model, random_state=seed, level=level, **given)
    except AuditError as error:
        raise _not_known(str(error)) from None


def _bound(facts: ParityFacts, limit: Limit) -> float:
    """Upper bound of the gap that is asked for."""
    if limit.gap == "either":
        return facts.gap_upper
    parts = facts.scores if limit.gap == "scores" else facts.decisions
    if not parts:
        raise OptionError("--gap scores needs scores, and there are decisions alone: give --score")
    return max(d.gap_upper for d in parts)


def _not_known(why: str) -> TableError:
    return TableError(
        f"the gap between groups is not known ({why}): --fail-over needs the sensitive columns"
    )


def _gate(facts: ParityFacts | None, limit: Limit) -> dict[str, Any]:
    """The gap that is asked for: its upper bound, whether that is too large or says nothing."""
    if facts is None:
        return {"gap": limit.gap, "gap_upper": None, "exceeded": False, "undecided": None}
    bound = _bound(facts, limit)
    asked = ("decisions", "scores") if limit.gap == "either" else (limit.gap,)
    return {
        "gap": limit.gap,
        "gap_upper": bound,
        "exceeded": limit.fail_over is not None and bound > limit.fail_over,
        "undecided": next((facts.undecided[of] for of in asked if of in facts.undecided), None),
    }


def _judge(facts: ParityFacts | None, limit: Limit, screen: Screen) -> None:
    """End with code 1 if the gap may be larger than allowed, or these rows cannot tell, and say
    so even if --quiet."""
    if limit.fail_over is None:
        return
    gate = _gate(facts, limit)
    of = "scores or decisions" if limit.gap == "either" else limit.gap
    said = f"the gap between groups in {of} may be as large as {gate['gap_upper']:.4f}"
    if gate["exceeded"]:
        complain(f"{said}, which is more than the {limit.fail_over:g} of --fail-over")
        raise typer.Exit(GAP_EXCEEDED)
    if gate["undecided"]:
        complain(f"--fail-over cannot be decided: {gate['undecided']}")
        raise typer.Exit(GAP_EXCEEDED)
    screen.note(f"{said}; --fail-over allows {limit.fail_over:g}")


def show_verdict(verdict: Verdict) -> None:
    """What was found, how sure that is, what to do."""
    say(verdict.headline, "bold")
    parts = {"Found": verdict.found, "How sure": verdict.sure, "What to do": verdict.to_do}
    for title, sentences in parts.items():
        say(f"\n{title}", "bold")
        for sentence in sentences:
            say(f"- {sentence}")
    say(f"\n{verdict.disclaimer}")


def _of_model(
    model: FittedModel,
    files: TableFiles,
    allow_unseen: list[str] | None,
    label: str | None,
    weight: str | None,
    max_memory: str | None,
    screen: Screen,
) -> AuditedTable:
    """A model, arguments of ``audit`` for a table, and its cells if they are in memory."""
    note_absent(model, files, screen)
    unseen = unseen_columns(model, files, allow_unseen, screen)
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
        return model, {"X": model_source(model, files, unseen), **named}, None
    cells = ready(files.read(), files)
    apart = [each for each in (name, weight) if each is not None]
    given = evidence(model, cells.drop(exactly(apart)), unseen)
    if name is not None:
        given["y"] = cells[name]
    if weight is not None:
        given["sample_weight"] = cells[weight].to_numpy()
    return model, given, cells


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


def _levels_of(
    model: FittedModel | GivenDecisions, cells: pl.DataFrame, name: str
) -> tuple[tuple[str, ...], Codes]:
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
    if not 0 < len(known) <= MOST_LEVELS:
        raise TableError(
            f"column {name!r} has {len(known)} values: --by takes a column of 1 to {MOST_LEVELS}, "
            "or a feature of the model"
        )
    codes = {text: code for code, text in enumerate(known)}
    return known, np.array([codes.get(text, -1) for text in texts.to_list()], np.int16)


def gaps_by_level(
    model: FittedModel | GivenDecisions,
    given: Mapping[str, Any],
    cells: pl.DataFrame | None,
    column: str | None,
) -> Facts | None:
    """Gaps of labels and of decisions in each level of a column; None where none is asked for.

    All intervals of a kind hold together. ``given`` are the arguments of an audit: X, and what goes
    with its rows; ``cells`` are those of the table, None where it is read in parts.
    """
    from fairpc.auditing import GivenDecisions

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
    if isinstance(model, GivenDecisions):
        decided = (model.decided == coding.labels.positive).astype(np.float64)
    else:
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
    level = 1 - (1 - LEVEL) / n_levels
    try:
        found = parity(values[here], groups[here].astype(str), level=level, sample_weight=kept)
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


def file(
    paper: Annotated[
        str,
        opt.argument(
            "PAPER",
            "card, a model card; ll144, New York City's tables; annex-iv, sections of the EU AI "
            "Act; or answers, an empty form for what people have to state.",
        ),
    ],
    audit_file: Annotated[
        str | None, opt.argument("AUDIT", "What `fairpc audit --json` printed; - for stdin.")
    ] = None,
    answers: opt.AnswersFile = None,
    output: Annotated[
        str | None, opt.output("The paper: .html or .md; Markdown on stdout by default.")
    ] = None,
    *,
    screen: Screen,
) -> None:
    """Write a paper that people must file, from an audit.

    What the tool cannot know is marked as to be filled in, or comes from --answers.

    Example: fairpc audit loans.fairpc new.csv --json > audit.json

    fairpc file card audit.json --answers answers.toml -o card.html
    """
    if paper not in PAPERS:
        raise OptionError(f"{paper!r} is no paper: choose one of {', '.join(PAPERS)}")
    if paper == FORM:
        _write_form(audit_file, answers, output, screen)
        return
    if audit_file is None:
        raise OptionError(
            f"{paper} needs an audit: write one with `fairpc audit MODEL TABLE --json > audit.json`"
        )
    check_document(output, audit_file, answers)
    known = answers_of(answers)
    deliver(_papers()[paper](_read_audit(audit_file), known), output, screen)


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


def _read_audit(path: str) -> Audit:
    from fairpc.auditing import Audit

    piped = path == STDIN
    text = sys.stdin.buffer.read(MAX_BYTES + 1) if piped else read_whole(path, MAX_BYTES)
    try:
        return Audit.from_json(text)
    except FileFormatError as error:
        raise FileFormatError(f"{'stdin' if piped else path}: {error}") from None
