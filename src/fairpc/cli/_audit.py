"""``fairpc audit``: what a model and a table say about each other; a report and an exit code."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np
import typer

import fairpc.cli._options as opt
from fairpc.cli._labelled import labelled
from fairpc.cli._options import (
    ColumnOptions,
    DecisionOptions,
    Limit,
    ModelOptions,
    as_typed,
    repeated,
)
from fairpc.cli._review import ReviewedColumns, classes_of, next_batch
from fairpc.cli._review_files import IN_PARTS, read_reviews
from fairpc.cli._screen import Screen, Tone, complain, headline, print_json, say
from fairpc.cli._tables import (
    about,
    check_output,
    column,
    display_names,
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
    AuditError,
    FairpcError,
    Floats,
    OptionError,
    TableError,
)
from fairpc.data import Warned, exactly, read_values

if TYPE_CHECKING:
    import polars as pl

    from fairpc.auditing import Audit, GivenDecisions, ParityFacts
    from fairpc.data import TableFiles
    from fairpc.models import CircuitClassifier, FittedModel, Report, Reviewed

    AuditedTable = tuple[FittedModel | GivenDecisions, dict[str, Any], pl.DataFrame | None]

Facts = dict[str, Any]

GAP_EXCEEDED: Final = 1
# Parts of the record that only the page needs: megabytes that no reader of JSON asks for.
_PAGE_ONLY: Final = ("what_if",)
LEVEL: Final = 0.95
_USUAL: Final = 300
SHOWN: Final = {"found": 2, "sure": 2, "to_do": 2}
"""Sentences of each part of the verdict that are printed; the report has all."""
STAGES: Final = {
    "reading the table": "Reading the table",
    "test of the assumptions": "Testing assumptions",
    "mechanism": "Measuring label bias",
    "gaps within strata": "Looking within strata",
    "gaps in scores and decisions": "Comparing groups",
    "other methods": "Preparing the report",
}
"""First step of each stage of an audit, and what people call the stage."""


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
    decided: DecisionOptions,
    limit: Limit,
    label: Annotated[
        str | None,
        opt.option("COL", "The label column; with a model, if it has another name than at fit."),
    ] = None,
    level: Annotated[
        float,
        opt.option("SHARE", "Confidence of intervals and ranges.", min=0.5, max=0.9999),
    ] = LEVEL,
    trade_off: Annotated[
        bool,
        opt.option(
            None, "Also fit baselines to compare with (slow).", "--trade-off/--no-trade-off"
        ),
    ] = False,
    reviewed: opt.ReviewedFiles = None,
    weight: opt.Weight = None,
    clusters: Annotated[
        str | None, opt.option("COL", "Who each row is about, where people repeat; not a feature.")
    ] = None,
    allow_unseen: opt.AllowUnseen = None,
    naming: opt.Naming,
    seed: opt.Seed = 0,
    max_memory: opt.MaxMemory = None,
    text: opt.TextFormat,
    screen: Screen,
) -> None:
    """Test a model and its assumptions on a table, or decisions of any model; write the report.

    The table is read with the options of the fit, and its weights are used.

    Example: fairpc audit loans.fairpc new.csv -o report.html

    Any model: fairpc audit new.csv --label approved --sensitive sex --decision granted -o page.html

    In CI: fairpc audit loans.fairpc new.csv --fail-over 0.05
    """
    from fairpc import auditing
    from fairpc.models import progress

    if output is not None:
        if Path(output).suffix.lower() not in (".html", ".htm"):
            raise FairpcError(f"{output}: the report is an HTML page, give a name ending in .html")
        check_output(output, *filter(None, (model_file, table)))
    model = _model(model_file, table, decided)
    warned = Warned()
    at_fit = {} if model is None else model.table_options_
    with opened(table or model_file, text, at_fit) as files, about(files.source):
        with warned.watching():
            if model is None:
                found = decided_table(files, label, decided, weight, clusters)
            else:
                columns = label, weight, clusters
                found = _of_model(model, files, allow_unseen, columns, max_memory, screen)
            subject, given, cells = found
            names = display_names(naming, files)
            if limit.fail_over is not None and not (screen.prints_text or screen.json or output):
                # Nothing is shown: the gap is all that is needed.
                _judge(_gaps_alone(subject, given, seed, level), limit, screen)
                return
            if reviewed:
                given["reviewed"] = _answers_of(reviewed, cells, subject, files, label, screen)
            how: Facts = {"level": level, "random_state": seed, "baselines": trade_off}
            how["names"] = names
            with progress(screen.shows_progress, None) as step:
                audited = auditing.audit(subject, progress=in_stages(step), **how, **given)
        if audited.parity is None and limit.fail_over is not None:
            raise _not_known(audited.left_out.get("parity", "no two groups have known members"))
    if output is not None:
        audited.save(output)
        if set(map(str, subject.coding_.labels.classes)) == {"0", "1"} and not names:
            screen.note("--name COL=1:hired says in the report what the classes 0 and 1 are")
    _show(audited, output, limit, screen)
    if screen.prints_text:
        paths = " ".join(quote(path) for path in (model_file, table) if path)
        answered, unseen = (
            repeated("--reviewed", reviewed),
            repeated("--allow-unseen", allow_unseen),
        )
        if output is None:
            named = "" if label is None else repeated("--label", [label])
            weighed = "" if weight is None else repeated("--weight", [weight])
            weighed += "" if clusters is None else repeated("--clusters", [clusters])
            again = f"{paths}{named}{answered}{as_typed(decided, naming, text)}{weighed}{unseen}"
            say(f"Next: fairpc audit {again} -o report.html", "bold")
        else:
            say(f"Report: {output}", "bold")
        done = audited.review
        left = done is None or done.n_drawn < done.n_rows
        if output is not None and left and (reviewed or audited.review_plan is not None):
            about_rows = ReviewedColumns.of(label, decided, weight, clusters)
            named = as_typed(about_rows, text)
            batch = f"-n {_files_to_review(audited)} -o {next_batch(reviewed or ())}"
            say(f"Next: fairpc review {paths}{named}{answered}{unseen} {batch}", "bold")
    screen.notes(warned)
    _judge(audited.parity, limit, screen)


def _files_to_review(audited: Audit) -> int:
    """The number that the report asks for, where it asks for one."""
    errors, n = audited.error_rates, None
    if audited.review is not None:
        n = audited.review.more
    elif errors is not None and not audited.data.fitted and not audited.verdict.withdrawn:
        n = errors.reviews
    return n or _USUAL


def _show(audited: Audit, output: str | None, limit: Limit, screen: Screen) -> None:
    """Print what was found: all of it as JSON, the verdict, or its headline alone if --quiet."""
    if screen.json:
        shown = {k: v for k, v in audited.to_dict().items() if k not in _PAGE_ONLY}
        facts = {"report": output, "fail_over": limit.fail_over}
        print_json(facts | _gate(audited.parity, limit) | shown)
    elif screen.quiet:
        say(audited.verdict.headline)
    else:
        show_verdict(audited)


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
        raise OptionError(IN_PARTS)
    name = column(files.names(), label or model.coding_.labels.name, "--label", files.source)
    if name not in cells.columns:  # beside decisions the label is apart
        cells = ready(files.read(), files)
    return read_reviews(paths, cells, files.source, (name, classes_of(model.coding_)), screen)[0]


def _model(model_file: str, table: str | None, decided: DecisionOptions) -> FittedModel | None:
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


def show_verdict(audited: Audit) -> None:
    """Print what was found, how sure that is, what to do: ten lines at most."""
    verdict = audited.verdict
    tone: Tone = "bad" if verdict.rejected else "warn" if verdict.withdrawn else "plain"
    headline(verdict.headline, tone)
    titles = {"found": "Found: ", "sure": "How sure: ", "to_do": "To do: "}
    for part, title in titles.items():
        for sentence in getattr(verdict, part)[: SHOWN[part]]:
            say(f"{title}{sentence}")
    say(verdict.disclaimer)


def in_stages(report: Report) -> Report:
    """Steps of an audit as the stages that people know."""
    from fairpc.models import Progress

    words, stages, reached = list(STAGES), list(STAGES.values()), 0

    def step(now: Progress) -> None:
        nonlocal reached
        name = now.what.partition(":")[0]
        reached = words.index(name) if name in words else reached
        report(Progress(stages[reached], reached, len(stages), "stage"))

    return step


def decided_table(
    files: TableFiles,
    label: str | None,
    decided: DecisionOptions,
    weight: str | None,
    clusters: str | None = None,
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
    own = {name: getattr(decided, name) for name in ("positive", "drop", "missing", "decimal")}
    roles = ColumnOptions([label], decided.sensitive, **own)
    rows = labelled(files, roles, ModelOptions(given=decided.given, weight=weight or None))
    persons = None if clusters is None else column(names, clusters, "--clusters", source)
    apart = [name for name in (decision, score, persons) if name is not None]
    for name in apart:
        taken = (*rows.roles.sensitive, *rows.given)
        if name not in rows.X.columns or name in taken or apart.count(name) > 1:
            raise TableError(
                f"{source}: column {name!r} is given as --decision, --score or --clusters and as "
                "something else: it can be one of them, take the others away"
            )
    if (empty := rows.X[decision].is_null()).any():
        raise TableError(
            f"{source}: column {decision!r} (--decision) is empty in {empty.sum():,} rows, the "
            f"first is data row {empty.arg_max() + 1}: leave out rows that were not decided"
        )
    groups = rows.X.select(exactly(rows.roles.sensitive))
    table = rows.X.drop(exactly([*apart, *rows.roles.sensitive]))
    about = {"sensitive_features": groups, "sample_weight": rows.weights}
    people = {} if persons is None else {"clusters": rows.X[persons].to_numpy()}
    subject = given_decisions(
        rows.X[decision],
        table,
        rows.y,
        **about,
        scores=None if score is None else _scores(rows.X[score], rows.roles),
        positive=rows.roles.positive,
        given=rows.given,
        missing_values=rows.roles.sentinels,
        decimal=rows.roles.decimal,
    )
    return subject, {"X": table, "y": rows.y, **about, **people}, rows.X


def _scores(column: pl.Series, roles: ColumnOptions) -> Floats:
    """A column of scores, however its numbers are written; a TableError names the row."""
    import narwhals as nw

    cells = nw.from_native(column, series_only=True)
    values = read_values(column.name, cells, roles.sentinels, decimal=roles.decimal).parsed()
    what = f"column {column.name!r} (--score)"
    if values.type != "number":
        raise TableError(f"{what} holds something other than numbers: give scores from 0 to 1")
    scores = np.asarray(values.data, np.float64)
    wrong = np.flatnonzero(~((scores >= 0) & (scores <= 1)))
    if len(wrong):
        given = column[int(wrong[0])]
        percent = np.nanmin(scores) >= 0 and 1 < np.nanmax(scores) <= 100
        repair = "divide them by 100" if percent else "give such scores, or leave out --score"
        raise TableError(
            f"{what} is {'empty' if given is None else given} in data row {wrong[0] + 1}: scores "
            f"lie between 0 and 1, {repair}"
        )
    return scores


def _of_model(
    model: FittedModel,
    files: TableFiles,
    allow_unseen: list[str] | None,
    columns: tuple[str | None, str | None, str | None],
    max_memory: str | None,
    screen: Screen,
) -> AuditedTable:
    """A model, arguments of ``audit`` for a table, and its cells if they are in memory.

    ``columns`` are those of the label, of weights and of people, as they were given.
    """
    label, weight, clusters = columns
    note_absent(model, files, screen)
    unseen = unseen_columns(model, files, allow_unseen, screen)
    fitted, names = model.coding_.labels.name, files.names()
    name = fitted if fitted in names else None
    if label is not None:
        name = column(names, label, "--label", files.source)
    weight = _weight(model, files, weight, screen)
    if clusters is not None:
        clusters = column(names, clusters, "--clusters", files.source)
        if clusters in model.coding_.features.names or clusters in (name, weight):
            raise TableError(
                f"{files.source}: column {clusters!r} is given as --clusters and is a feature of "
                "the model, its label or a weight: fit without it, or name another"
            )
    if name is None:
        screen.note(
            f"{files.source} has no label column {fitted!r}: the comparison of decisions with "
            "labels is left out"
        )
    if max_memory is not None or is_large(files):
        named = {"y": name, "sample_weight": weight, "clusters": clusters}
        named["max_memory"] = max_memory
        return model, {"X": model_source(model, files, unseen), **named}, None
    cells = ready(files.read(), files)
    apart = [each for each in (name, weight, clusters) if each is not None]
    given = evidence(model, cells.drop(exactly(apart)), unseen)
    if name is not None:
        given["y"] = cells[name]
    if weight is not None:
        given["sample_weight"] = cells[weight].to_numpy()
    if clusters is not None:
        given["clusters"] = cells[clusters].to_numpy()
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
