"""``fairpc review``: draw rows for people to look at again, and say what their answers show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import isnan
from shlex import quote
from typing import Annotated, Any, Final, Literal

import numpy as np

import fairpc.cli._options as opt
import fairpc.cli._polars as pl
import fairpc.cli._review_files as review_files
import fairpc.cli._tables as tables
from fairpc import auditing, data, evidence, models
from fairpc.cli._labelled import labelled, under_types
from fairpc.cli._screen import Screen, grid, print_json, say
from fairpc.core import Floats, OptionError, TableError, counted

MOST_LEVELS: Final = 20
"""Values of a column that a review covers."""


@dataclass(frozen=True, eq=False)
class ReviewSubject:
    """A table that is reviewed: its cells as they came, and what a model says of its rows."""

    source: str
    cells: pl.DataFrame
    label: str
    hidden: tuple[str, ...]  #: columns that a blind reviewer does not see
    rows: models.ReviewRows  #: groups and classes under the names that the fit was given
    classes: tuple[str, str]  #: as they are in the table, the positive one last
    uniform: bool = False  #: whether no model says where to look

    @property
    def about(self) -> tuple[str, tuple[str, str]]:
        """The label and its classes."""
        return self.label, self.classes


@dataclass(frozen=True)
class Drawing:
    """Which rows are drawn, and where they are written."""

    n: Annotated[int | None, opt.option("N", "Rows to draw.", "-n", min=1)] = None
    output: Annotated[
        str | None, opt.output("The rows to fill in: .csv, .tsv, .parquet; a new file.")
    ] = None
    quantity: Annotated[
        Literal["all", "rates", "mechanism", "errors"],
        opt.option("WHAT", "What to be precise about: rates, mechanism, errors, or all.", "--for"),
    ] = "all"
    by: Annotated[
        str | None, opt.option("COL", "A column each of whose values must be covered.")
    ] = None
    blind: Annotated[
        bool,
        opt.option(
            None, "Hide label, groups, decision and score: reviewers see them otherwise.", "--blind"
        ),
    ] = False
    per_batch: Annotated[
        int | None,
        opt.option("N", "Rows to draw now, of the -n rows in all; the rest later.", min=1),
    ] = None
    seed: opt.Seed = 0

    def __post_init__(self) -> None:
        if (self.n is None) != (self.output is None):
            raise OptionError(
                "-n and -o go together: how many rows to draw, and where to write them"
            )
        if self.per_batch is not None and self.n is None:
            raise OptionError("--per-batch is a part of -n: say how many rows are drawn in all")

    def next(self, before: int) -> tuple[int, int]:
        """Rows to draw now, and rows reviewed in all, after so many of earlier batches."""
        n = self.n or 0
        if self.per_batch is None:
            return n, before + n
        if before >= n:
            raise OptionError(
                f"{before:,} rows were drawn before, and -n is {n:,} in all: give a larger -n, or "
                "--reviewed alone for what they show"
            )
        return min(self.per_batch, n - before), n


@dataclass(frozen=True)
class ReviewedColumns:
    """Columns of a table without a model; of one with a model, where they have other names."""

    label: Annotated[
        str | None, opt.option("COL", "The recorded decision; with a model, its own column.")
    ] = None
    sensitive: Annotated[
        list[str], opt.option("COL", "Without a model: the sensitive attribute.")
    ] = field(default_factory=list)
    positive: Annotated[
        str | None, opt.option("CLASS", "Without a model: the favourable class.")
    ] = None
    decision: Annotated[
        str | None, opt.option("COL", "Decisions to audit, in place of the model's.")
    ] = None
    decision_positive: opt.DecisionPositive = None
    score: Annotated[
        str | None, opt.option("COL", "The score behind --decision; not a feature.")
    ] = None
    drop: Annotated[
        list[str], opt.option("COL", "Without a model: a column that is not a feature.")
    ] = field(default_factory=list)


@dataclass(frozen=True)
class DrawnBatch:
    """Rows that were drawn and written, and how well each rate would be known with them."""

    output: str
    batch: int
    drawn: int
    expected: tuple[evidence.ExpectedWidth, ...]

    def to_dict(self) -> dict[str, Any]:
        expected = [width.to_dict() for width in self.expected]
        return {**vars(self), "design": review_files.design_of(self.output), "expected": expected}


def review(
    paths: Annotated[
        list[str],
        opt.argument(
            "[MODEL] TABLE",
            "A file that fit wrote, and a table; or a table with --label and --sensitive.",
        ),
    ],
    drawing: Drawing,
    columns: ReviewedColumns,
    reviewed: opt.ReviewedFiles = None,
    allow_unseen: opt.AllowUnseen = None,
    *,
    text: opt.TextFormat,
    screen: Screen,
) -> None:
    """Draw rows to be looked at again, and say what the answers show.

    Each row is drawn with a known chance, so a few hundred answers show fair rates, how labels were
    altered, and how good decisions are. Fill in the column fair_decision with the class that each
    person deserved, or leave it blank, and keep the file beside its .design.json.

    Example: fairpc review loans.fairpc loans.csv -n 300 -o to_review.csv

    Then: fairpc audit loans.fairpc loans.csv --reviewed to_review.csv

    Without a model: fairpc review loans.csv --label approved --positive yes --sensitive sex
    -n 300 -o rows.csv
    """
    answered = reviewed or []
    _check_paths(paths, columns)
    if drawing.output is not None:
        review_files.check_new(drawing.output, [*paths, *answered])
    elif not answered:
        raise OptionError("there is nothing to do: draw rows with -n and -o, or give --reviewed")
    model = tables.loaded(paths[0]) if len(paths) == 2 else None
    facts, drawn = None, None
    with tables.opened(paths[-1], text, {} if model is None else model.table_options_) as files:
        with tables.about(files.source):
            subject = _subject(model, files, columns, allow_unseen, drawing.seed, screen)
        known = None
        if answered:
            known = review_files.read_reviews(
                answered, subject.cells, files.source, subject.about, screen
            )
            facts = auditing.facts_of_review(subject.rows, known[0])
        if drawing.output is not None:
            with tables.about(files.source):
                drawn = _draw(subject, drawing, known, screen)
    # All files are written: whoever reads our output may stop at any line of it.
    if screen.json:
        print_json({"review": facts} | ({} if drawn is None else drawn.to_dict()))
        return
    if facts is not None:
        show_review(facts)
    if screen.prints_text:
        if drawn is not None:
            _say_drawn(drawn, subject.about[1], drawing.blind)
            answered = [*answered, drawn.output]
        also = opt.as_typed(text, allow_unseen=allow_unseen)
        say(f"Next: fairpc {_next(paths, columns, answered, drawn is not None)}{also}", "bold")


def _check_paths(paths: Sequence[str], columns: ReviewedColumns) -> None:
    """A model and a table; with a table alone the columns must be named."""
    if len(paths) > 2:
        raise OptionError(f"{len(paths)} files are given: give a model and a table, or a table")
    for name in ("sensitive", "positive", "drop"):
        if len(paths) == 2 and getattr(columns, name):
            raise OptionError(f"--{name} is for a table without a model: leave it out")
    if len(paths) == 1 and (columns.label is None or not columns.sensitive):
        raise OptionError(
            "there is a table and no model: give --label and --sensitive, or the model before it"
        )


def _subject(
    model: models.FittedModel | None,
    files: data.TableFiles,
    columns: ReviewedColumns,
    allow_unseen: list[str] | None,
    seed: int,
    screen: Screen,
) -> ReviewSubject:
    """A table as a model reads it; without one, with a quick model of it, if one fits."""
    unseen: tuple[str, ...] = ()
    if model is not None:
        tables.note_absent(model, files, screen)
        unseen = tables.unseen_columns(model, files, allow_unseen, screen)
    cells, source, why = review_files.reviewed_cells(files, screen), files.source, ""
    asked = {"decision": columns.decision, "score": columns.score}
    made = {
        role: tables.column(cells.columns, name, f"--{role}", source)
        for role, name in asked.items()
        if name is not None
    }

    def decided(classes: tuple[str, str]) -> Floats | None:
        """The decisions as 0 and 1; none where the model decides."""
        return (
            review_files.decisions_of(cells, made["decision"], classes, columns.decision_positive)
            if "decision" in made
            else None
        )

    if model is None:
        roles = opt.ColumnOptions(
            [columns.label or ""],
            columns.sensitive,
            columns.positive,
            drop=[*made.values(), *columns.drop],
        )
        table = labelled(files, roles)
        label, groups = table.roles.label, table.roles.sensitive
        how = {**table.roles.settings, "random_state": seed}
        rows, why = auditing.rows_without_model(under_types(table), table.y, **how)
        negative, positive = map(str, rows.classes)
        classes = negative, positive
        if (h := decided(classes)) is not None:
            rows = replace(rows, decisions=h[rows.at])
    else:
        coding, groups = model.coding_, list(model.coding_.groups.column_names)
        label = columns.label or coding.labels.name
        label = tables.column(cells.columns, label, "--label", source)
        classes = classes_of(coding)
        h = decided(classes)
        given = tables.evidence(model, cells.drop(data.exactly([label])), unseen)
        rows = models.ReviewRows.of(model, y=cells[label], decisions=h, **given)
        called, named = coding.called(model.names_)
        words = dict(zip(map(str, coding.labels.classes), called, strict=True))
        known = dict(zip(coding.group_names, named, strict=True))
        rows = rows.called(known, (words[classes[0]], words[classes[1]]))
    if why:
        screen.note(f"no model of the label fits ({why}): rows are drawn evenly")
    hidden = label, *groups, *made.values()
    return ReviewSubject(source, cells, label, hidden, rows, classes, bool(why))


def classes_of(coding: data.TableCoding) -> tuple[str, str]:
    """The negative and the positive class."""
    labels = coding.labels
    if len(labels.classes) != 2:
        raise TableError(
            f"the label has {len(labels.classes)} classes: a review needs two, merge classes"
        )
    return str(labels.classes[1 - labels.positive]), str(labels.positive_class)


def _strata(subject: ReviewSubject, by: str) -> np.ndarray[Any, Any]:
    """Values of a column as text, few enough to be covered."""
    name = tables.column(subject.cells.columns, by, "--by", subject.source)
    values = subject.cells[name].alias("").cast(pl.String).fill_null("")
    if values.n_unique() > MOST_LEVELS:
        raise TableError(
            f"column {name!r} has {values.n_unique()} values: --by takes one of at most "
            f"{MOST_LEVELS}"
        )
    return values.to_numpy().astype(str)


def _draw(
    subject: ReviewSubject,
    drawing: Drawing,
    known: tuple[models.Reviewed, tuple[str, ...]] | None,
    screen: Screen,
) -> DrawnBatch:
    """Draw the next batch, and write it."""
    output, quantity, seed = drawing.output or "", drawing.quantity, drawing.seed
    reviewed, earlier = known or (None, ())
    for name in (review_files.ID, review_files.ANSWER):
        if name in subject.cells.columns:
            raise TableError(f"the table has a column {name!r}, which a review adds: rename it")
    strata = None if drawing.by is None else _strata(subject, drawing.by)
    method: Any = "uniform" if subject.uniform else "active"
    before = 0 if reviewed is None else int(reviewed.drawn.sum())
    n, in_all = drawing.next(before)
    widths = subject.rows.widths(in_all, quantity, reviewed=reviewed, method=method)
    batch = len(earlier) + 1
    rng = np.random.default_rng([seed, batch])
    given: dict[str, Any] = {"strata": strata, "reviewed": reviewed, "method": method}
    design = subject.rows.design(n, quantity, **given, random_state=rng)
    shuffled = rng.permutation(design.rows)  # whoever stops half-way has answered a random half
    left_out = subject.rows.n_table - len(subject.rows.at)
    if left_out:
        screen.note(f"{counted(left_out, 'row')} without a label or a group cannot be drawn")
    drawn = review_files.DrawnRows(
        table=subject.source,
        n_rows=subject.cells.height,
        columns=tuple(subject.cells.columns),
        fingerprint=review_files.fingerprint_of(subject.cells, subject.cells.columns),
        label=subject.label,
        classes=subject.about[1],
        batch=batch,
        earlier=earlier,
        seed=seed,
        quantity=quantity,
        method=method,
        rows=tuple(shuffled.tolist()),
        probability=tuple(design.probability[shuffled].tolist()),
    )
    review_files.write_review(subject.cells, drawn, subject.hidden if drawing.blind else (), output)
    return DrawnBatch(output, batch, len(design.rows), widths)


def _say_widths(widths: Sequence[evidence.ExpectedWidth], positive: str) -> None:
    """How well each rate would be known."""
    words, n = auditing.rate_words(positive), widths[0].n
    altered = [width for width in widths if width.name == "mechanism_1"]
    worst = max(altered or widths, key=lambda width: width.half_width)
    what = f"the {words[worst.name]}, in every group,"
    numbers = worst.n, worst.half_width, worst.n_needed, worst.curve, worst.aim
    say(evidence.expected_in_words(what, *numbers) + "\n", "bold")
    lines = [
        (
            words[w.name],
            str(w.group),
            f"±{100 * w.half_width:.1f} points",
            f"±{100 * w.alone:.1f}",
            f"{w.n_needed:,}",
        )
        for w in widths
    ]
    head = "rate", "group", f"with {n:,} files", "if the model is wrong", "files for ±5 points"
    grid(head, lines)


def _say_drawn(drawn: DrawnBatch, classes: tuple[str, str], blind: bool) -> None:
    """What to expect of a batch, where it is, and how it is filled in."""
    _say_widths(drawn.expected, classes[1])
    if not blind:
        say("The reviewer sees the recorded label and the group: --blind hides them.")
    number = f" (batch {drawn.batch})" if drawn.batch > 1 else ""
    design, answer = review_files.design_of(drawn.output), review_files.ANSWER
    say(f"The rows are in {drawn.output}{number}, their chances in {design}: keep both.")
    say(
        f"Fill in {answer!r} with {classes[1]} or {classes[0]}; leave it blank if you cannot tell. "
        f"{review_files.ID!r} counts rows from 0."
    )


def _next(
    paths: Sequence[str], columns: ReviewedColumns, reviewed: Sequence[str], drew: bool
) -> str:
    """What takes the answers: the audit of what was decided, or else the next model."""
    typed = opt.as_typed(columns)
    given = f"{' '.join(map(quote, paths))}{opt.as_typed(columns, reviewed=[*reviewed])}"
    if columns.decision is not None if len(paths) == 1 else not typed:
        return f"audit {given} -o report.html"
    if drew or len(paths) == 2:
        return f"review {given}" + ("" if drew else f" -n 300 -o {next_batch(reviewed)}")
    return f"fit {given} -o model.fairpc"


def next_batch(reviewed: Sequence[str]) -> str:
    """A name for the rows of the next batch."""
    return f"to_review_{len(reviewed) + 1}.csv" if reviewed else "to_review.csv"


def show_review(facts: auditing.ReviewFacts) -> None:
    """What a review showed: rates, differences, what follows."""
    answered = facts.n_drawn - facts.n_blank
    what = counted(answered, "reviewed row")
    say(f"\nWhat {what} of {facts.n_rows:,} show{'s' * (answered == 1)}", "bold")
    for sentence in facts.conclusions:
        say(f"- {sentence}")
    for sentence in facts.notes:
        say(f"- {sentence}")
    say()
    head = ["rate", "group", "by the review", "reviewed rows alone", "without reviews", "recorded"]
    lines = [
        (
            rate.what,
            rate.group,
            _interval(rate.value, rate.interval) + (" few" if rate.few else ""),
            _interval(rate.alone, rate.alone_interval),
            "–" if rate.without is None else "{:.1%} to {:.1%}".format(*rate.without),
            "–" if rate.recorded is None else f"{rate.recorded:.1%}",
            *(["{:.1%} to {:.1%}".format(*rate.worst)] if facts.n_blank else []),
        )
        for rate in facts.rates
    ]
    grid([*head, "worst case"] if facts.n_blank else head, lines)
    if facts.gaps:
        gaps = [
            (
                gap.what,
                f"{gap.last} − {gap.first}",
                _interval(gap.value, gap.interval, _points),
                _interval(gap.alone, gap.alone_interval, _points),
            )
            for gap in facts.gaps
        ]
        grid(("difference, points", "groups", "by the review", "alone"), gaps)


def _interval(
    value: float, limits: tuple[float, float], written: Callable[[float], str] = "{:.1%}".format
) -> str:
    low, high = map(written, limits)
    return f"{'–' if isnan(value) else written(value)} ({low} to {high})"


def _points(value: float) -> str:
    return f"{100 * value:+z.1f}"
