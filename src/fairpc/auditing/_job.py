"""An audit while it is made: its settings, its rows, what was found and what was left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Literal

from fairpc.auditing._rows import AuditedRows
from fairpc.core import AuditError, FairpcError
from fairpc.evidence import AssumptionTest, StrataTest, TestsByStratum
from fairpc.models import FittedDecisions, Progress, Report, Strata

if TYPE_CHECKING:
    from fairpc.auditing._assumptions import Tested

Classifier = Literal["logistic", "boosting", "best"]

MAX_ROWS: Final = 3000
MAX_TEST_ROWS: Final = 20_000

_LEAST: Final = {
    "n_seeds": 1,
    "cv": 2,
    "max_rows": 100,
    "max_test_rows": 100,
    "random_state": 0,
    "n_replicates": 0,
    "n_starts": 0,
}


@dataclass(frozen=True)
class Settings:
    """Options of an audit; see :func:`fairpc.audit`."""

    level: float = 0.95
    random_state: int = 0
    n_seeds: int | None = None
    classifier: Classifier = "best"
    cv: int = 3
    max_rows: int | None = MAX_ROWS
    max_test_rows: int | None = MAX_TEST_ROWS
    n_replicates: int | None = None
    n_starts: int | None = None
    baselines: bool = True
    max_memory: int | str | None = None

    def __post_init__(self) -> None:
        if not 0.5 <= self.level < 1:
            raise AuditError(
                f"level is {self.level}: give a confidence level, at least .5 and below 1"
            )
        if self.classifier not in ("logistic", "boosting", "best"):
            raise AuditError(
                f"classifier is {self.classifier!r}: give 'logistic', 'boosting' or 'best'"
            )
        for name, least in _LEAST.items():
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


@dataclass(frozen=True)
class Step:
    """One step of an audit."""

    name: str  #: of a section, or "section.part"
    words: str  #: what it does, for whoever waits
    #: what it says; a FairpcError says why these rows or this model have no answer
    compute: Callable[[Job], Any]
    needed: bool = False  #: whether there is no audit without it


@dataclass
class Job:
    """An audit while it is made."""

    model: FittedDecisions
    settings: Settings
    progress: Report | None = None
    steps: Mapping[str, str] = field(default_factory=dict)  #: names of all steps, in order -> words
    #: step -> what it computed; None where it has no answer
    found: dict[str, Any] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)  #: step -> why it has none
    seconds: dict[str, float] = field(default_factory=dict)  #: step -> time it took

    @property
    def rows(self) -> AuditedRows:
        """All rows, equal ones perhaps merged: for what is a sum over rows."""
        rows: AuditedRows = self.found["scores"].rows
        return rows

    @property
    def drawn(self) -> AuditedRows:
        """Rows as they are in the table."""
        drawn: AuditedRows = self.found["scores"].drawn
        return drawn

    @cached_property
    def sample(self) -> AuditedRows:
        """Rows that models are fitted to."""
        return self.drawn.sample(self.settings.max_rows, self.settings.random_state)

    @cached_property
    def strata(self) -> Strata:
        """Within what Df is independent of S; one stratum for most models."""
        return self.model._fitted_strata()

    @property
    def tested(self) -> Tested | None:
        """The plain test and its rows; None where these rows do not allow one."""
        return self.found.get("decidable.test")

    @property
    def test(self) -> AssumptionTest | None:
        """The plain test: Df is independent of S in the whole table."""
        return None if self.tested is None else self.tested.plain

    @property
    def own_test(self) -> AssumptionTest | StrataTest | TestsByStratum | None:
        """The test of what the model assumes: the plain one, or that within its strata."""
        return self.found.get("strata.test") if self.strata else self.test

    def run(self, step: Step) -> None:
        """Compute a step; where it has no answer, keep the reason and leave out its parts too."""
        if step.name.partition(".")[0] in self.left_out:
            return
        self.tell(step.name)
        began = perf_counter()
        try:
            self.found[step.name] = step.compute(self)
            self.seconds[step.name] = perf_counter() - began
        except FairpcError as error:
            if step.needed:
                raise
            self.found[step.name] = None
            self.left_out[step.name] = str(error)

    def tell(self, step: str, inner: str = "") -> None:
        if self.progress is not None:
            done = list(self.steps).index(step)
            self.progress(Progress(self.steps[step] + inner, done, len(self.steps), "step"))

    def within(self, step: str) -> Report:
        """What tells of progress inside a step; updates of EM are not counted aloud."""
        return lambda now: self.tell(step, f": {now.line if now.unit else now.what}")
