"""The audited rows as arrays: codes, scores, decisions, weights, persons.

Equal rows may be one entry with a count: what is a sum over rows is then a sum over entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, Final, TypeVar

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from fairpc.auditing import _formats as text
from fairpc.core import AuditError, Bools, Codes, Floats, Ints, Positions, check_clusters
from fairpc.data import (
    MISSING,
    Encoding,
    GivenNames,
    TableCoding,
    few_labelled,
    read_frame,
    take_rows,
)
from fairpc.evidence import some_of
from fairpc.models import ROWS, FittedDecisions, GivenRows, Rows, rows_fingerprint, rows_in_order

_NO_GROUPS: Final = (
    "the groups of the rows are not known: give the sensitive columns with the table, or "
    "sensitive_features"
)
_NAMED: Final = dict.fromkeys(("group", "first", "last", "above", "below"), "groups") | {
    "label": "classes",
    "classes": "classes",
    "positive": "classes",
}
"""Fields of records of evidence that hold a code -> what it is one of."""
R = TypeVar("R", bound=Any)
_GIVEN: Final = ("table", "labels", "sensitive")
_EACH: Final = ("s", "d", "x", "scores", "observed", "decided", "weights", "counts", "persons")


_SEXES: Final = {
    **dict.fromkeys(("f", "female", "woman", "women"), "women"),
    **dict.fromkeys(("m", "male", "man", "men"), "men"),
}


_DECIDED: Final = (
    *("accepted", "admitted", "approved", "awarded", "chosen", "declined", "denied", "detained"),
    *("dismissed", "funded", "granted", "hired", "invited", "offered", "paroled", "promoted"),
    *("recommended", "refused", "rejected", "released", "selected", "shortlisted"),
)
"""What a decision does to somebody, who can deserve "to be hired"; other names are quoted."""


@dataclass(frozen=True)
class Names:
    """What the label, its classes and the groups are called where people read of them."""

    title: str  #: of a report: "Loan approvals by sex"
    sensitive: str  #: "sex", "sex and race"
    classes: tuple[str, ...]
    groups: tuple[str, ...]
    said: Mapping[str, str]  #: a class as a sentence says it: approved, or “yes”
    people: Mapping[str, str]  #: a group as a sentence says it: women, or people in group 3

    @classmethod
    def of(cls, coding: TableCoding, given: GivenNames | None = None) -> Names:
        """Names as they were given, by column and value; else those of the table.

        A column has a text, its own name, or a mapping of its values, in which "" is the column.
        """
        groups, labels = coding.groups, coding.labels
        asked = coding.names_of(given)
        label = asked.get(labels.name, {})
        classes, names = coding.called(asked)
        named = [label[c] for c in map(str, labels.classes) if c in label]
        decided = {n: text.short(n, 40) for n in named if n.split(" ")[0].lower() in _DECIDED}
        people = dict[str, str]()
        for name, cell in zip(names, groups.cells, strict=True):
            parts = [(c.name, c.labels[v]) for c, v in zip(groups.columns, cell, strict=True)]
            own = [asked.get(column, {}).get(level) for column, level in parts]
            usual = None
            if len(parts) == 1 and parts[0][0].lower() in ("sex", "gender"):
                usual = own[0] or _SEXES.get(parts[0][1].lower())
            noun = usual or (name if all(own) else f"people in group {name}")
            people[name] = text.short(noun, 60)
        by = text.listed([asked.get(n, {}).get("", _readable(n)) for n in groups.column_names])
        what = label.get("", _readable(labels.name))
        title = f"{text.short(what[:1].upper() + what[1:], 60)} by {by}"
        said = {c: decided.get(c, text.quoted(c)) for c in classes}
        return cls(title, by, classes, names, said, people)

    def who(self, group: str) -> str:
        return self.people.get(group, f"people in group {text.short(group, 40)}")


def _readable(column: str) -> str:
    return " ".join(column.replace("_", " ").split()) or column


@dataclass(frozen=True, eq=False)
class AuditedRows:
    """What is known of each audited row, and what the model says of it."""

    features: Encoding  #: how the model reads the columns
    s: Codes  #: group, -1 where missing
    d: Codes  #: observed class, -1 where missing
    x: Codes  #: codes of the features
    scores: Floats  #: P(decision = k | x, s), rows × classes; 0 and 1 where there are no scores
    observed: Floats  #: P(D = k | x, s), rows × classes; no columns without a model of ours
    decided: Positions  #: the class that ``predict`` gives
    groups: tuple[str, ...]  #: names, in the order of the codes
    classes: tuple[str, ...]  #: the same
    positive: int  #: number of the positive class
    n_table: int  #: rows of the table; more than are audited where that is a sample of them
    weights: Floats | None = None  #: of one row of each entry; None where all rows count alike
    counts: Floats | None = None  #: how many equal rows each entry is; None where each is one
    persons: Positions | None = None  #: who each row is about; None where nobody repeats
    table: Any = None  #: X as given; None where equal rows are merged, as are the next two
    labels: Any = None  #: the class of each row as the model names it, None where missing
    sensitive: Any = None  #: groups as given
    fingerprint: str = ""  #: of the rows of the table, as that of the training rows is made
    same_rows_as_fit: bool | None = False  #: these are the rows of the fit; None if not known
    scored: bool = True  #: whether there are scores, or decisions alone
    too_few: tuple[int, ...] = ()  #: groups whose rows were left out, because they are few people

    @classmethod
    def of(
        cls,
        coding: TableCoding,
        rows: Rows,
        scores: Floats,
        observed: Floats,
        decided: Positions,
        **more: Any,
    ) -> AuditedRows:
        """Rows one by one, as if they counted alike, and what is said of them."""
        return cls(
            coding.features,
            *(rows.s, rows.d, rows.x),
            *(scores, observed, decided),
            groups=coding.group_names,
            classes=tuple(map(str, coding.labels.classes)),
            positive=coding.labels.positive,
            n_table=rows.n_rows,
            **more,
        )

    @property
    def positive_class(self) -> str:
        return self.classes[self.positive]

    def named(self, record: R) -> R:
        """A record of evidence on codes, with the names of groups and classes in it."""
        known: dict[str, Any] = {}
        for name, value in ((f.name, getattr(record, f.name)) for f in fields(record)):
            names = _NAMED.get(name) and getattr(self, _NAMED[name])
            if isinstance(value, tuple) and any(map(is_dataclass, value)):
                known[name] = tuple(map(self.named, value))
            elif is_dataclass(value):
                known[name] = self.named(value)
            elif isinstance(value, dict):
                known[name] = {self.groups[code]: self.named(own) for code, own in value.items()}
            elif isinstance(value, tuple) and names:
                known[name] = tuple(names[code] for code in value)
            elif names and value is not None:
                known[name] = names[value]
        return replace(record, **known)

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

    def mean(self, values: Floats | Bools, entries: Bools) -> float | None:
        """Mean of a value over some entries, by weight; None where they have none."""
        weights = self.each_weight[entries]
        return float(np.average(values[entries], weights=weights)) if weights.any() else None

    def weighing(self, entries: Bools) -> dict[str, Any]:
        """What functions of ``fairpc.evidence`` are given about some entries besides their values.

        Weights, persons and counts, in this order; each is None where rows count alike.
        """
        given = {"sample_weight": self.weights, "clusters": self.persons, "counts": self.counts}
        return {name: some_of(values, entries) for name, values in given.items()}

    @property
    def shown_classes(self) -> tuple[int, ...]:
        """Classes that gaps are measured of: the positive one of two, every one of more."""
        return (self.positive,) if len(self.classes) == 2 else tuple(range(len(self.classes)))

    def coded(self) -> Rows:
        """The entries as rows of codes, with all their weight."""
        arities, names = np.array(self.features.arities, np.int64), self.features.names
        sizes = len(self.groups), len(self.classes), arities
        return Rows(self.s, self.d, self.x, self.each_weight, *sizes, names)

    def given(self) -> GivenRows:
        """The entries as models are asked about them."""
        return GivenRows(self.coded(), self.as_at_fit())

    def comparable(self, rows: Bools, least: int = 2, *, every_class: bool = False) -> Bools:
        """Those of the rows whose group is known and has so many rows, or persons, among them.

        And a row of every class, if that is asked. An AuditError where that leaves fewer than two
        groups.
        """
        if not (self.s >= 0).any():
            raise AuditError(_NO_GROUPS)
        kept, persons = rows & (self.s >= 0), self.persons
        for g in range(len(self.groups)):
            here = kept & (self.s == g)
            count = self.number(here) if persons is None else len(np.unique(persons[here]))
            complete = len(np.unique(self.d[here])) == len(self.classes) or not every_class
            if count < least or not complete:
                kept &= self.s != g
        if len(self.groups_in(kept)) < 2:
            lacking = "two known rows each: give the groups of more rows"
            if every_class:
                lacking = f"{least} labelled rows and a row of every class"
            raise AuditError(f"fewer than two groups have {lacking}")
        return kept

    def groups_in(self, rows: Bools) -> tuple[int, ...]:
        """Groups that occur among the rows."""
        return tuple(int(g) for g in np.unique(self.s[rows]) if g >= 0)

    def as_at_fit(self) -> Any:
        """The table with the columns of the fit alone: others were left out, perhaps as answers."""
        return columns_of_fit(self.features, self.table)

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

    def without_groups(self, hidden: Bools) -> AuditedRows:
        """The rows of other groups; the first of ``hidden`` is about unknown ones."""
        kept = self._take(np.flatnonzero(~hidden[self.s + 1]))
        few = tuple(np.flatnonzero(hidden[1:]).tolist())
        return replace(kept, n_table=self.n_table - self.n_rows + kept.n_rows, too_few=few)

    def _take(self, rows: Ints) -> AuditedRows:
        known = {name: value for name, value in vars(self).items() if value is not None}
        taken = {name: known[name][rows] for name in _EACH if name in known}
        given = {name: take_rows(known[name], rows) for name in _GIVEN if name in known}
        return replace(self, **taken, **given)

    def parts(self) -> Iterator[tuple[str | None, Bools]]:
        """All rows under the name None, then the rows of each group."""
        yield None, self.every
        for g, name in enumerate(self.groups):
            yield name, self.s == g


def taken(kind: type[R], record: Any, **more: Any) -> R:
    """A record of this class: ``more``, and what another record has under the same names."""
    names = [f.name for f in fields(kind) if f.name not in more and hasattr(record, f.name)]
    found: R = kind(**{name: getattr(record, name) for name in names}, **more)
    return found


def columns_of_fit(features: Encoding, table: Any) -> Any:
    """A table with the columns of the fit alone, in their order; an array as it is."""
    native = nw.from_native(table, eager_only=True, pass_through=True)
    if not isinstance(native, nw.DataFrame):
        return table
    there = set(native.columns)
    return native[[n for n in features.names_in if n in there]].to_native()


def same_rows(model: FittedDecisions, name: str) -> bool | None:
    """Whether rows of this name are those of the fit; older files name them in another way."""
    known = model.data_fingerprint_
    return name == known if known.startswith(ROWS) else None


def audited_rows(
    model: FittedDecisions,
    X: Any,
    y: Any,
    sensitive_features: Any,
    sample_weight: npt.ArrayLike | None,
    clusters: npt.ArrayLike | None = None,
    min_cell: int = 1,
    few: Bools | None = None,
) -> AuditedRows:
    """Encode the table as the model does, and ask the model about every row that has weight.

    Labels of groups with fewer than ``min_cell`` of them are missing.
    """
    if y is not None:
        model.coding_.labels.check_known(y)
    about = X, y, sensitive_features, sample_weight
    rows = labelled_rows(model.coding_, *about, min_cell=min_cell, few=few)
    answered = replace(
        asked(model, GivenRows(rows, columns_of_fit(model.coding_.features, X))),
        labels=None if y is None else model.coding_.labels.inverse(rows.d),
        same_rows_as_fit=same_rows(model, rows_fingerprint(rows)),
    )
    return with_table(answered, rows, X, sensitive_features, clusters)


def labelled_rows(
    coding: TableCoding,
    X: Any,
    y: Any,
    sensitive_features: Any,
    sample_weight: Any,
    *,
    min_cell: int,
    warn: bool = True,
    few: Bools | None = None,
) -> Rows:
    """The rows of a frame, without labels of groups (unknown, then each) that have few of them.

    Nor with those of groups that the model does not know: with them, totals would say of these
    people what groups do not. ``few`` are counted where the frame is not the whole table.
    """
    given = X, y, sensitive_features, sample_weight
    if y is None or min_cell == 1:
        return rows_in_order(coding, *given, warn=warn)
    hidden = coding.unknown_groups(read_frame(X), sensitive_features)
    rows = rows_in_order(coding, *given, warn=warn, hidden=hidden)
    if few is None:
        few = few_labelled(labels_by_group(rows), min_cell)
    return replace(rows, d=np.where(few[rows.s + 1], MISSING, rows.d).astype(np.int16))


def labels_by_group(rows: Rows) -> Ints:
    """How many rows with weight have a label: of unknown group, then of each."""
    known = (rows.d >= 0) & (rows.weights > 0)
    return np.bincount(rows.s[known] + 1, minlength=rows.n_groups + 1)


def with_table(
    answered: AuditedRows,
    rows: Rows,
    X: Any,
    sensitive_features: Any,
    clusters: npt.ArrayLike | None,
) -> AuditedRows:
    """Answers with the table that they are about; rows without weight or score are left out."""
    audited = replace(
        answered,
        table=X,
        sensitive=sensitive_features,
        weights=rows.weights,
        persons=check_clusters(clusters, rows.n_rows),
        fingerprint=rows_fingerprint(rows),
    )
    scored = ~np.isnan(answered.scores).any(axis=1)
    if not scored.any():
        raise AuditError("no row has a known group, and such rows have no score: give the groups")
    used = np.flatnonzero((rows.weights > 0) & scored)
    if len(used) < rows.n_rows:
        audited = replace(audited._take(used), n_table=len(used))
    alike = np.ptp(rows.weights[used]) == 0
    return replace(audited, weights=None) if alike else audited


def asked(model: FittedDecisions, given: GivenRows) -> AuditedRows:
    """Rows, as if they counted alike, with what the model says of them."""
    coding, rows = model.coding_, given.codes
    scores, observed = model._answers(given)
    return AuditedRows.of(coding, rows, scores, observed, decided(model, scores, rows.s))


def decided(model: FittedDecisions, scores: Floats, s: Codes) -> Positions:
    """The class that ``predict`` gives by scores of all classes."""
    if scores.shape[1] > 2:
        return np.asarray(scores.argmax(axis=1))
    positive = model.coding_.labels.positive
    chosen = model.threshold_.decide(scores[:, positive], s)
    return np.where(chosen, positive, 1 - positive).astype(np.intp)
