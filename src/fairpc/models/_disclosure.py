"""What a model tells whoever holds its file: names, values, counts, and what they can confirm."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairpc.core import AnyPath, Record, counted, quoted
from fairpc.data import Column
from fairpc.models._classifiers import TableClassifier
from fairpc.models._file import MAX_BYTES, read_content
from fairpc.models._settings import stratum_names

_ROUNDING = 1e-6  # of expected counts


@dataclass(frozen=True)
class HeldColumn:
    """What a model holds of one column of its table."""

    column: str
    role: str  #: "feature", "group" or "label"
    kind: str  #: category, boolean, number or date
    values: tuple[str, ...]  #: levels by name, or bins; none where numbers are not binned
    done: str  #: what became of values that are not here


@dataclass(frozen=True)
class Disclosure(Record):
    """What a model holds of the people in its table."""

    model: str
    min_cell: int  #: people that a level, a bin, a group or a stratum stands for, at least
    columns: tuple[HeldColumn, ...]
    not_held: tuple[str, ...]  #: columns of which it has the name alone
    groups: dict[str, int]  #: rows of each
    smallest_group: int
    smallest_labelled: float  #: labelled rows of a group, of all the fewest, as estimated
    smallest_label: float  #: rows of a group with one label, of all the fewest, as estimated
    strata: tuple[str, ...]
    rows: int  #: rows whose group was known
    fingerprint: str  #: of the training rows
    named: tuple[str, ...] = ()  #: columns for which the fit was told names

    _computed = ("sentences",)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The same in words, and what follows."""
        texts = sum(c.kind == "category" for c in self.columns)
        labelled = self.smallest_labelled
        few = self.smallest_group < self.min_cell or self.min_cell == 1
        few |= 0 < labelled < self.min_cell - _ROUNDING
        limit = (
            f"Groups, levels and bins of any size are kept apart; the smallest group has "
            f"{counted(self.smallest_group, 'row')}, {self.smallest_labelled:.0f} labelled."
            if few
            else f"Nothing in it stands for fewer than {self.min_cell} people (min_cell): levels, "
            f"bins, groups and strata of fewer were merged or count as missing, and the labels of "
            f"groups with fewer of them count as missing. The smallest group "
            f"has {counted(self.smallest_group, 'row')}."
        )
        called = f"It holds the names that the fit was told for {quoted(self.named, 5)}."
        return (
            "No row of the table is in it: it holds probabilities that were learned of "
            f"{counted(self.rows, 'row')}.",
            f"It names {counted(len(self.columns) + len(self.not_held), 'column')}, and the levels "
            f"of {counted(texts, 'column')}, spelt as in the table; numbers and dates as bins.",
            *([called] if self.named else []),
            limit,
            "The rows of each group, and the rate of each label in it, can be computed from it; so "
            "can those of its rows with the highest and the lowest scores: a rate may tell of one "
            "person.",
            f"The fingerprint {self.fingerprint} confirms to whoever has the whole table, or "
            "guesses every row of it, that the model was fitted to these rows; of a single row it "
            "confirms nothing.",
            "Whether a certain person's row was among those of the fit can be guessed from "
            "scores a little better than by chance: see docs/disclosure.md.",
        )


def file_facts(path: AnyPath) -> dict[str, Any]:
    """Size, format and version of a model file, and what its checksum is good for."""
    content = read_content(path, MAX_BYTES)
    return {
        "file": os.fspath(path),
        "bytes": Path(path).stat().st_size,
        "format": f"{content['format']}, version {content['version']}",
        "written_by": f"fairpc {content['provenance']['fairpc']}",
        "checksum": content["checksum"],
    }


def disclosure(model: Any) -> Disclosure:
    """What a fitted model holds."""
    coding = model._coding()
    encoding, strata = coding.features, model._fair().strata
    columns = [*_held(encoding.columns, "feature"), *_held(coding.groups.columns, "group")]
    names, labels = coding.group_names, model.label_counts_.sum(axis=(1, 2))
    return Disclosure(
        model=type(model).__name__,
        min_cell=int(model.min_cell),
        columns=(*columns, *_held((coding.labels.column,), "label"), *_of_classifiers(model)),
        not_held=tuple(d.name for d in encoding.dropped if d.name not in coding.sensitive),
        groups=dict(zip(names, coding.groups.rows, strict=True)),
        smallest_group=min(coding.groups.rows),
        smallest_labelled=float(labels.min()),
        smallest_label=float(model.label_counts_.sum(axis=1).min()),
        strata=stratum_names(strata, coding) if strata else (),
        rows=sum(coding.groups.rows),
        fingerprint=model.data_fingerprint_,
        named=tuple(model.names_),
    )


def _held(columns: Any, role: str) -> Iterator[HeldColumn]:
    for column in columns:
        yield HeldColumn(column.name, role, column.kind, _values(column), column.done)


def _values(column: Column) -> tuple[str, ...]:
    return (*column.labels, *map(str, column.merged)) if not column.binned or column.edges else ()


def _of_classifiers(model: Any) -> Iterator[HeldColumn]:
    """Levels that classifiers of a fold hold beside those of the table."""
    known = {column.name: set(_values(column)) for column in model._coding().features.columns}
    seen: dict[str, HeldColumn] = {}
    for classifier in getattr(model, "estimators_", ()):
        if not isinstance(classifier, TableClassifier):
            continue
        for column in _held(classifier.encoding_.columns, "feature of a classifier"):
            if set(column.values) - known.get(column.column, set()):
                seen.setdefault(column.column, column)
    yield from seen.values()
