"""``fairpc predict`` and ``distil``: scores of the rows of a table, by a model or by a scorer that
does without the group, and what that costs.

A table is streamed to a model, however long it is; a scorer, which ``distil`` makes, reads it
whole.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from shlex import quote
from time import perf_counter
from typing import Annotated, Any, Final, Literal

import numpy as np

import fairpc.cli._options as opt
import fairpc.cli._polars as pl
import fairpc.cli._tables as tables
from fairpc import data, evidence, models
from fairpc.cli._learned import SURE
from fairpc.cli._screen import Screen, print_json, say
from fairpc.core import ContradictionWarning, Floats, OptionError, TableError, counted

PREFIX: Final = "p_df_"
DIGITS: Final = 6
"""Of scores in files."""
BATCH: Final = 50_000
"""Rows in memory at a time; a few batches are on their way at once."""

BOUNDS: Final = (f"{PREFIX}lower", f"{PREFIX}upper")
DECISION: Final = "decision"


def predict(
    model_file: opt.ModelFile,
    table: opt.Table,
    output: Annotated[
        str, opt.output("The table with the scores: .csv, .tsv, .parquet, .feather; - for stdout.")
    ],
    bounds: Annotated[
        bool, opt.option(None, "Append p_df_lower and p_df_upper, which labels leave.", "--bounds")
    ] = False,
    level: Annotated[
        float | None,
        opt.option(
            "P",
            "With --bounds: what labels leave, with its sampling error at this confidence, such as "
            "0.95; only --model latent also counts the error of scores.",
        ),
    ] = None,
    decide: Annotated[
        bool, opt.option(None, "Append the column 'decision', too.", "--decide")
    ] = False,
    decide_as: Annotated[
        str | None, opt.option("COL", "As --decide, with another name for the column.")
    ] = None,
    safe_csv: Annotated[
        bool,
        opt.option(None, "Write ' before text that a spreadsheet would compute.", "--safe-csv"),
    ] = False,
    all_digits: Annotated[
        bool, opt.option(None, f"Write scores with all digits, not {DIGITS}.", "--all-digits")
    ] = False,
    allow_unseen: opt.AllowUnseen = None,
    *,
    text: opt.TextFormat,
    screen: Screen,
) -> None:
    """Append the probability of each fair decision to every row of a table.

    The columns are called p_df_<class>. The table is streamed: it may be larger than memory.
    The output appears whole or not at all. Empty cells are marginalised, exactly; a model of
    --model latent takes them as its classifier does. Of models without a fair decision it is the
    probability of the recorded label.

    Example: fairpc predict loans.fairpc new.parquet -o scored.parquet
    """
    decision = decide_as or (DECISION if decide else None)
    digits = None if all_digits else DIGITS
    target = tables.target_of(output, screen, model_file, table)
    if safe_csv and isinstance(target, str) and data.format_of(target) != "text":
        raise OptionError(f"--safe-csv and -o {output}: only text has formulas, leave one out")
    if level is not None and not bounds:
        raise OptionError("--level is the confidence in --bounds: give these too, or leave it out")
    if tables.is_scorer(model_file):
        if bounds or safe_csv or allow_unseen:
            raise OptionError(
                f"{model_file} is a scorer that distil made: it has no --bounds, and takes neither "
                "--safe-csv nor --allow-unseen"
            )
        facts = _by_scorer(model_file, table, target, decision, digits, text, screen)
        if screen.json:
            print_json(facts | {"output": output})
        return
    model = tables.loaded(model_file)
    began, warned = perf_counter(), data.Warned()
    with tables.opened(table, text, model.table_options_) as files:
        tables.note_absent(model, files, screen)
        absent = [name for name in model.coding_.groups.column_names if name not in files.names()]
        if absent:
            screen.note(
                f"{files.source} has no column {absent[0]!r}, the sensitive attribute: "
                + (
                    "the group is marginalised, and equal mean scores are not guaranteed, even "
                    "under the model"
                    if model._marginalises
                    else "rows have no score"
                )
            )
        added = _new_columns(model, files, bounds, decision)
        unseen = tables.unseen_columns(model, files, allow_unseen, screen)
        carried = _carried(files, target, screen)
        scored = Scored(model, files, carried, added, bounds, level, decision, unseen, digits)
        with files.reading():
            rows, total = files.scan(carried), 0
            # A row, not the schema alone: what polars cannot read is the table's fault.
            schema = dict(rows.head(1).collect(engine="streaming").schema) | scored.added
            if screen.shows_progress and sys.stderr.isatty():  # it costs a look at the file
                total = int(rows.select(pl.len()).collect(engine="streaming").item())
        with models.progress(screen.shows_progress) as step:
            batches = scored.batches(warned, step, total)
            if safe_csv:
                schema = dict(tables.without_formulas(pl.DataFrame(schema=schema)).schema)
                batches = map(tables.without_formulas, batches)
            data.write_table(batches, schema, target, delimiter=files.delimiter)
    screen.notes(warned)
    lower, upper = scored.mean_range or (None, None)
    facts = {
        "model_file": model_file,
        "table": files.source,
        "output": output,
        "rows": scored.rows,
        "added": list(scored.added),
        "positive": str(model.positive_class_),
        "mean_score": scored.mean,
        "mean_score_lower": lower,
        "mean_score_upper": upper,
        "rows_without_bounds": scored.unbounded if bounds else None,
        "notes": list(warned.sentences()),
        "seconds": perf_counter() - began,
    }
    if screen.json:
        print_json(facts)
    else:
        screen.note(
            f"{counted(scored.rows, 'row')} written to "
            f"{'stdout' if output == tables.STDOUT else output} with {', '.join(scored.added)}; "
            f"favourable class: {_favourable(model)}, mean score {scored.said_of_mean}"
        )


def _favourable(model: models.FittedModel) -> str:
    """The favourable class, and what people call it where that is another word."""
    labels = model.coding_.labels
    name, own = model.coding_.called(model.names_)[0][labels.positive], str(labels.positive_class)
    return own if name == own else f"{own} ({name})"


def _carried(files: data.TableFiles, target: Any, screen: Screen) -> tuple[str, ...]:
    """The columns that are written beside the scores; those that text cannot hold are named."""
    if isinstance(target, str) and data.format_of(target) != "text":
        return files.names()
    kept = files.text_names()
    if left_out := [name for name in files.names() if name not in kept]:
        screen.note(
            f"{tables.listed(left_out)} of {files.source} cannot be written as text: that is left "
            "out, write .parquet to keep it"
        )
    return kept


def _new_columns(
    model: models.FittedModel | models.Distilled,
    files: data.TableFiles,
    bounds: bool,
    decision: str | None,
) -> dict[str, Any]:
    """Names and types of what is appended."""
    added: dict[str, Any] = {f"{PREFIX}{c}": pl.Float64 for c in model.classes_}
    if bounds:
        taken = [name for name in BOUNDS if name in added]
        if taken:
            raise OptionError(
                f"the scores of a class are in {taken[0]!r}, as those of --bounds would be: leave "
                "out --bounds, or fit with a class of another name"
            )
        added |= dict.fromkeys(BOUNDS, pl.Float64)
    if decision in added:
        raise OptionError(
            f"--decide-as is {decision!r}, a column that has scores: give another name"
        )
    if decision is not None:
        added[decision] = pl.String
    for name in added:
        if name in files.names():
            instead = "call it otherwise with --decide-as, or " if name == decision else ""
            raise TableError(
                f"{files.source} has a column {name!r} already, which predict would write: "
                f"{instead}rename or drop the one in the table"
            )
    return added


@dataclass(eq=False)
class Scored:
    """A table with its scores, and counts of the rows that went by."""

    model: models.FittedModel
    files: data.TableFiles
    carried: tuple[str, ...]  #: columns of the table that are written beside the scores
    added: dict[str, Any]  #: names and types of what is appended: scores, bounds, a decision
    bounds: bool  #: whether bounds are
    level: float | None  #: of bounds with sampling error
    decision: str | None  #: what the column of the decision is called, if there is one
    unseen: tuple[str, ...]  #: columns that count as missing
    digits: int | None  #: of scores; None: all
    rows: int = 0
    known: int = 0  #: those that have a score
    total: float = 0.0  #: sum of their scores of the positive class
    ends: tuple[float, float] = (0.0, 0.0)  #: sums of the bounds of their scores, at that level
    unbounded: int = 0  #: rows whose bounds are NaN, because the data contradict the assumptions

    @property
    def mean(self) -> float | None:
        """The mean score; None where no row has one."""
        return self.total / self.known if self.known else None

    @property
    def mean_range(self) -> tuple[float, float] | None:
        """What labels leave of the mean score; None where they leave nothing or none is known."""
        low, high = (end / max(self.known, 1) for end in self.ends)
        return (low, high) if self._ranged and self.known and low <= high else None

    @property
    def _ranged(self) -> bool:
        """Whether scores have bounds."""
        model = self.model
        return model._latent and model.label_ends_ is not None and len(model.classes_) == 2

    @property
    def said_of_mean(self) -> str:
        """The mean score; that of a fair decision with its range, or without one as a point."""
        if self.mean is None:
            return "none (no row has a known group)"
        mean, found = f"{self.mean:.4f}", self.mean_range
        if not self.model._latent:
            return mean
        if found is None:
            return f"{mean} (point only, if the assumptions hold: no range is available)"
        low, high = found
        return f"{low:.4f} to {high:.4f} ({SURE}; point by convention: {mean})"

    def batches(
        self, warned: data.Warned, step: models.Report, n_rows: int
    ) -> Iterator[pl.DataFrame]:
        """The rows with their scores, batch by batch."""
        step(models.Progress("rows", 0, n_rows))
        for batch in self.files.batches(BATCH, self.carried):
            if not batch.height:
                continue
            where = self.files.source
            if self.rows:
                where += f", in the rows from {self.rows:,} on (counted from 0 in each part)"
            with tables.about(where), warned.watching():
                yield batch.with_columns(self._columns(tables.ready(batch, self.files)))
            self.rows += batch.height
            step(models.Progress("rows", self.rows, n_rows))

    def _columns(self, cells: pl.DataFrame) -> Iterator[pl.Series]:
        """What is appended to some rows."""
        given = tables.evidence(self.model, cells, self.unseen)
        scores = self.model.predict_proba(**given)
        favourable = scores[:, self.model.coding_.labels.positive]
        known = ~np.isnan(favourable)
        self.known += int(known.sum())
        self.total += float(favourable[known].sum())
        if self.bounds:
            found = self.model.predict_bounds(**given, level=self.level)
            self.unbounded += int(np.isnan(found[known, 0]).sum())
            scores = np.hstack([scores, found])
        if self._ranged:
            with warnings.catch_warnings():  # of labels that leave nothing: --bounds says so
                warnings.simplefilter("ignore", ContradictionWarning)
                ends = self.model.predict_bounds(**given, level=evidence.LEVEL)[known]
            low, high = ends.sum(axis=0).tolist()
            self.ends = self.ends[0] + low, self.ends[1] + high
        predict = partial(self.model.predict, **given)
        yield from _appended(self.added, scores, predict, self.digits)


def _appended(
    added: Collection[str], scores: Floats, predict: Callable[[], Any], digits: int | None
) -> Iterator[pl.Series]:
    """The columns that are added to some rows: their scores, and last what is decided, if asked."""
    for name, own in zip(added, scores.T, strict=False):
        yield pl.Series(name, own if digits is None else own.round(digits))
    if len(added) > scores.shape[1]:
        yield pl.Series([*added][-1], [str(d) for d in predict()], dtype=pl.String)


def _by_scorer(
    path: str,
    table: str,
    target: Any,
    decision: str | None,
    digits: int | None,
    text: opt.TextFormat,
    screen: Screen,
) -> dict[str, Any]:
    """Append the scores of a scorer to a table, and its decisions if a name for them is given."""
    scorer = models.Distilled.load(path)
    with tables.opened(table, text) as files, tables.about(files.source):
        added = _new_columns(scorer, files, bounds=False, decision=decision)
        lacking = [n for n in scorer.estimator.feature_names_in_ if n not in files.names()]
        if lacking:
            raise TableError(
                f"{files.source} has no column {lacking[0]!r}, which the scorer needs: give it"
            )
        cells = tables.ready(files.read(_carried(files, target, screen)), files)
        decide = partial(scorer.predict, cells)
        scored = cells.with_columns(_appended(added, scorer.predict_proba(cells), decide, digits))
        data.write_table([scored], scored.schema, target, delimiter=files.delimiter)
    screen.note(f"{counted(cells.height, 'row')} written with {', '.join(added)}")
    return {"model_file": path, "table": files.source, "rows": cells.height, "added": list(added)}


def distil(
    model_file: opt.ModelFile,
    table: opt.Table,
    output: Annotated[str, opt.output("The scorer file to write.")],
    classifier: Annotated[
        Literal["hgb", "logistic", "forest"],
        opt.option("NAME", "What learns the scores: hgb (boosting), logistic or forest."),
    ] = "hgb",
    seed: opt.Seed = 0,
    *,
    text: opt.TextFormat,
    screen: Screen,
) -> None:
    """Make a scorer that does not need the group, and say what that costs.

    A classifier of the other columns learns what the model scores with the group. It is for places
    where the group must not be used at decision time. The price is measured on rows of the table
    that were held out: how often it decides as the model, gaps between groups, and, if the table
    has the label, how often it decides as the fair decision.

    Example: fairpc distil loans.fairpc loans.csv -o scorer.fairpc

    Then: fairpc predict scorer.fairpc new.csv --decide -o decided.csv
    """
    tables.check_output(output, model_file, table)
    model, warned = tables.loaded(model_file), data.Warned()
    with tables.opened(table, text, model.table_options_) as files, tables.about(files.source):
        tables.note_absent(model, files, screen)
        cells, label = tables.ready(files.read(), files), model.coding_.labels.name
        given = tables.evidence(model, cells)
        missing = model.coding_.features.missing_values
        learner = models.TableClassifier(classifier, missing_values=missing, random_state=seed)
        labels = cells[label] if label in cells.columns else None
        features = given.pop("X")
        if labels is not None:
            features = features.drop(label)
        with warned.watching():
            scorer = model.distil(learner, features, labels, **given)
    scorer.save(output)
    price = scorer.price
    if screen.json:
        facts = {"model_file": model_file, "table": files.source, "output": output}
        print_json(facts | {"price": None if price is None else price.to_dict()})
    elif screen.prints_text:
        groups = ", ".join(map(repr, model.coding_.groups.column_names))
        learned_from = counted(sum(group.n for group in scorer.gap.groups), "row")
        say(f"A scorer without {groups}, learned from {learned_from}.", "bold")
        for sentence in () if price is None else price.sentences:
            say(sentence)
        say(f"The scorer is in {output}.")
        paths = f"{quote(output)} {quote(table)}"
        say(f"Next: fairpc predict {paths} --decide-as decided -o decided.csv")
        if labels is not None:
            named = [f"--sensitive {quote(name)}" for name in model.coding_.groups.column_names]
            named += [f"--label {quote(label)}", f"--positive {quote(str(scorer.positive))}"]
            say(f"To audit it: fairpc audit decided.csv --decision decided {' '.join(named)}")
    screen.notes(warned)
