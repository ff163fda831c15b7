"""``fairpc audit``: what a model and a table say about each other; a report and an exit code."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Final

import numpy as np
import typer

import fairpc.cli._options as opt
import fairpc.cli._polars as pl
import fairpc.cli._tables as tables
from fairpc import auditing, data, models
from fairpc.cli._labelled import labelled
from fairpc.cli._review import classes_of, next_batch
from fairpc.cli._review_files import IN_PARTS, read_reviews, reviewed_cells
from fairpc.cli._screen import Screen, Tone, complain, headline, print_json, say
from fairpc.core import (
    AuditError,
    FairpcError,
    Floats,
    OptionError,
    TableError,
    write_atomically,
)

Facts = dict[str, Any]

GAP_EXCEEDED: Final = 1
LEVEL: Final = 0.95
_USUAL: Final = 300
_REVIEWED_TOO: Final = ("sensitive", "positive", "decision", "decision_positive", "score")
"""Columns and classes that a review of decisions is told, too."""
SHOWN: Final = {"found": 2, "sure": 2, "to_do": 2}
"""Sentences of each part of the verdict that are printed; the report has all."""
STAGES: Final = {
    "reading the table": "Reading the table",
    "test of the assumptions": "Testing assumptions",
    "mechanism": "Measuring label bias",
    "gaps within strata": "Looking within strata",
    "gaps in scores and decisions": "Comparing groups",
    "agreement with labels": "Preparing the report",
}
"""First step of each stage of an audit, and what people call the stage."""


def audit(
    model_file: Annotated[
        str, opt.argument("[MODEL]", "A file that fit wrote; left out with --decision.")
    ],
    table: Annotated[
        str | None, opt.argument("TABLE", "As for fit: a file, a folder, or - for stdin.")
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
        float, opt.option("SHARE", "Confidence of intervals and ranges.", min=0.5, max=0.9999)
    ] = LEVEL,
    card: Annotated[
        str | None, opt.option("FILE", "Also write a model card, in Markdown (FILE.md).")
    ] = None,
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

    Any model: fairpc audit new.csv --label approved --positive yes --sensitive sex
    --decision granted -o page.html

    In CI: fairpc audit loans.fairpc new.csv --fail-over 0.05
    """
    _check_outputs(output, card, model_file, table)
    model = _model(model_file, table, decided)
    warned = data.Warned()
    at_fit = {} if model is None else model.table_options_
    with tables.opened(table or model_file, text, at_fit) as files, tables.about(files.source):
        with warned.watching():
            columns = label, weight, clusters
            names = tables.display_names(naming, files)
            subject: models.FittedModel | auditing.GivenDecisions
            if model is None:
                subject, given = decided_table(files, decided, *columns, names)
            else:
                subject = model
                given = _of_model(model, files, allow_unseen, columns, max_memory, screen)
            if limit.fail_over is not None and not (
                screen.prints_text or screen.json or output or card
            ):
                # Nothing is shown: the gap is all that is needed.
                try:
                    gaps = auditing.group_gaps(subject, random_state=seed, level=level, **given)
                except AuditError as error:
                    raise _not_known(str(error)) from None
                _judge(gaps, limit, screen)
                return
            if reviewed:
                given["reviewed"] = _answers_of(reviewed, given["X"], subject, files, label, screen)
            given |= {"level": level, "random_state": seed, "names": names}
            with models.progress(screen.shows_progress) as step:
                audited = auditing.audit(subject, progress=in_stages(step), **given)
        if audited.parity is None and limit.fail_over is not None:
            raise _not_known(audited.left_out.get("parity", "no two groups have known members"))
    _write(audited, output, card, screen)
    called = names or (model is not None and model.names_)
    if output is not None and set(audited.data.said) == {"0", "1"} and not called:
        screen.note("--name COL=1:hired says in the report what the classes 0 and 1 are")
    if screen.json:
        facts = {"report": output, "card": card, "fail_over": limit.fail_over}
        print_json(facts | _gate(audited.parity, limit) | audited.to_dict())
    elif screen.quiet:
        say(audited.verdict.headline)
    else:
        show_verdict(audited)
        paths = " ".join(quote(path) for path in (model_file, table) if path)
        if output is None:
            again = opt.as_typed(label=label, reviewed=reviewed)
            again += opt.as_typed(decided, naming, text, weight=weight, clusters=clusters)
            again += opt.as_typed(allow_unseen=allow_unseen)
            say(f"Next: fairpc audit {paths}{again} -o report.html", "bold")
        else:
            say(f"Report: {output}", "bold")
            own = {n: getattr(decided, n) for n in _REVIEWED_TOO}
            # A review takes neither weights nor people; of a model they are no columns to drop.
            apart = [] if model is not None else [*decided.drop, *filter(None, (weight, clusters))]
            again = opt.as_typed(label=label, **own, drop=apart)
            again += opt.as_typed(text, reviewed=reviewed, allow_unseen=allow_unseen)
            _say_review(audited, f"{paths}{again}", reviewed or [])
    screen.notes(warned)
    _judge(audited.parity, limit, screen)


def _check_outputs(output: str | None, card: str | None, *reads: str | None) -> None:
    """Refuse what cannot be written before the work begins."""
    if output is not None and Path(output).suffix.lower() not in (".html", ".htm"):
        raise FairpcError(f"{output}: the report is an HTML page, give a name ending in .html")
    if card is not None and Path(card).suffix.lower() != ".md":
        raise OptionError(f"{card}: the card is Markdown, give --card a name ending in .md")
    for path in (output, card):
        tables.check_output(path, *reads)


def _write(audited: auditing.Audit, output: str | None, card: str | None, screen: Screen) -> None:
    if output is not None:
        audited.save(output)
    if card is not None:
        write_atomically(card, audited.card().encode())
        screen.note(f"the model card is in {card}: fill in what only its owner knows")


def _say_review(audited: auditing.Audit, typed: str, reviewed: list[str]) -> None:
    """The review that comes next, of as many rows as the report asks for, where some are left."""
    done, errors, n = audited.review, audited.error_rates, None
    if done is not None:
        n = done.more
    elif errors is not None and not audited.data.fitted and not audited.verdict.withdrawn:
        n = errors.reviews
    left = done is None or done.n_drawn < done.n_rows
    if left and (reviewed or audited.review_plan is not None):
        batch = f"-n {n or _USUAL} -o {next_batch(reviewed)}"
        say(f"Next: fairpc review {typed} {batch}", "bold")


def _answers_of(
    paths: list[str],
    table: Any,
    model: models.FittedModel | auditing.GivenDecisions,
    files: data.TableFiles,
    label: str | None,
    screen: Screen,
) -> models.Reviewed:
    """What reviewers said of the table."""
    if data.is_source(table):
        raise OptionError(IN_PARTS)
    name = tables.column(files.names(), label or model.coding_.labels.name, "--label", files.source)
    meant = name, classes_of(model.coding_)
    return read_reviews(paths, reviewed_cells(files), files.source, meant, screen)[0]


def _model(
    model_file: str, table: str | None, decided: opt.DecisionOptions
) -> models.FittedModel | None:
    """The model that is audited; None where decisions are, and MODEL is the table."""
    if decided.decision is None:
        if table is None:
            raise OptionError(
                "audit was given one file: give MODEL and TABLE, or TABLE alone with --label, "
                "--sensitive and --decision to audit decisions of any model"
            )
        return tables.loaded(model_file)
    if table is not None:
        raise OptionError(
            "--decision audits a column of TABLE: give TABLE alone, or leave out --decision for "
            "the decisions of MODEL"
        )
    return None


def _not_known(why: str) -> TableError:
    return TableError(
        f"the gap between groups is not known ({why}): --fail-over needs the sensitive columns"
    )


def _gate(facts: auditing.ParityFacts | None, limit: opt.Limit) -> dict[str, Any]:
    """The gap that is asked for: its upper bound, whether that is too large or says nothing."""
    if facts is None:
        return {"gap": limit.gap, "gap_upper": None, "exceeded": False, "undecided": None}
    if limit.gap == "scores" and not facts.scores:
        raise OptionError("--gap scores needs scores, and there are decisions alone: give --score")
    parts = {"decisions": facts.decisions, "scores": facts.scores}
    asked = tuple(parts) if limit.gap == "either" else (limit.gap,)
    bound = max(d.gap_upper for of in asked for d in parts[of])
    return {
        "gap": limit.gap,
        "gap_upper": bound,
        "exceeded": limit.fail_over is not None and bound > limit.fail_over,
        "undecided": next((facts.undecided[of] for of in asked if of in facts.undecided), None),
    }


def _judge(facts: auditing.ParityFacts | None, limit: opt.Limit, screen: Screen) -> None:
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


def show_verdict(audited: auditing.Audit) -> None:
    """Print what was found, how sure that is, what to do: ten lines at most."""
    verdict = audited.verdict
    tone: Tone = "bad" if verdict.rejected else "warn" if verdict.withdrawn else "plain"
    headline(verdict.headline, tone)
    titles = {"found": "Found: ", "sure": "How sure: ", "to_do": "To do: "}
    for part, title in titles.items():
        for sentence in getattr(verdict, part)[: SHOWN[part]]:
            say(f"{title}{sentence}")
    say(verdict.disclaimer)


def in_stages(report: models.Report) -> models.Report:
    """Steps of an audit as the stages that people know."""
    words, stages, reached = list(STAGES), list(STAGES.values()), 0

    def step(now: models.Progress) -> None:
        nonlocal reached
        name = now.what.partition(":")[0]
        reached = words.index(name) if name in words else reached
        report(models.Progress(stages[reached], reached, len(stages), "stage"))

    return step


def decided_table(
    files: data.TableFiles,
    decided: opt.DecisionOptions,
    label: str | None,
    weight: str | None,
    clusters: str | None,
    names: data.Names,
) -> tuple[auditing.GivenDecisions, Facts]:
    """Decisions beside their table, and arguments of ``audit`` for it."""
    if label is None or not decided.sensitive or decided.decision is None:
        lacking = "--label" if label is None else "--sensitive"
        raise OptionError(
            f"{lacking} is missing: --decision is audited beside the recorded label and the groups"
        )
    source = files.source
    asked = {"decision": decided.decision, "score": decided.score, "clusters": clusters}
    apart = {
        role: tables.column(files.names(), name, f"--{role}", source)
        for role, name in asked.items()
        if name is not None
    }
    own = {name: getattr(decided, name) for name in ("positive", "drop", "missing", "decimal")}
    roles = opt.ColumnOptions([label], decided.sensitive, **own)
    learner = opt.ModelOptions(given=decided.given, weight=weight or None)
    rows = labelled(files, roles, learner, names)
    taken = (*rows.roles.sensitive, *rows.given)
    for name in apart.values():
        if name not in rows.X.columns or [*taken, *apart.values()].count(name) > 1:
            raise TableError(
                f"{source}: column {name!r} is given as --decision, --score or --clusters and as "
                "something else: it can be one of them, take the others away"
            )
    if (empty := rows.X[apart["decision"]].is_null()).any():
        raise TableError(
            f"{source}: column {apart['decision']!r} (--decision) is empty in {empty.sum():,} "
            f"rows, the first is data row {empty.arg_max() + 1}: leave out rows that were not "
            "decided"
        )
    table = rows.X.drop(data.exactly([*apart.values(), *rows.roles.sensitive]))
    groups = rows.X.select(data.exactly(rows.roles.sensitive))
    given: Facts = {"sensitive_features": groups, "sample_weight": rows.weights}
    subject = auditing.given_decisions(
        rows.X[apart["decision"]],
        table,
        rows.y,
        **given,
        scores=_scores(rows.X[apart["score"]], rows.roles) if "score" in apart else None,
        positive=rows.roles.positive,
        decision_positive=decided.decision_positive,
        given=rows.given,
        missing_values=rows.roles.sentinels,
        decimal=rows.roles.decimal,
        names=names,
    )
    if "clusters" in apart:
        given["clusters"] = rows.X[apart["clusters"]].to_numpy()
    return subject, {"X": table, "y": rows.y, **given}


def _scores(column: pl.Series, roles: opt.ColumnOptions) -> Floats:
    """A column of scores, however its numbers are written; a TableError names the row."""
    values = tables.read_cells(column, roles.sentinels, roles.decimal).parsed()
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
    model: models.FittedModel,
    files: data.TableFiles,
    allow_unseen: list[str] | None,
    columns: tuple[str | None, str | None, str | None],
    max_memory: str | None,
    screen: Screen,
) -> Facts:
    """Arguments of ``audit`` for a table and a model.

    ``columns`` are those of the label, of weights and of people, as they were given.
    """
    label, weight, clusters = columns
    tables.note_absent(model, files, screen)
    unseen = tables.unseen_columns(model, files, allow_unseen, screen)
    fitted, names, source = model.coding_.labels.name, files.names(), files.source
    named: dict[str, str] = {}
    if label is not None:
        named["y"] = tables.column(names, label, "--label", source)
    elif fitted in names:
        named["y"] = fitted
    if weight:
        named["sample_weight"] = tables.column(names, weight, "--weight", source)
    elif weight is None and (usual := model.table_options_.get("weight")) is not None:
        there = usual in names  # "" would have named none
        used = "is used" if there else f"is not in {source}: all rows count alike"
        screen.note(f"the column of weights of the fit, {usual!r}, {used}")
        named |= {"sample_weight": usual} if there else {}
    if clusters is not None:
        persons = tables.column(names, clusters, "--clusters", source)
        if persons in (*model.coding_.features.names, *named.values()):
            raise TableError(
                f"{source}: column {persons!r} is given as --clusters and is a feature of "
                "the model, its label or a weight: fit without it, or name another"
            )
        named["clusters"] = persons
    if "y" not in named:
        screen.note(
            f"{source} has no label column {fitted!r}: the comparison of decisions with "
            "labels is left out"
        )
    if max_memory is not None or tables.is_large(files):
        rows = tables.model_source(model, files, unseen)
        return {"X": rows, **named, "max_memory": max_memory}
    read = tables.used_columns(model, names, *named.values())
    cells = tables.ready(files.read(read), files)
    given = tables.evidence(model, cells.drop(data.exactly(named.values())), unseen)
    for role, name in named.items():
        given[role] = cells[name] if role == "y" else cells[name].to_numpy()
    return given
