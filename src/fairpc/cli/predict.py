"""``fairpc predict``: scores appended to a table that is streamed, however long it is."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from fairpc.cli.absent import note_absent
from fairpc.cli.models import loaded
from fairpc.cli.outputs import check_output
from fairpc.cli.screen import Voice, print_json
from fairpc.cli.tables import Reading, about, evidence, opened, ready
from fairpc.data import plural
from fairpc.data.files import TableFiles, format_of, write_table
from fairpc.data.source import Warned
from fairpc.errors import FairpcError, TableError

if TYPE_CHECKING:
    import polars as pl
    from rich.progress import Progress

    from fairpc.estimators.base import CircuitClassifier

BATCH: Final = 50_000
"""Rows in memory at a time; a few batches are on their way at once."""

STDOUT: Final = "-"
PREFIX: Final = "p_df_"
DECISION: Final = "decision"


def run(
    model_file: str, table: str, output: str, *, decide: bool, reading: Reading, voice: Voice
) -> None:
    """Append P(Df = k | row) for every class k, and the decision if asked, to a table."""
    if output == STDOUT and voice.json:
        raise FairpcError("-o - and --json both want stdout: give -o a file, or leave out --json")
    if output != STDOUT:
        format_of(output)
        check_output(output, model_file, table)
    model = loaded(model_file)
    began, warned, counted = perf_counter(), Warned(), Counter()
    with opened(table, reading) as files:
        note_absent(model, files, voice)
        _note_absent_groups(model, files, voice)
        added = _new_columns(model, files, decide)
        with voice.progress("rows", _n_rows(files, voice)) as bar:
            rows = _scored(model, files, added, warned, counted, bar)
            target = sys.stdout.buffer if output == STDOUT else output
            write_table(rows, _schema(files, added), target, delimiter=files.delimiter)
    voice.notes(warned)
    facts = {
        "model_file": model_file, "table": files.source, "output": output, "rows": counted.rows,
        "added": list(added), "positive": str(model.positive_class_),
        "mean_score": counted.total / counted.rows, "notes": list(warned.sentences()),
        "seconds": perf_counter() - began,
    }  # fmt: skip
    if voice.json:
        print_json(facts)
    elif not voice.quiet:
        voice.note(
            f"{plural.counted(counted.rows, 'row')} written to "
            f"{'stdout' if output == STDOUT else output} with {', '.join(added)}; positive class: "
            f"{model.positive_class_}, mean score {facts['mean_score']:.4f}"
        )


class Counter:
    """Rows that went by, and the sum of their scores of the positive class."""

    rows = 0
    total = 0.0


def _note_absent_groups(model: CircuitClassifier, files: TableFiles, voice: Voice) -> None:
    absent = [name for name in model.coding_.groups.column_names if name not in files.names()]
    if absent:
        voice.note(
            f"{files.source} has no column {absent[0]!r}, the sensitive attribute: the group is "
            "summed out, and equal mean scores are then not promised even under the model"
        )


def _new_columns(model: CircuitClassifier, files: TableFiles, decide: bool) -> dict[str, Any]:
    """Names and types of what is appended."""
    import polars as pl

    added: dict[str, Any] = {f"{PREFIX}{c}": pl.Float64 for c in model.classes_}
    if decide:
        added[DECISION] = pl.String
    for name in added:
        if name in files.names():
            raise TableError(
                f"{files.source} has a column {name!r} already, which predict would write: rename "
                "or drop it"
            )
    return added


def _schema(files: TableFiles, added: dict[str, Any]) -> dict[str, Any]:
    with files.reading():
        return dict(files.scan().collect_schema()) | added


def _n_rows(files: TableFiles, voice: Voice) -> int | None:
    """Length of the table, for the progress bar; it costs a look at the file."""
    import polars as pl

    if not voice.shows_progress:
        return None
    with files.reading():
        return int(files.scan().select(pl.len()).collect(engine="streaming").item())


def _scored(
    model: CircuitClassifier,
    files: TableFiles,
    added: Sequence[str] | dict[str, Any],
    warned: Warned,
    counted: Counter,
    bar: Progress,
) -> Iterator[pl.DataFrame]:
    """The rows of a table with their scores, batch by batch."""
    for batch in files.batches(BATCH):
        if not batch.height:
            continue
        where = files.source
        if counted.rows:
            where += f", in the rows from {counted.rows:,} on (counted from 0, each part anew)"
        with about(where), warned.watching():
            yield _with_scores(model, batch, ready(batch, files), list(added), counted)
        counted.rows += batch.height
        bar.advance(bar.task_ids[0], batch.height)


def _with_scores(
    model: CircuitClassifier,
    batch: pl.DataFrame,
    cells: pl.DataFrame,
    added: list[str],
    counted: Counter,
) -> pl.DataFrame:
    import polars as pl

    given = evidence(model, cells)
    scores = model.predict_proba(**given)
    counted.total += float(scores[:, model.coding_.labels.positive].sum())
    columns = [pl.Series(name, scores[:, k]) for k, name in enumerate(added[: scores.shape[1]])]
    if DECISION in added[scores.shape[1] :]:
        decisions = model.predict(**given)
        columns.append(pl.Series(DECISION, [str(d) for d in decisions], dtype=pl.String))
    return batch.with_columns(columns)
