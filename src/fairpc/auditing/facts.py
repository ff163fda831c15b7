"""From a model and a table to the record of an audit."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any, Final, Literal, TypeVar

import numpy.typing as npt

from fairpc.auditing.assumptions import tested
from fairpc.auditing.circuits import circuit_facts
from fairpc.auditing.curves import score_curves
from fairpc.auditing.decidable import Decidable, assumption_facts
from fairpc.auditing.disparity import label_disparity
from fairpc.auditing.identified import identified_facts
from fairpc.auditing.learning import learning
from fairpc.auditing.limits import limits
from fairpc.auditing.mechanism import MechanismFacts, mechanism_facts
from fairpc.auditing.parities import parity_facts
from fairpc.auditing.performance import group_metrics
from fairpc.auditing.provenance import provenance
from fairpc.auditing.reading import Reading, read_table
from fairpc.auditing.record import Audit
from fairpc.auditing.refitted import mechanism_with_intervals, spread_over_starts
from fairpc.auditing.rows import AuditedRows
from fairpc.auditing.table import table_facts
from fairpc.auditing.tradeoff import TradeOff, trade_off
from fairpc.auditing.verdict import verdict
from fairpc.auditing.what_if import what_if
from fairpc.data.source import Progress as ReadingProgress
from fairpc.data.source import Watcher, is_source
from fairpc.errors import AuditError, FairpcError, TableWarning
from fairpc.estimators.base import CircuitClassifier
from fairpc.estimators.queries import check_not_dask
from fairpc.evidence import AssumptionTest
from fairpc.refits.workbench import Progress, Report

T = TypeVar("T")
Classifier = Literal["logistic", "boosting", "best"]

MAX_ROWS: Final = 3000
MAX_TEST_ROWS: Final = 20_000
_STEPS: Final = (
    "scores", "data", "labels", "decidable.test", "mechanism", "mechanism.intervals",
    "decidable.identified", "decidable.stability", "parity",
    "group_metrics", "trade_off", "curves", "the rest",
)  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """Options of an audit; see :func:`audit`."""

    level: float
    random_state: int
    n_seeds: int | None
    classifier: Classifier
    cv: int
    max_rows: int | None
    max_test_rows: int | None
    n_replicates: int | None
    n_starts: int | None
    baselines: bool
    max_memory: int | str | None

    def __post_init__(self) -> None:
        if not 0.5 <= self.level < 1:
            raise AuditError(
                f"level is {self.level}: give a confidence level, at least .5 and below 1"
            )
        if self.classifier not in ("logistic", "boosting", "best"):
            raise AuditError(
                f"classifier is {self.classifier!r}: give 'logistic', 'boosting' or 'best'"
            )
        for name, least in (
            ("n_seeds", 1),
            ("cv", 2),
            ("max_rows", 100),
            ("max_test_rows", 100),
            ("random_state", 0),
            ("n_replicates", 0),
            ("n_starts", 0),
        ):
            value = getattr(self, name)
            if value is not None and value < least:
                raise AuditError(f"{name} is {value}: give at least {least}")

    @property
    def n_drawn(self) -> int:
        """Rows of a streamed table that are kept as they are."""
        for name in ("max_rows", "max_test_rows"):
            if getattr(self, name) is None:
                raise AuditError(
                    f"{name} is None, for all rows, and the table is streamed: give the size of a "
                    "random sample, or read the table into memory"
                )
        return max(self.max_rows or 0, self.max_test_rows or 0)


def audit(
    model: CircuitClassifier,
    X: Any,
    y: Any = None,
    *,
    sensitive_features: Any = None,
    sample_weight: npt.ArrayLike | None = None,
    clusters: npt.ArrayLike | None = None,
    fair_labels: Any = None,
    level: float = 0.95,
    random_state: int = 0,
    n_seeds: int | None = None,
    classifier: Classifier = "logistic",
    cv: int = 3,
    max_rows: int | None = MAX_ROWS,
    max_test_rows: int | None = MAX_TEST_ROWS,
    n_replicates: int | None = None,
    n_starts: int | None = None,
    baselines: bool = True,
    max_memory: int | str | None = None,
    progress: Report | None = None,
) -> Audit:
    """Facts about a fitted model on a table: its training rows, or any others.

    Args:
        model: a fitted FairPC, NLatPC, LatNB or TwoNB.
        X: table; missing values are allowed. Or a table that is read in batches, however long:
            the path of a Parquet, CSV or Arrow file, a folder, a glob, a polars lazy frame.
        y: observed labels, some or all of which may be missing; then less can be said. The name
            of a column where X is read in batches, as is then ``sample_weight``.
        sensitive_features: groups given apart, as at fit.
        sample_weight: how many people a row stands for.
        clusters: who each row is about, where persons repeat.
        fair_labels: as at fit, where the model was held to decisions that were known.
        level: of the intervals.
        random_state: of samples, folds and refits.
        n_seeds: ways of splitting in the test of the assumptions; None: 11, or down to 3 where
            many rows differ.
        classifier: what ranks the rows in that test: "logistic", "boosting", or "best", the
            better of the two on inner folds, which takes about 40 times as long.
        cv: folds of the trade-off.
        max_rows: where more rows than this differ in X, random starts and the trade-off use a
            random sample of this size, and say so; None for all rows.
        max_test_rows: the same for the test of the assumptions.
        n_replicates: bootstrap draws for intervals of the mechanism, on training rows alone; None:
            50 to 200 where that is quick; 0 for none.
        n_starts: random starts; None: up to 10 where that is quick; 0 for none.
        baselines: whether to fit other methods for the trade-off.
        max_memory: bytes, or text like "4GB": where the distinct rows of a streamed table take
            more, a random sample of them is audited, which is said. Half of the machine's memory
            by default; give what the fit was given to have its rows known again.
        progress: called with a :class:`fairpc.refits.Progress` before each part.
    """
    settings = Settings(
        level, random_state, n_seeds, classifier, cv, max_rows, max_test_rows, n_replicates,
        n_starts, baselines, max_memory,
    )  # fmt: skip
    _check_model(model)
    check_not_dask(X)
    run = _Run(progress)
    read = run.must(
        "scores",
        lambda: read_table(
            model,
            X,
            y,
            sensitive_features=sensitive_features,
            sample_weight=sample_weight,
            clusters=clusters,
            fair_labels=fair_labels,
            reading=Reading(settings.n_drawn if is_source(X) else 0, max_memory, random_state),
            watch=_watch(run),
        ),
    )
    with warnings.catch_warnings():
        # What is odd about the rows was said when they were read.
        warnings.simplefilter("ignore", TableWarning)
        return _record(model, read.rows, read.drawn, settings, run)


def _watch(run: _Run) -> Watcher:
    """Tells how far a table that is read in batches has been read."""
    tell = run.within("scores")

    def watch(read: ReadingProgress) -> None:
        done = f"{read.done:,} {read.unit}"
        if read.total:
            done = f"{read.done / read.total:.0%} of {read.total / 1e6:,.0f} MB"
        tell(Progress(f"{read.stage}, {done}", 0, 1))

    return watch


def _check_model(model: object) -> None:
    if not isinstance(model, CircuitClassifier):
        raise AuditError(
            f"the model is a {type(model).__name__}: audit takes a fitted FairPC, NLatPC, LatNB or "
            "TwoNB; for others use fairpc.evidence and fairpc.compare"
        )
    if not hasattr(model, "distribution_"):
        raise AuditError(f"this {type(model).__name__} is not fitted: call fit first")


def _record(
    model: CircuitClassifier,
    rows: AuditedRows,
    drawn: AuditedRows,
    settings: Settings,
    run: _Run,
) -> Audit:
    """Sections from all rows where they are sums; ``drawn`` are rows as they are in the table."""
    level = settings.level
    sample = drawn.sample(settings.max_rows, settings.random_state)
    data = run.must("data", lambda: table_facts(model, rows))
    fitted_here = bool(data.same_rows_as_fit)
    labels = run.may("labels", lambda: label_disparity(rows, level))
    test = run.may("decidable.test", lambda: _tested(drawn, settings))
    whole = drawn if drawn.n_rows == rows.n_rows else rows
    mechanism = _mechanism(model, rows, whole, test, settings, run)
    identified = run.may("decidable.identified", lambda: identified_facts(model, rows, test))
    decidable = Decidable(
        test=None if test is None else assumption_facts(test, rows),
        untested=run.left_out.get("decidable.test", ""),
        identified=identified,
        stability=run.may(
            "decidable.stability",
            lambda: spread_over_starts(
                model,
                sample,
                n_starts=settings.n_starts,
                random_state=settings.random_state,
                progress=run.within("decidable.stability"),
            ),
        ),
        stability_rows=sample.n_rows,
    )
    parity = run.may("parity", lambda: parity_facts(model, rows, level))
    metrics = run.may(
        "group_metrics", lambda: group_metrics(rows, level, on_training_rows=fitted_here)
    )
    others = run.may("trade_off", lambda: _trade_off(model, rows, sample, settings, run))
    curves = run.may("curves", lambda: score_curves(rows))
    run.next("the rest")
    return Audit(
        verdict=verdict(data, labels, mechanism, decidable, parity),
        data=data,
        labels=labels,
        mechanism=mechanism,
        decidable=decidable,
        parity=parity,
        group_metrics=metrics,
        trade_off=others,
        curves=curves,
        learning=learning(model),
        circuit=circuit_facts(model),
        limits=limits(model),
        provenance=provenance(model, rows, asdict(settings), run.seconds),
        what_if=what_if(model),
        left_out=run.left_out,
    )


def _mechanism(
    model: CircuitClassifier,
    rows: AuditedRows,
    whole: AuditedRows,
    test: AssumptionTest | None,
    settings: Settings,
    run: _Run,
) -> MechanismFacts | None:
    """The mechanism, with intervals where there can be any, from draws of the whole rows."""
    facts = run.may("mechanism", lambda: mechanism_facts(model, rows))
    if facts is None:
        return None
    wider = run.may(
        "mechanism.intervals",
        lambda: mechanism_with_intervals(
            model, whole, facts, test, level=settings.level, n_replicates=settings.n_replicates,
            random_state=settings.random_state, progress=run.within("mechanism.intervals"),
        ),
    )  # fmt: skip
    return facts if wider is None else wider


def _tested(rows: AuditedRows, settings: Settings) -> AssumptionTest:
    classifier = None if settings.classifier == "best" else settings.classifier
    sample = rows.sample(settings.max_test_rows, settings.random_state)
    return tested(sample, settings.level, settings.n_seeds, classifier)


def _trade_off(
    model: CircuitClassifier,
    rows: AuditedRows,
    sample: AuditedRows,
    settings: Settings,
    run: _Run,
) -> TradeOff:
    if not settings.baselines:
        raise AuditError("it was not asked for (baselines=False)")
    return trade_off(
        model, sample, same_rows_as_fit=bool(rows.same_rows_as_fit),
        n_all=rows.n_rows, cv=settings.cv, random_state=settings.random_state,
        progress=run.within("trade_off"),
    )  # fmt: skip


@dataclass
class _Run:
    """Runs the parts of an audit: progress, time, and why a part is not there."""

    progress: Report | None
    left_out: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def next(self, name: str) -> None:
        if self.progress is not None:
            self.progress(Progress(name, _STEPS.index(name), len(_STEPS)))

    def within(self, name: str) -> Report:
        """What tells of progress inside a part."""

        def tell(inner: Progress) -> None:
            if self.progress is not None:
                self.progress(Progress(f"{name}: {inner.what}", _STEPS.index(name), len(_STEPS)))

        return tell

    def must(self, name: str, make: Callable[[], T]) -> T:
        """A part without which there is no audit."""
        self.next(name)
        began = perf_counter()
        result = make()
        self.seconds[name] = perf_counter() - began
        return result

    def may(self, name: str, make: Callable[[], T]) -> T | None:
        """A part that these rows or this model may have no answer for; the reason is kept."""
        try:
            return self.must(name, make)
        except FairpcError as error:
            self.left_out[name] = str(error)
            return None
