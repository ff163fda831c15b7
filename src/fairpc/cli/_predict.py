"""``fairpc predict``, ``query`` and ``export``: what a model says about the rows of a table and
about a question; and the same as a file that does without fairpc.

A table is streamed, however long it is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from shlex import quote
from time import perf_counter
from typing import Annotated, Any, Final

import numpy as np

import fairpc.cli._options as opt
import fairpc.cli._polars as pl
import fairpc.cli._tables as tables
from fairpc import data, models
from fairpc.cli._distil import PREFIX, appended, score_table
from fairpc.cli._screen import Screen, grid, print_json, say
from fairpc.core import NotAnsweredError, OptionError, TableError, counted

DIGITS: Final = 6
"""Of scores in files."""
BATCH: Final = 50_000
"""Rows in memory at a time; a few batches are on their way at once."""

BOUNDS: Final = (f"{PREFIX}lower", f"{PREFIX}upper")
DECISION: Final = "decision"
LISTED_BINS: Final = 6
"""Bins of an answer that are all listed; of more, those that count in part."""


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
        facts = score_table(model_file, table, target, decision, digits, text, screen)
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
                f"{files.source} has no column {absent[0]!r}, the sensitive attribute: the group "
                "is marginalised, and equal mean scores are not guaranteed, even under the model"
            )
        added = _new_columns(model, files, bounds, decision)
        unseen = tables.unseen_columns(model, files, allow_unseen, screen)
        scored = Scored(model, files, added, bounds, level, decision, unseen, digits)
        with files.reading():
            rows, total = files.scan(), 0
            # A row, not the schema alone: what polars cannot read is the table's fault.
            schema = dict(rows.head(1).collect(engine="streaming").schema) | scored.added
            if screen.shows_progress and sys.stderr.isatty():  # it costs a look at the file
                total = int(rows.select(pl.len()).collect(engine="streaming").item())
        with models.progress(screen.shows_progress, None) as step:
            batches = scored.batches(warned, step, total)
            if safe_csv:
                schema = dict(tables.without_formulas(pl.DataFrame(schema=schema)).schema)
                batches = map(tables.without_formulas, batches)
            data.write_table(batches, schema, target, delimiter=files.delimiter)
    screen.notes(warned)
    facts = {
        "model_file": model_file,
        "table": files.source,
        "output": output,
        "rows": scored.rows,
        "added": list(scored.added),
        "positive": str(model.positive_class_),
        "mean_score": scored.total / scored.rows,
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
            f"favourable class: {model.positive_class_}, mean score {facts['mean_score']:.4f}"
        )


def _new_columns(
    model: models.FittedModel, files: data.TableFiles, bounds: bool, decision: str | None
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
    added: dict[str, Any]  #: names and types of what is appended: scores, bounds, a decision
    bounds: bool  #: whether bounds are
    level: float | None  #: of bounds with sampling error
    decision: str | None  #: what the column of the decision is called, if there is one
    unseen: tuple[str, ...]  #: columns that count as missing
    digits: int | None  #: of scores; None: all
    rows: int = 0
    total: float = 0.0  #: sum of their scores of the positive class
    unbounded: int = 0  #: rows whose bounds are NaN, because the data contradict the assumptions

    def batches(
        self, warned: data.Warned, step: models.Report, n_rows: int
    ) -> Iterator[pl.DataFrame]:
        """The rows with their scores, batch by batch."""
        step(models.Progress("rows", 0, n_rows))
        for batch in self.files.batches(BATCH):
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
        self.total += float(scores[:, self.model.coding_.labels.positive].sum())
        if self.bounds:
            found = self.model.predict_bounds(**given, level=self.level)
            self.unbounded += int(np.isnan(found[:, 0]).sum())
            scores = np.hstack([scores, found])
        predict = partial(self.model.predict, **given)
        yield from appended(self.added, scores, predict, self.digits)


def query(
    model_file: opt.ModelFile,
    question: Annotated[
        str, opt.argument("QUERY", "'Df=good | age=37, sex=?': what you ask, a bar, what you know.")
    ],
    screen: Screen,
) -> None:
    """Ask a model for an exact probability.

    Df is the fair decision, D the recorded label, S the group; other names are columns. A name
    without a value asks for all its values. Numbers fall into their bins; < <= > >= work at the
    edges of bins. '?' means not known. Put values with commas or bars into quotes.

    Examples: "Df=good | sex=female", "Df | age=37, job=?", "D, Df | S=male"
    """
    asked = models.parse(question)
    answer = circuit_model(model_file, "QUERY")._words().answer(asked)
    if screen.json:
        print_json(_answer_facts(question, asked, answer))
    elif screen.quiet:
        for _, probability in answer.rows:
            print(repr(probability))  # noqa: T201 - the result itself
    else:
        _show_answer(asked, answer)


def circuit_model(path: str, then: str) -> models.FittedModel:
    """The model of a file that has a distribution of the features."""
    model = tables.loaded(path, then=then)
    if isinstance(model, models.LatentDecision):
        raise NotAnsweredError(
            f"{path} holds a LatentDecision, which has no distribution of the features to ask: "
            "take a model that `fairpc fit --model FairPC` wrote"
        )
    return model


def _answer_facts(text: str, query: models.Query, answer: models.Answer) -> dict[str, Any]:
    names = [term.name for term in query.targets]
    single = all(term.value is not None for term in query.targets)
    return {
        "query": text,
        "probability": answer.rows[0][1] if single else None,
        "rows": [
            dict(zip(names, values, strict=True)) | {"probability": probability}
            for values, probability in answer.rows
        ],
        "given_probability": answer.given_probability,
        "read_as": [{"term": str(r.term), "values": list(r.values)} for r in answer.readings],
    }


def _show_answer(query: models.Query, answer: models.Answer) -> None:
    unknown = [r.term for r in answer.readings if r.values == (models.UNKNOWN,)]
    known = [str(t) for t in query.given if t.value is not None and t not in unknown]
    condition = f" | {', '.join(known)}" if known else ""
    for reading in answer.readings:
        # Of a long list of bins the whole ones say what the interval says.
        long = len(reading.values) > LISTED_BINS
        values = [v for v in reading.values if not long or v.startswith(models.PART)]
        if values and [reading.term.value] != values:
            more = "whole bins and " if long else ""
            say(f"{reading.term} is read as {more}{', '.join(map(repr, values))}")
    if all(term.value is not None for term in query.targets):
        asked = ", ".join(map(str, query.targets))
        say(f"P({asked}{condition}) = {answer.rows[0][1]:.6f}", "bold")
    else:
        names = [term.name for term in query.targets]
        head = (*names, f"P({', '.join(names)}{condition})")
        grid(head, [(*values, f"{p:.6f}") for values, p in answer.rows])
    if known:
        say(f"P({', '.join(known)}) = {answer.given_probability:.6f}")


def export(
    model_file: opt.ModelFile,
    output: Annotated[str, opt.output("The file to write: .onnx, .sql or .py.")],
    table: Annotated[
        str | None,
        opt.option("NAME", "What a query calls the table; default: applicants.", "--table"),
    ] = None,
    *,
    screen: Screen,
) -> None:
    """Write a model as a file that scores rows without fairpc.

    .onnx is a graph for ONNX Runtime, .sql one SELECT for SQLite and DuckDB, .py one file of
    Python without dependencies. Columns are given as they are in the table, and what is missing
    is marginalised, exactly.

    Example: fairpc export loans.fairpc -o loans.onnx
    """
    from fairpc import exporting

    suffix = exporting.check_suffix(output)
    if table is not None and suffix != ".sql":
        raise OptionError(f"--table and -o {output}: only a query names a table, leave one out")
    tables.check_output(output, model_file)
    model = tables.loaded(model_file, then="-o FILE")
    written = exporting.export(model, output, table=exporting.TABLE if table is None else table)
    if screen.json:
        print_json({"model_file": model_file, **asdict(written)})
    elif screen.prints_text:
        say(
            f"{output} gives P(Df = class | row) for {', '.join(written.classes)}, from "
            f"{counted(len(written.inputs), 'column')}: {', '.join(written.inputs)}."
        )
        if written.format == "onnx":
            for name, example in written.written.items():
                say(f"Give {name} as numbers: the graph does not read text such as {example!r}.")
        say(_next(written.format, output, exporting.TABLE if table is None else table))


def _next(kind: str, output: str, table: str) -> str:
    """How the file is used."""
    if kind == "sql":
        first = f"put your rows into the table {table}"
        if table.isidentifier():
            first = f"sqlite3 -csv my.db '.import rows.csv {table}'"
        return f"Next: {first}, then sqlite3 -header -csv my.db < {quote(output)}"
    if kind == "onnx":
        return f"Next, in Python: onnxruntime.InferenceSession({output!r})"
    return "Next, in Python: import it, and call predict_proba with a dict"
