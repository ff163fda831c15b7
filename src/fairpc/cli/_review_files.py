"""The files of a review: rows for people to fill in, and beside them the design, with a checksum.

The design says which rows were drawn, with what chance, from what table. Answers without it say
nothing, so it is read with every file of answers, and both are compared with the table.
"""

from __future__ import annotations

import codecs
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Final, Literal

import numpy as np

import fairpc.cli._options as opt
import fairpc.cli._polars as pl
import fairpc.cli._tables as tables
from fairpc import core, data, evidence, models
from fairpc.cli._screen import Screen
from fairpc.core import FileFormatError, Floats, OptionError, TableError

ID: Final = "review_id"
ANSWER: Final = "fair_decision"
DESIGN: Final = ".design.json"
FORMAT: Final = "fairpc review"
VERSION: Final = 1
MAX_BYTES: Final = 1 << 26
IN_PARTS: Final = (
    "--reviewed needs the table in memory, and it is read in parts: give fewer rows, or leave out "
    "what asks for parts, such as --max-memory"
)
_PAIRS: Final = (("yes", "no"), ("true", "false"), ("1", "0"))


@dataclass(frozen=True)
class DrawnRows:
    """What the design of a batch says: which rows were drawn, how, and from what table."""

    table: str
    n_rows: int
    columns: tuple[str, ...]  #: of the table
    fingerprint: str  #: of their cells, row by row
    label: str
    classes: tuple[str, str]  #: the negative and the positive one
    batch: int  #: from 1
    earlier: tuple[str, ...]  #: checksums of the batches before
    seed: int
    quantity: Literal["all", "rates", "mechanism", "errors"]
    method: Literal["active", "uniform"]
    rows: tuple[int, ...]  #: positions in the table, from 0
    probability: tuple[float, ...]  #: chance of each of these rows

    def __post_init__(self) -> None:
        evidence.check_draw(self.rows, self.probability, self.n_rows)
        if len(set(self.columns)) < len(self.columns):
            raise TableError("the design has a column twice: each is one of the table")

    @property
    def checksum(self) -> str:
        text = json.dumps(asdict(self), sort_keys=True)
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

    def to_json(self) -> bytes:
        said = {"format": FORMAT, "version": VERSION, **asdict(self), "checksum": self.checksum}
        return (json.dumps(said, indent=1) + "\n").encode()

    @classmethod
    def read(cls, path: str) -> DrawnRows:
        """The design beside a file of answers; a FileFormatError where it was altered."""
        beside = design_of(path)
        if not Path(beside).is_file():
            raise FileFormatError(
                f"there is no {beside}: keep the design beside the file that `fairpc review` "
                "wrote, under its name"
            )
        data = core.read_json(beside, MAX_BYTES)
        if not isinstance(data, dict) or data.pop("format", None) != FORMAT:
            raise FileFormatError(f"{beside} is not a design of a review: {core.ALTERED}")
        if data.pop("version", None) != VERSION:
            raise FileFormatError(f"{beside} is of another version: use that fairpc, or draw again")
        checksum = data.pop("checksum", None)
        found = core.record(cls, data, beside, exact=True, repair=core.ALTERED)
        if checksum != found.checksum:
            raise FileFormatError(
                f"{beside} was edited, and chances must be as drawn: {core.ALTERED}"
            )
        return found


def reviewed_cells(files: data.TableFiles, screen: Screen | None = None) -> pl.DataFrame:
    """The cells that reviewers see, which are text; columns of other values are named."""
    kept = files.text_names()
    if screen is not None and (left_out := [n for n in files.names() if n not in kept]):
        screen.note(
            f"{tables.listed(left_out)} of {files.source} cannot be written as text: reviewers do "
            "not see that"
        )
    return data.as_texts(tables.ready(files.read(kept), files))


def design_of(path: str) -> str:
    """The file of the design beside a file of answers."""
    return path + DESIGN


def check_new(output: str, reads: Sequence[str]) -> None:
    """Refuse a file that is there: it may hold answers."""
    data.format_of(output)
    if Path(output).exists():
        raise OptionError(f"{output} exists, and may hold answers: give another name, or remove it")
    tables.check_output(output, *reads)
    tables.check_output(design_of(output))


def write_review(cells: pl.DataFrame, drawn: DrawnRows, hidden: Sequence[str], output: str) -> None:
    """Write the rows, and before them their design: rows without it could not be used."""
    kept = [name for name in cells.columns if name not in hidden]
    shown = cells[list(drawn.rows)].select(data.exactly([name]) for name in kept)
    frame = shown.insert_column(0, pl.Series(ID, drawn.rows)).with_columns(
        pl.lit(None, pl.String).alias(ANSWER)
    )
    core.write_atomically(design_of(output), drawn.to_json())
    try:
        if data.format_of(output) == "text":  # people open it in spreadsheets
            frame = tables.without_formulas(frame)
        data.write_table([frame], dict(frame.schema), output)
    except BaseException:
        Path(design_of(output)).unlink(missing_ok=True)
        raise


def decisions_of(
    cells: pl.DataFrame, name: str, classes: tuple[str, str], positive: str | None = None
) -> Floats:
    """A column of decisions as 0 and 1; ``positive`` is the favourable one of other values."""
    if positive is not None:
        words = cells[name].drop_nulls().cast(pl.String).str.strip_chars().unique().sort().to_list()
        if positive.strip() not in words or len(words) > 2:
            shown = ", ".join(map(repr, words[:3]))
            raise TableError(
                f"column {name!r} (--decision) holds {shown}: it needs two values, and "
                "--decision-positive one of them"
            )
        other = next((word for word in words if word != positive.strip()), "")
        classes = other, positive.strip()
    found = _understood(cells[name], classes)
    for row, value in enumerate(found):
        if value is None or np.isnan(value):
            raise TableError(
                f"column {name!r} (--decision) has {cells[name][row]!r} in row {row}: give "
                f"{_allowed(classes)} in every row, or name the favourable one of two other values "
                "with --decision-positive"
            )
    return np.array(found, np.float64)


def _meanings(classes: tuple[str, str]) -> dict[str, float]:
    """What each word means: the names of the classes, and yes and no where these do not differ."""
    found = {_plain(name): float(k) for k, name in enumerate(classes)}
    for yes, no in _PAIRS:
        if found.get(yes, 1.0) == 1.0 and found.get(no, 0.0) == 0.0:
            found |= {yes: 1.0, no: 0.0}
    return found


def _allowed(classes: tuple[str, str]) -> str:
    words = [*classes, *(word for word in _meanings(classes) if word in ("yes", "no"))]
    return " or ".join(map(repr, dict.fromkeys(words)))


def _understood(answers: pl.Series, classes: tuple[str, str]) -> list[float | None]:
    """1, 0, NaN where blank, None where nobody knows what it means."""
    known = _meanings(classes)
    texts = map(_plain, answers.alias("").cast(pl.String).fill_null("").to_list())
    return [known.get(text) if text else float("nan") for text in texts]


def _plain(text: str) -> str:
    """A word without what programs make of it: 1.0 for 1, TRUE for true; ' before a formula."""
    return text.strip().lower().removeprefix("'").removesuffix(".0")


def read_reviews(
    paths: Sequence[str],
    cells: pl.DataFrame,
    source: str,
    about: tuple[str, tuple[str, str]],
    screen: Screen,
) -> tuple[models.Reviewed, tuple[str, ...]]:
    """What the files of answers say of a table, and the checksums of their designs.

    Each file is compared with its design, and that with the table and with what the review is
    ``about``, the label and its two classes: an error says which row, or file, does not belong.
    """
    pairs = sorted(((DrawnRows.read(p), p) for p in paths), key=lambda pair: pair[0].batch)
    fingerprints: dict[tuple[str, ...], str] = {}
    checksums: tuple[str, ...] = ()
    batches = []
    for k, (design, path) in enumerate(pairs, 1):
        if design.batch != k or design.earlier != checksums:
            raise OptionError(
                f"{path} is batch {design.batch}, drawn after others: give --reviewed for each "
                "batch before it, once, and none of another review"
            )
        if (design.label, design.classes) != about:
            raise OptionError(
                f"{path} is about {design.label!r} with {design.classes[1]!r} as the positive "
                f"class, not about {about[0]!r} with {about[1][1]!r}: name the same label and class"
            )
        if set(design.columns) <= set(cells.columns) and design.columns not in fingerprints:
            fingerprints[design.columns] = fingerprint_of(cells, design.columns)
        of_table = design.n_rows, design.fingerprint
        if of_table != (cells.height, fingerprints.get(design.columns)):
            raise TableError(
                f"{source} is not the table that {path} was drawn from, or has changed "
                "since: give it as it was, with the same rows in the same order"
            )
        answers = _answers(path, design, screen)
        batches.append((np.array(design.rows), np.array(design.probability), answers))
        checksums = (*checksums, design.checksum)
    if all(np.isnan(answers).all() for *_, answers in batches):
        raise TableError(
            f"{tables.listed(paths)} has no answer yet: fill in the column {ANSWER!r} with "
            f"{_allowed(pairs[0][0].classes)}"
        )
    return models.Reviewed.of(cells.height, batches), checksums


def _answers(path: str, design: DrawnRows, screen: Screen) -> Floats:
    """The answer for each row that was drawn; NaN where there is none."""
    with tables.opened(path, opt.TextFormat(), {"encoding": _saved_in(path)}) as files:
        frame = files.read()
    for name in (ID, ANSWER):
        if name not in frame.columns:
            raise TableError(f"{path} has no column {name!r}: keep those that `review` wrote")
    ids = map(_plain, frame[ID].alias("").cast(pl.String).fill_null("").to_list())
    place, found = {row: k for k, row in enumerate(design.rows)}, {}
    for line, (given, value) in enumerate(
        zip(ids, _understood(frame[ANSWER], design.classes), strict=True), 1
    ):
        at = place.get(int(given)) if given.isdecimal() else None
        if at is None:
            raise TableError(
                f"{path} has {ID} {given!r} in row {line}, which was not drawn: leave out answers "
                "for other rows, and the numbers as they were"
            )
        if at in found:
            raise TableError(f"{path} has {ID} {given} twice: keep one answer for each row")
        if value is None:
            shown = frame[ANSWER][line - 1]
            raise TableError(
                f"{path} has {shown!r} for {ID} {given}, which is not an answer: give "
                f"{_allowed(design.classes)}, or leave it blank if you cannot tell"
            )
        found[at] = value
    if len(found) < len(design.rows):
        gone = core.counted(len(design.rows) - len(found), "row")
        screen.note(f"{gone} that were drawn are not in {path}: they count as not answered")
    return np.array([found.get(k, np.nan) for k in range(len(design.rows))])


def _saved_in(path: str) -> str:
    """The encoding of answers that are not UTF-8, in which Excel may save what it has opened.

    Numbers and most words of classes are the same in all, and nothing else is read.
    """
    file = Path(path)
    with file.open("rb") if file.is_file() else BytesIO() as head:
        marked = head.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    return "utf-16" if marked else "latin-1"


def fingerprint_of(cells: pl.DataFrame, names: Sequence[str]) -> str:
    """ "sha256:…" of the cells of some columns, row by row."""
    written = cells.select(data.exactly([name]) for name in names).write_csv()
    return f"sha256:{hashlib.sha256(written.encode()).hexdigest()}"
