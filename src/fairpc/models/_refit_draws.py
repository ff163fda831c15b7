"""Progress of refits, how rows are drawn for them, and their estimates side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy.optimize import linear_sum_assignment

from fairpc.core import Bools, Floats, Ints, LearningError, Positions, showing_progress, terminal
from fairpc.models._distribution import FairDistribution
from fairpc.models._rows import Rows, effective_size

STAGE: Final = "stage"
"""A unit of work that people wait for, whose number stands behind its words."""


@dataclass(frozen=True)
class Progress:
    """How much is done.

    Attributes:
        what: what is being done, in words.
        done, total: steps; a total of 0 is not known.
        unit: what one of them is called, where ``what`` says what the next one does.
    """

    what: str
    done: int
    total: int
    unit: str = ""

    @property
    def line(self) -> str:
        """All of it in words."""
        if not self.total:
            return f"{self.done:,} {self.what} so far"
        if self.unit == STAGE:
            return f"{self.what} {self.done + 1}/{self.total}"
        if self.unit:
            return f"{self.unit} {self.done + 1:,} of {self.total:,}, {self.what}"
        return f"{self.what}, {self.done:,} of {self.total:,}"


Report = Callable[[Progress], object]


@contextmanager
def progress(verbose: bool, callback: Report | None) -> Iterator[Report]:
    """A function to call with what is done: the user's callback and, if ``verbose``, a bar.

    Where there is no terminal to draw it on, a line now and then says the same.
    """
    console = terminal() if verbose else None
    if console is None:
        with showing_progress("fairpc", shown=verbose) as say:

            def report(now: Progress) -> None:
                say(now.line)
                if callback is not None:
                    callback(now)

            yield report
        return
    from rich.progress import Progress as Bar

    with Bar(console=console, transient=True) as bar:
        task = bar.add_task("Starting", total=None)

        def show(now: Progress) -> None:
            words = now.line if now.unit == STAGE else now.what
            bar.update(task, description=words, completed=now.done, total=now.total or None)
            if callback is not None:
                callback(now)

        yield show


def steps_of(
    report: Report, what: str, total: int, *, before: int = 0, each: int = 1
) -> Callable[[int], object]:
    """A function to call with the number of each update of EM, which reports what is done."""
    return lambda step: report(Progress(what, before + step * each, total))


def check_count(name: str, value: Any, least: int, why: str) -> int:
    """A whole number that is large enough."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise LearningError(f"{name} is {value!r}: give a whole number from {least} on; {why}")
    return int(value)


@dataclass(frozen=True, eq=False)
class Estimates:
    """P(S), P(Df) and P(D | Df, S) of several parameter sets: [b, s], [b, f], [b, s, f, d]."""

    group_rate: Floats
    fair_rate: Floats
    mechanism: Floats

    @classmethod
    def of(cls, model: FairDistribution, parameters: Floats) -> Estimates:
        """Of parameter sets of a model; within strata the groups' own rates and mechanisms."""
        top, strata, sets = model.top, model.layout.strata, np.atleast_2d(parameters)
        if not (strata or strata.delta):
            return cls(sets[:, top.group], sets[:, top.decision[0]], sets[:, top.mechanism])
        shape = len(sets), model.layout.n_groups, strata.n
        share = sets[:, top.group].reshape(shape)
        decided = sets[:, top.decision].reshape(*shape, -1) * share[..., None]
        mechanism = sets[:, top.mechanism]
        if strata.within:
            k = decided.shape[-1]
            weight = decided / decided.sum(axis=2, keepdims=True)
            mechanism = np.einsum("bsaf,bsafd->bsfd", weight, mechanism.reshape(*shape, k, k))
        return cls(share.sum(axis=2), decided.sum(axis=(1, 2)), mechanism)

    @classmethod
    def of_model(cls, model: FairDistribution) -> Estimates:
        """Of a model as it is."""
        return cls(model.group_rate[None], model.fair_rate[None], model.mechanism[None])

    def __getitem__(self, some: slice) -> Estimates:
        return Estimates(self.group_rate[some], self.fair_rate[some], self.mechanism[some])


@dataclass(frozen=True, eq=False)
class Aligned:
    """Estimates after one permutation of Df for all groups, next to a reference."""

    fair_rate: Floats  #: [b, f]
    mechanism: Floats  #: [b, s, f, d]
    permuted: Bools  #: which sets were renamed
    switched: Bools  #: [b, s], where the values of Df inside one group are still in another order


def aligned_to(reference: Estimates, estimates: Estimates, *, named: bool) -> Aligned:
    """Each set with the values of Df in the order of the reference; kept where they are named.

    The order is that in which the mechanisms are nearest. A permutation of Df in all
    groups at once is another name for the same model. One inside a group is
    another model: it is reported, not repaired.
    """
    there, share = reference.mechanism[0], reference.group_rate[0]
    rates, mechanisms = estimates.fair_rate.copy(), estimates.mechanism.copy()
    same = np.arange(rates.shape[1])
    permuted = np.zeros(len(rates), np.bool_)
    switched = np.zeros((len(rates), len(share)), np.bool_)
    for b in range(len(rates)):
        order = same if named else _order(there, mechanisms[b], share)
        rates[b], mechanisms[b] = rates[b, order], mechanisms[b][:, order]
        permuted[b] = (order != same).any()
        for s, alone in enumerate(np.eye(len(share))):
            switched[b, s] = (_order(there, mechanisms[b], alone) != same).any()
    return Aligned(rates, mechanisms, permuted, switched)


def _order(there: Floats, mechanism: Floats, share: Floats) -> Ints:
    """For each value of Df in one mechanism [s, f, d] the value of the other that is nearest."""
    apart = np.abs(there[:, :, None, :] - mechanism[:, None, :, :]).sum(axis=3)
    return np.asarray(linear_sum_assignment(np.tensordot(share, apart, axes=1))[1], np.int64)


def mean_log_likelihood(distribution: FairDistribution, rows: Rows) -> float:
    """Mean log-likelihood of what is observed of the rows: groups, labels, features."""
    used = rows.weights > 0
    logs = distribution.log_likelihood(rows.s, rows.d, rows.x)
    return float(np.dot(rows.weights[used], logs[used]) / rows.weights[used].sum())


@dataclass(frozen=True, eq=False)
class Draws:
    """How rows are drawn, and what is made of each draw."""

    n_replicates: int  #: see ``bootstrap_mechanism``, as for the next two
    n_steps: int
    level: Any
    persons: Positions | None = None  #: who each row is about, where persons are drawn

    def __post_init__(self) -> None:
        check_count("n_replicates", self.n_replicates, 2, "a spread needs two")
        check_count("n_steps", self.n_steps, 1, "500 are enough for most tables")
        if not (isinstance(self.level, int | float | np.number) and 0 < self.level < 1):
            raise LearningError(
                f"level is {self.level!r}: give a number between 0 and 1, such as .95"
            )

    def weights(self, given: Floats, rng: np.random.Generator) -> Floats:
        """Weights of the rows after as many draws with replacement as there are rows or persons."""
        n = len(given) if self.persons is None else int(self.persons.max()) + 1
        times = np.bincount(rng.integers(n, size=n), minlength=n)
        drawn: Floats = given * (times if self.persons is None else times[self.persons])
        return drawn

    def n_effective(self, given: Floats) -> float:
        """Rows or persons of equal weight that say as much (Kish)."""
        ids = np.arange(len(given)) if self.persons is None else self.persons
        weights = np.asarray(np.bincount(ids, given), np.float64)
        return effective_size(weights, np.ones(len(weights)))


@dataclass(frozen=True, eq=False)
class Replicated:
    """Estimates from all rows, and from each draw of them."""

    centre: Estimates
    draws: Estimates
