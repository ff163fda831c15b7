"""The audited table: rows, classes, groups, and what is missing where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from fairpc.auditing._job import Job
from fairpc.auditing._rows import AuditedRows
from fairpc.core import Bools, Codes, Floats
from fairpc.data import SMALL, TableCoding

_SUMMED_OUT: Final = "The model sums them out; no value is made up."
_AS_THEY_ARE: Final = "The classifier is given them as missing and deals with them in its own way."


@dataclass(frozen=True)
class Count:
    """A class or a group among the audited rows."""

    name: str  #: of the class or group
    n: int  #: rows
    share: float | None  #: of the weight of the rows where it is known
    small: bool  #: fewer than 30 rows
    training_rows: int | None = None  #: rows of the group at fit; None for classes


@dataclass(frozen=True)
class Missing:
    """How much of one column is missing."""

    column: str  #: its name
    role: Literal["feature", "label", "group"]
    share: float  #: of all rows, by weight
    #: per group in the order of ``groups``; None where a group has no rows
    by_group: tuple[float | None, ...]


@dataclass(frozen=True)
class TableFacts:
    """What was audited."""

    n_rows: int  #: audited rows
    n_table: int  #: rows of the table; more where a random sample of them was audited
    weight: float  #: the sum of their weights
    weighted: bool  #: whether rows count differently
    n_persons: int | None  #: persons, where they repeat; None otherwise
    n_labelled: int  #: rows whose label is known
    n_grouped: int  #: rows whose group is known
    #: whether these are the very rows that the model was fitted to; where they are not, some may
    #: still be among them
    same_rows_as_fit: bool | None
    label: str  #: name of the label
    positive: str  #: the class that "positive" means
    classes: tuple[Count, ...]  #: in the order of the model
    groups: tuple[Count, ...]  #: in the order of the model
    #: names of the sensitive attributes; several are crossed into groups
    sensitive: tuple[str, ...]
    missing: tuple[Missing, ...]  #: per feature used, then the label, then the group
    missing_words: str  #: what the model does where a value is missing
    #: what was done with each column of the table at fit; empty where a classifier takes them as
    #: they are
    columns: tuple[Mapping[str, Any], ...]


def table_facts(job: Job) -> TableFacts:
    """Counts and missing shares of the audited rows."""
    rows, coding = job.rows, job.model.coding_
    weights, groups = rows.each_weight, zip(rows.groups, coding.groups.rows, strict=True)
    return TableFacts(
        n_rows=rows.n_rows,
        n_table=rows.n_table,
        weight=float(weights.sum()),
        weighted=rows.weights is not None,
        n_persons=None if rows.persons is None else len(np.unique(rows.persons)),
        n_labelled=rows.number(rows.d >= 0),
        n_grouped=rows.number(rows.s >= 0),
        same_rows_as_fit=rows.same_rows_as_fit,
        label=coding.labels.name,
        positive=rows.classes[rows.positive],
        classes=tuple(_count(rows, rows.d, k, name) for k, name in enumerate(rows.classes)),
        groups=tuple(_count(rows, rows.s, g, *group) for g, group in enumerate(groups)),
        sensitive=coding.groups.column_names,
        missing=_missing(coding, rows, weights),
        missing_words=_AS_THEY_ARE if job.model._needs_table else _SUMMED_OUT,
        columns=() if job.model._needs_table else tuple(_columns(coding)),
    )


def _columns(coding: TableCoding) -> Iterator[Mapping[str, Any]]:
    """What was done with each column; the sensitive ones are no features, and used all the same."""
    sensitive = {column.name: column for column in coding.groups.columns}
    for record in coding.features.describe():
        column = sensitive.get(record["column"])
        done = {} if column is None else {"done": f"sensitive attribute, {column.done}"}
        yield {**record, **done}


def _count(rows: AuditedRows, codes: Codes, k: int, name: str, at_fit: int | None = None) -> Count:
    n, share = rows.number(codes == k), _share(rows.each_weight, codes == k, codes >= 0)
    return Count(name, n, share, at_fit is not None and n < SMALL, at_fit)


def _share(weights: Floats, part: Bools, whole: Bools) -> float | None:
    total = float(weights[whole].sum())
    return float(weights[part & whole].sum()) / total if total else None


def _missing(coding: TableCoding, rows: AuditedRows, weights: Floats) -> tuple[Missing, ...]:
    def of(name: str, role: Literal["feature", "label", "group"], hidden: Bools) -> Missing:
        by_group = tuple(_share(weights, hidden, rows.s == g) for g in range(len(rows.groups)))
        return Missing(name, role, _share(weights, hidden, rows.every) or 0.0, by_group)

    names = coding.features.names
    features = [of(name, "feature", rows.x[:, j] < 0) for j, name in enumerate(names)]
    label = of(coding.labels.name, "label", rows.d < 0)
    group = of(", ".join(coding.groups.column_names), "group", rows.s < 0)
    return (*features, label, group)
