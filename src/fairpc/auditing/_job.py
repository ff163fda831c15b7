"""An audit while it is made: its settings, its table, what was found and what was left out.

The table is read in one pass: all rows, equal ones merged, and some as they are, at random. What is
a sum over rows is taken over the merged ones, each with its count. What fits models to rows, or
ranks them by features that are not coded, takes the random ones. Of a table in memory both are its
rows, one by one; so are they for a model that needs rows as they came, as many of them as memory
holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np

from fairpc.auditing._given_decisions import NO_MODEL, GivenDecisions, decided_rows
from fairpc.auditing._rows import (
    AuditedRows,
    Names,
    asked,
    audited_rows,
    labelled_rows,
    labels_by_group,
    same_rows,
)
from fairpc.core import (
    AuditError,
    Bools,
    FairpcError,
    Floats,
    Ints,
    RowSample,
    TableError,
    Words,
    check_choice,
    check_level,
    row_hash,
)
from fairpc.data import (
    MIN_CELL,
    CodedRows,
    Distinct,
    DistinctSum,
    Frame,
    GivenNames,
    Packing,
    Source,
    TableCoding,
    Warned,
    Watcher,
    check_some_weights,
    few_labelled,
    is_source,
    open_source,
)
from fairpc.evidence import AssumptionTest, TestsByStratum
from fairpc.models import (
    ROW_BYTES,
    FittedColumns,
    FittedDecisions,
    GivenRows,
    Progress,
    Report,
    Reviewed,
    Rows,
    Strata,
    check_not_apart,
    digest_name,
    memory_bytes,
)

if TYPE_CHECKING:
    from fairpc.auditing._tested import Tested

DRAWN: Final = 100_000
"""Rows that are kept as they are in the table, at least."""

CODED: Final = 1_000_000
"""Rows that are audited where more differ than memory holds; fewer where that is small."""

LEAST: Final = 1000
Classifier = Literal["logistic", "boosting", "best"]

MAX_TEST_ROWS: Final = 20_000

_LEAST: Final = {"n_seeds": 1, "max_test_rows": 100, "random_state": 0}


@dataclass(frozen=True)
class AuditSettings:
    """Options of an audit; see :func:`fairpc.audit`."""

    level: float = 0.95
    random_state: int = 0
    n_seeds: int | None = None
    classifier: Classifier = "best"
    max_test_rows: int | None = MAX_TEST_ROWS
    max_memory: int | str | None = None

    def __post_init__(self) -> None:
        check_level(self.level)
        check_choice("classifier", self.classifier, get_args(Classifier), AuditError)
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise AuditError(f"{name} is {value}: give at least {least}")

    @property
    def n_drawn(self) -> int:
        """Rows of a streamed table that are kept as they are."""
        if self.max_test_rows is None:
            raise AuditError(
                "max_test_rows is None, for all rows, and the table is streamed: give the size of "
                "a random sample, or read the table into memory"
            )
        return self.max_test_rows


@dataclass(frozen=True, eq=False)
class ReadTable:
    """What an audit knows of a table."""

    rows: AuditedRows  #: all rows of the table, equal ones merged; a sample where too many differ
    drawn: AuditedRows  #: rows as they are in the table: all of them, or as many at random

    def _each(self, change: Callable[[AuditedRows], AuditedRows]) -> ReadTable:
        rows = change(self.rows)
        return ReadTable(rows, rows if self.drawn is self.rows else change(self.drawn))

    def called(self, names: Names) -> ReadTable:
        """The same with other names of classes and groups."""
        return self._each(lambda of: replace(of, groups=names.groups, classes=names.classes))

    def without_few(self, least: int) -> ReadTable:
        """The table without the rows of groups, or of unknown group, that are fewer than a limit.

        With them, totals would say of these people what groups do not; where two groups would not
        be left, all stay.
        """
        n = np.bincount(self.rows.s + 1, self.rows.each_count, len(self.rows.groups) + 1)
        few = (n > 0) & (n < least)
        if not few.any() or np.count_nonzero((n > 0) & ~few & (np.arange(len(n)) > 0)) < 2:
            return self
        return self._each(lambda of: of.without_groups(few))


def read_table(
    model: FittedDecisions | GivenDecisions,
    X: Any,
    y: Any,
    settings: AuditSettings,
    *,
    sensitive_features: Any = None,
    sample_weight: Any = None,
    clusters: Any = None,
    min_cell: int = 1,
    watch: Watcher | None = None,
) -> ReadTable:
    """Encode a table as the model does, and ask the model about its rows.

    Labels of groups with fewer than ``min_cell`` of them are missing. Of a table that is read in
    batches all but X are names of columns. Decisions are given beside the rows of a table in
    memory.
    """
    if isinstance(model, GivenDecisions):
        decided = decided_rows(model, X, y, sensitive_features, sample_weight, clusters)
        return ReadTable(decided, decided)
    if not is_source(X):
        about = X, y, sensitive_features, sample_weight, clusters
        rows = audited_rows(model, *about, min_cell)
        return ReadTable(rows, rows)
    check_not_apart(sensitive_features=sensitive_features)
    roles = {"label": y, "weight": sample_weight, "clusters": clusters}
    source = open_source(X)
    coder = _Coder(FittedColumns.of(source, model.coding_, unused=True, **roles), min_cell)
    return _streamed(model, source, coder, settings, watch)


def _streamed(
    model: FittedDecisions,
    source: Source,
    coder: _Coder,
    settings: AuditSettings,
    watch: Watcher | None,
) -> ReadTable:
    """One pass over a table, and what the model says of the rows that are kept of it."""
    import polars as pl

    columns, most = coder.columns, memory_bytes(settings.max_memory) // ROW_BYTES
    n_drawn = max(settings.n_drawn, DRAWN)
    if model._needs_table:
        n_drawn = max(most, LEAST)
    drawn = RowSample(n_drawn, settings.random_state)  # as they are
    coded = RowSample(max(min(CODED, most // 2), LEAST), settings.random_state)  # as keys
    distinct, digest = DistinctSum(most, lambda part: None), np.zeros(4, np.uint64)
    labelled = np.zeros(len(columns.coding.groups.names) + 1, np.int64)
    warned = Warned()
    with warned.watching():
        for batch in source.map(columns.columns, coder, stage="rows", watch=watch):
            if batch is None:
                continue
            if batch.entries is not None:
                distinct.push(batch.entries)
            drawn.push(batch.frame.to_polars(), batch.persons)
            keys = pl.DataFrame({str(k): word for k, word in enumerate(batch.keys)})
            coded.push(keys, batch.persons)
            digest = digest + batch.digest
            labelled = labelled + batch.labelled
    few = few_labelled(labelled, coder.min_cell)
    if coder.few is None and few.any():
        # Whose labels are few is known when all rows were seen.
        return _streamed(model, source, replace(coder, few=few), settings, watch)
    if not drawn.n_seen:
        raise TableError(
            "the table is empty: it has no rows, or none with weight, give at least one"
        )
    warned.warn()
    name = digest_name(digest)
    facts: dict[str, Any] = {"fingerprint": name, "same_rows_as_fit": same_rows(model, name)}
    facts["n_table"] = drawn.n_seen
    with Warned().watching():  # it was said of all rows
        frame = drawn.rows()
        about = columns.given(frame)
        kept = replace(audited_rows(model, **about, min_cell=coder.min_cell, few=few), **facts)
    if model._needs_table or (columns.clusters is not None and len(frame) == drawn.n_seen):
        return ReadTable(kept, kept)
    # Distinct keys, if persons do not keep rows apart and they are not too many; else some rows.
    entries = None if columns.clusters is not None else distinct.total()
    if entries is None:
        words = np.stack([column.to_numpy() for column in coded.rows().iter_columns()])
        entries = Distinct(words, np.ones(words.shape[1]))
    return ReadTable(replace(coder.asked(model, entries), **facts), kept)


@dataclass(frozen=True, eq=False)
class _Batch:
    """Rows of a batch, those without weight left out."""

    frame: Frame  #: as they are
    keys: Words  #: packed codes; then the weight and the person, where there are such
    #: hash of the person of each row; None where rows are about different ones
    persons: Words | None
    #: distinct keys, and how many rows each is; None where persons keep rows apart
    entries: Distinct | None
    digest: Words  #: of the rows, as the fit makes it
    labelled: Ints  #: rows with a label: of unknown group, then of each


@dataclass(frozen=True, eq=False)
class _Coder:
    """Batches to packed rows: group, label, features."""

    columns: FittedColumns
    min_cell: int = 1  #: labels of groups with fewer of them are missing
    few: Bools | None = None  #: which groups these are, once all rows were seen

    @property
    def packing(self) -> Packing:
        coding = self.columns.coding
        sizes = len(coding.groups.names), len(coding.labels.classes), *coding.features.arities
        return Packing(sizes, unit=self.columns.weight is not None)

    def __call__(self, frame: Frame) -> _Batch | None:
        """The packed rows of a batch; None where none has weight."""
        columns = self.columns
        if columns.weight is not None:
            weights = check_some_weights(np.asarray(frame.column(columns.weight)), frame.n_rows)
            if not weights.any():
                return None
            if not weights.all():
                frame = frame.taken(np.flatnonzero(weights))
        given = columns.given(frame)
        people = given.pop("clusters")
        few = np.zeros(len(columns.coding.groups.names) + 1, np.bool_)
        few = few if self.few is None else self.few
        rows = labelled_rows(columns.coding, **given, min_cell=self.min_cell, few=few)
        labelled = labels_by_group(rows)
        codes = [rows.s, rows.d, *rows.x.T]
        keys = self.packing.pack(codes)
        if columns.weight is not None:
            keys = np.vstack([keys, rows.weights.view(np.uint64)])
        if people is None:
            entries = self.packing.distinct(codes, rows.weights)
            return _Batch(frame, keys, None, entries, rows.digest(), labelled)
        series = people.to_native()
        if series.null_count():
            row = int(series.is_null().arg_max())
            raise AuditError(f"clusters is missing in row {row}: give every row a person")
        persons = row_hash(np.asarray(series.hash(0).to_numpy(), np.uint64)[None])
        return _Batch(frame, np.vstack([keys, persons]), persons, None, rows.digest(), labelled)

    def asked(self, model: FittedDecisions, entries: Distinct) -> AuditedRows:
        """Distinct keys, or rows at random, as rows with counts or persons."""
        words, persons = entries.words, None
        counts: Floats | None = entries.weights
        if self.columns.clusters is not None:
            _, persons = np.unique(words[-1], return_inverse=True)
            words, counts = words[:-1], None
        weights = None
        if self.columns.weight is not None:
            each = words[-1].view(np.float64)
            weights = None if np.ptp(each) == 0 else each
        codes = self.packing.unpack(np.ascontiguousarray(words))
        alike = CodedRows(codes, np.ones(len(codes)))
        names = self.columns.coding.features.names
        rows = Rows.coded(alike, self.packing.arities, names)
        answered = asked(model, GivenRows(rows))
        return replace(answered, weights=weights, counts=counts, persons=persons)


@dataclass(frozen=True)
class AuditStep:
    """One step of an audit."""

    name: str  #: of a section, or "section.part"
    words: str  #: what it does, for whoever waits
    #: what it says; a FairpcError says why these rows or this model have no answer
    compute: Callable[[Job], Any]
    needed: bool = False  #: whether there is no audit without it
    of_model: bool = True  #: whether it asks for a model of ours; others need only decisions


@dataclass
class Job:
    """An audit while it is made."""

    subject: FittedDecisions | GivenDecisions
    settings: AuditSettings
    progress: Report | None = None
    steps: Mapping[str, str] = field(default_factory=dict)  #: names of all steps, in order -> words
    reviewed: Reviewed | None = None  #: what reviewers said of rows of the table
    given_names: GivenNames | None = None  #: of classes and groups
    #: step -> what it computed; None where it has no answer
    results: dict[str, Any] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)  #: step -> why it has none
    seconds: dict[str, float] = field(default_factory=dict)  #: step -> time it took

    @property
    def model(self) -> FittedDecisions:
        """The model; an AuditError where decisions are audited that are not of a model of ours."""
        if isinstance(self.subject, GivenDecisions):
            raise AuditError(NO_MODEL)
        return self.subject

    @property
    def decisions(self) -> GivenDecisions | None:
        """Decisions that are not of a model of ours; None if there is one."""
        return self.subject if isinstance(self.subject, GivenDecisions) else None

    @property
    def coding(self) -> TableCoding:
        return self.subject.coding_

    @cached_property
    def names(self) -> Names:
        """What classes and groups are called: as the audit is told, else as the fit was."""
        kept, given = getattr(self.subject, "names_", {}), self.coding.names_of(self.given_names)
        both = {c: {**kept.get(c, {}), **given.get(c, {})} for c in (*kept, *given)}
        return Names.of(self.coding, both)

    @property
    def min_cell(self) -> int:
        """The fewest people about whom a number is reported."""
        return int(getattr(self.subject, "min_cell", MIN_CELL))

    @property
    def takes_table(self) -> bool:
        """Whether columns are used as they came, by a classifier."""
        return not isinstance(self.subject, FittedDecisions) or self.subject._needs_table

    @property
    def rows(self) -> AuditedRows:
        """All rows, equal ones perhaps merged: for what is a sum over rows."""
        rows: AuditedRows = self.results["scores"].rows
        return rows

    @property
    def drawn(self) -> AuditedRows:
        """Rows as they are in the table."""
        drawn: AuditedRows = self.results["scores"].drawn
        return drawn

    @cached_property
    def strata(self) -> Strata:
        """Within what Df is independent of S; one stratum for most models."""
        return Strata() if self.decisions else self.model._fair().strata

    @property
    def tested(self) -> Tested | None:
        """The plain test and its rows; None where these rows do not allow one."""
        return self.results.get("decidable.test")

    @property
    def test(self) -> AssumptionTest | None:
        """The plain test: Df is independent of S in the whole table."""
        return None if self.tested is None else self.tested.unstratified

    @property
    def own_test(self) -> AssumptionTest | TestsByStratum | None:
        """The test of what the model assumes: the plain one, or that within its strata."""
        return self.results.get("strata.test") if self.strata else self.test

    def run(self, step: AuditStep) -> None:
        """Compute a step; where it has no answer, keep the reason and leave out its parts too."""
        if step.name.partition(".")[0] in self.left_out:
            return
        if self.decisions and step.of_model:
            self.results[step.name], self.left_out[step.name] = None, NO_MODEL
            return
        self.report_step(step.name)
        began = perf_counter()
        try:
            self.results[step.name] = step.compute(self)
            self.seconds[step.name] = perf_counter() - began
        except FairpcError as error:
            if step.needed:
                raise
            self.results[step.name] = None
            self.left_out[step.name] = str(error)

    def report_step(self, step: str, inner: str = "") -> None:
        if self.progress is not None:
            done = list(self.steps).index(step)
            self.progress(Progress(self.steps[step] + inner, done, len(self.steps), "step"))
