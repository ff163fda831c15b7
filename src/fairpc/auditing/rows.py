"""The audited rows as arrays: codes, scores, decisions, weights, persons.

Equal rows may be one entry with a count: what is a sum over rows is then a sum over entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from fairpc.comparison.table import take_rows
from fairpc.data.frame import Frame, read_frame
from fairpc.data.table_coding import TableCoding
from fairpc.errors import AuditError
from fairpc.errors.arrays import Bools, Codes, Floats, Ints, Positions
from fairpc.estimators.base import CircuitClassifier
from fairpc.estimators.training import rows_in_order
from fairpc.fair.rows import Rows
from fairpc.fair.training_rows import rows_fingerprint

BLOCK: Final = 1 << 18
"""Rows that the model is asked about at once."""


@dataclass(frozen=True, eq=False)
class AuditedRows:
    """What is known of each audited row, and what the model says of it."""

    #: table, labels, sensitive, fair_labels: X, y, groups and known decisions as given; None where
    #: equal rows are merged
    table: Any
    labels: Any
    sensitive: Any
    fair_labels: Any
    names: tuple[str, ...]  #: names, names_in: features that the model uses, and all columns at fit
    names_in: tuple[str, ...]
    missing_values: tuple[Any, ...]  #: what the model reads as missing, besides null and NaN
    s: Codes  #: s, d: group and observed class, -1 where missing
    d: Codes
    x: Codes  #: codes of the features
    weights: Floats | None  #: weight of one row of each entry; None where all rows count alike
    counts: Floats | None  #: how many equal rows each entry is; None where each is one
    persons: Positions | None  #: who each row is about; None where nobody repeats
    scores: Floats  #: P(decision = k | x, s), rows × classes
    observed: Floats  #: P(D = k | x, s), rows × classes
    decided: Positions  #: the class that ``predict`` gives
    groups: tuple[str, ...]  #: groups, classes: names, in the order of the codes
    classes: tuple[str, ...]
    positive: int  #: number of the positive class
    fingerprint: str  #: of the rows of the table, as that of the training rows is made
    same_rows_as_fit: bool  #: whether these are the rows of the fit
    n_table: int  #: rows of the table; more than are audited where that is a sample of them
    f: Codes | None = None  #: fair decision of each row where it is known; None where none is

    @property
    def n_rows(self) -> int:
        return self.number(self.every)

    @property
    def every(self) -> Bools:
        """All entries."""
        return np.ones(len(self.s), np.bool_)

    def number(self, entries: Bools) -> int:
        """How many rows some entries are."""
        return int(entries.sum() if self.counts is None else self.counts[entries].sum())

    @property
    def each_count(self) -> Floats:
        return np.ones(len(self.s)) if self.counts is None else self.counts

    @property
    def each_weight(self) -> Floats:
        """The weight of all rows of each entry."""
        return self.each_count if self.weights is None else self.weights * self.each_count

    def weighing(self, entries: Bools) -> Weighing:
        """What intervals are told about some entries besides their values."""

        def some(values: Any) -> Any:
            return None if values is None else values[entries]

        return Weighing(some(self.weights), some(self.persons), some(self.counts))

    @property
    def shown_classes(self) -> tuple[int, ...]:
        """Classes that gaps are measured of: the positive one of two, every one of more."""
        return (self.positive,) if len(self.classes) == 2 else tuple(range(len(self.classes)))

    def coded(self, coding: TableCoding) -> Rows:
        """The entries as rows of codes, with all their weight."""
        return Rows(
            self.s, self.d, self.x, self.each_weight, len(self.groups), len(self.classes),
            np.array(coding.features.arities, np.int64), coding.features.names, self.f,
        )  # fmt: skip

    def check_grouped(self) -> None:
        """An AuditError where no group is known."""
        if not (self.s >= 0).any():
            raise AuditError(
                "the groups of the rows are not known: give sensitive_features, or the sensitive "
                "columns with the table"
            )

    def comparable(self, rows: Bools) -> Bools:
        """Those of the rows whose group is known and has two rows, or persons, among them.

        An AuditError where that leaves fewer than two groups.
        """
        self.check_grouped()
        kept = rows & (self.s >= 0)
        for g in range(len(self.groups)):
            here = kept & (self.s == g)
            count = self.number(here)
            if self.persons is not None:
                count = len(np.unique(self.persons[here]))
            if count < 2:
                kept &= self.s != g
        if len(self.groups_in(kept)) < 2:
            raise AuditError(
                "fewer than two groups have two known rows each: give the groups of more rows"
            )
        return kept

    def groups_in(self, rows: Bools) -> tuple[int, ...]:
        """Groups that occur among the rows."""
        return tuple(int(g) for g in np.unique(self.s[rows]) if g >= 0)

    def columns(self) -> Frame:
        """The table by the names of the fit; arrays are known by position."""
        frame = read_frame(self.table)
        return replace(frame, names=self.names_in) if frame.from_array else frame

    def as_at_fit(self) -> Any:
        """The table with the columns of the fit alone: others were left out, perhaps as answers."""
        native = nw.from_native(self.table, eager_only=True, pass_through=True)
        if not isinstance(native, nw.DataFrame):
            return self.table
        there = set(native.columns)
        return native.select(*(n for n in self.names_in if n in there)).to_native()

    def sample(self, most: int | None, seed: int) -> AuditedRows:
        """These rows, or as many at random where more than that differ; persons stay whole."""
        if most is None or self.n_rows <= most or self.n_distinct <= most:
            return self
        rng = np.random.default_rng(seed)
        if self.persons is None:
            return self._take(np.sort(rng.permutation(self.n_rows)[:most]))
        order = rng.permutation(int(self.persons.max()) + 1)
        rank = np.argsort(order)[self.persons]
        return self._take(np.sort(np.argsort(rank, kind="stable")[:most]))

    @cached_property
    def n_distinct(self) -> int:
        """Distinct rows of group and features."""
        codes = np.ascontiguousarray(np.column_stack([self.s, self.x]))
        return len(np.unique(codes.view([("", codes.dtype)] * codes.shape[1])))

    def _take(self, rows: Ints) -> AuditedRows:
        def some(values: Any) -> Any:
            return None if values is None else values[rows]

        def given(values: Any) -> Any:
            return None if values is None else take_rows(values, rows)

        return replace(
            self,
            table=given(self.table), labels=given(self.labels), sensitive=given(self.sensitive),
            fair_labels=given(self.fair_labels),
            s=some(self.s), d=some(self.d), x=some(self.x), scores=some(self.scores),
            observed=some(self.observed), decided=some(self.decided),
            weights=some(self.weights), counts=some(self.counts), persons=some(self.persons),
            f=some(self.f),
        )  # fmt: skip

    def parts(self) -> Iterator[tuple[str | None, Bools]]:
        """All rows under the name None, then the rows of each group."""
        yield None, self.every
        for g, name in enumerate(self.groups):
            yield name, self.s == g


class Weighing(NamedTuple):
    """Weights, persons and counts of some entries, each None where rows count alike."""

    weights: Floats | None
    persons: Positions | None
    counts: Floats | None

    @property
    def arguments(self) -> dict[str, Any]:
        """As functions of ``fairpc.evidence`` call them."""
        return {
            "sample_weight": self.weights, "clusters": self.persons, "counts": self.counts
        }  # fmt: skip


def audited_rows(
    model: CircuitClassifier,
    X: Any,
    y: Any,
    sensitive_features: Any,
    sample_weight: npt.ArrayLike | None,
    clusters: npt.ArrayLike | None = None,
    fair_labels: Any = None,
) -> AuditedRows:
    """Encode the table as the model does, and ask the model about every row that has weight."""
    if y is not None:
        model.coding_.labels.check_known(y)
    rows = rows_in_order(model.coding_, X, y, sensitive_features, sample_weight, fair_labels)
    name = rows_fingerprint(rows)
    found = replace(
        asked(model, rows.s, rows.d, rows.x),
        table=X, labels=y, sensitive=sensitive_features, fair_labels=fair_labels,
        weights=rows.weights, persons=_persons(clusters, rows.n_rows), f=rows.f,
        fingerprint=name, same_rows_as_fit=name == model.data_fingerprint_,
    )  # fmt: skip
    used = np.flatnonzero(rows.weights)
    if len(used) < rows.n_rows:
        found = replace(found._take(used), n_table=len(used))
    alike = np.ptp(rows.weights[used]) == 0
    return replace(found, weights=None) if alike else found


def asked(model: CircuitClassifier, s: Codes, d: Codes, x: Codes) -> AuditedRows:
    """Rows of codes that count alike, with what the model says of them."""
    coding, distribution = model.coding_, model.distribution_
    blocks = [slice(start, start + BLOCK) for start in range(0, len(s), BLOCK)]
    scores = np.concatenate([distribution.decision(s[b], x[b]) for b in blocks])
    positive = coding.labels.positive
    if scores.shape[1] > 2:
        decided = scores.argmax(axis=1)
    else:
        chosen = model.threshold_.decide(scores[:, positive], s)
        decided = np.where(chosen, positive, 1 - positive)
    return AuditedRows(
        table=None,
        labels=None,
        sensitive=None,
        fair_labels=None,
        names=coding.features.names,
        names_in=coding.features.names_in,
        missing_values=coding.features.missing_values,
        s=s,
        d=d,
        x=x,
        weights=None,
        counts=None,
        persons=None,
        scores=scores,
        observed=np.concatenate([distribution.observed(s[b], x[b]) for b in blocks]),
        decided=decided.astype(np.intp),
        groups=coding.groups.names,
        classes=tuple(str(c) for c in coding.labels.classes),
        positive=positive,
        fingerprint="",
        same_rows_as_fit=False,
        n_table=len(s),
    )


def _persons(clusters: npt.ArrayLike | None, n_rows: int) -> Positions | None:
    if clusters is None:
        return None
    names = np.asarray(clusters)
    if names.shape != (n_rows,):
        raise AuditError(
            f"clusters has shape {names.shape} and the table {n_rows} rows: give who each row "
            "is about"
        )
    missing = [i for i, v in enumerate(names.tolist()) if v is None or v != v]
    if missing:
        raise AuditError(f"clusters is missing in row {missing[0]}: give every row a person")
    found, ids = np.unique(names, return_inverse=True)
    return None if len(found) == n_rows else ids.astype(np.intp)
