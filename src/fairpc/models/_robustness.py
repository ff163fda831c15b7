"""How much a fitted model depends on chance: on where EM started, on which rows were there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairpc.core import Floats, LearningError, Record, one_thread
from fairpc.learners import Fold, stratified_folds
from fairpc.models._latent_decision import LatentDecision
from fairpc.models._refits import (
    Estimates,
    Progress,
    RefitPlan,
    Report,
    Subject,
    aligned_to,
    check_count,
    mean_log_likelihood,
    progress,
    steps_of,
)

_SPLIT: Final = 5
"""Folds of which one is held out where no fold is fitted by itself."""


@dataclass(frozen=True, eq=False)
class Refit(Record):
    """Where one refit ended, its values of Df in the order of the model's.

    Attributes:
        mechanism: P(D = d | Df = f, S = s), [s, f, d].
        fair_rate: P(Df = f).
        objective: log-likelihood with the log-prior, per unit of weight; NaN for refits whose
            structure differs, which have other priors.
        log_likelihood: per unit of weight of the rows it was fitted to.
        held_out: per unit of weight of the rows it was not fitted to.
        permuted: whether one permutation of Df for all groups was needed.
        switched: groups in which Df still has another order than in the model.
    """

    mechanism: Floats
    fair_rate: Floats
    objective: float
    log_likelihood: float
    held_out: float
    permuted: bool
    switched: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Stability(Record):
    """The spread of a model over starts and over folds.

    Attributes:
        groups, classes: names, in the order of the arrays.
        mechanism, fair_rate: of the model.
        model: EM from the model's own parameters, on the rows that the starts have.
        starts: EM from random parameters, the structure kept.
        folds: the whole fit again, structure and all, without one fold each; may be none.
    """

    groups: tuple[str, ...]
    classes: tuple[str, ...]
    mechanism: Floats
    fair_rate: Floats
    model: Refit
    starts: tuple[Refit, ...]
    folds: tuple[Refit, ...]

    _computed = ("summary",)

    @property
    def start_spread(self) -> Floats:
        """Largest minus smallest value of each entry of the mechanism over the starts."""
        return _spread(self.starts)

    @property
    def fold_spread(self) -> Floats:
        """Largest minus smallest value of each entry of the mechanism over the folds; or NaN."""
        return _spread(self.folds) if self.folds else np.full_like(self.mechanism, np.nan)

    @property
    def switched_starts(self) -> int:
        """Starts that ended with Df in another order inside some group."""
        return sum(bool(run.switched) for run in self.starts)

    def summary(self) -> str:
        """What moved and by how much, in plain words."""
        return "\n".join([*self._of_starts(), *self._of_folds()])

    def _of_starts(self) -> list[str]:
        n, flips = len(self.starts), self.switched_starts
        renamed = sum(run.permuted for run in self.starts)
        gaps = np.array([run.objective - self.model.objective for run in self.starts])
        held = [run.held_out for run in self.starts]
        kept = tuple(run for run in self.starts if not run.switched)
        unswitched = ""
        if 2 <= len(kept) < n:
            unswitched = f", {_points(_spread(kept))} over those without a switched group"
        lines = [
            f"{n} random starts: {flips} ended with Df in another order inside a group than in "
            f"the model, {renamed} had to be renamed in all groups.",
            f"Their objective minus the model's is from {_nats(gaps.min(), '+')} to "
            f"{_nats(gaps.max(), '+')} nats a row; held-out log-likelihood from "
            f"{_nats(min(held))} to {_nats(max(held))} (the model: {_nats(self.model.held_out)}).",
            f"An entry of the mechanism differs by up to {_points(self.start_spread)} percentage "
            f"points over all starts{unswitched}.",
        ]
        likely = [r for r in self.starts if r.switched and r.objective >= self.model.objective]
        if likely:
            lines.append(
                f"{len(likely)} of the starts with a switched group are at least as likely as the "
                "model: likelihood does not show which explanation of the labels is right. Prior "
                "knowledge or a review does."
            )
        return lines

    def _of_folds(self) -> list[str]:
        if not self.folds:
            return []
        held = np.array([run.held_out for run in self.folds])
        flips = sum(bool(run.switched) for run in self.folds)
        return [
            f"{len(self.folds)} folds, each left out once, structure learned again: an entry of "
            f"the mechanism differs by up to {_points(self.fold_spread)} percentage points, "
            f"held-out log-likelihood is {_nats(held.mean())} on average (from "
            f"{_nats(held.min())} to {_nats(held.max())}), {flips} with Df in another order inside "
            "a group."
        ]


def stability(
    model: Any,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any = None,
    sample_weight: npt.ArrayLike | None = None,
    clusters: npt.ArrayLike | None = None,
    n_starts: int = 10,
    n_folds: int = 5,
    n_steps: int = 500,
    random_state: int | np.random.Generator | None = None,
    verbose: bool = False,
    callback: Report | None = None,
) -> Stability:
    """Refits of a model from random starts and on folds.

    Starts share one plan and are fitted to the rows outside the first fold, which is
    held out. The coding of the model is kept everywhere, so that likelihoods compare. Starts of
    a mixture are those of its heaviest component.

    Args:
        model: a fitted FairPC or LatNB.
        X, y, sensitive_features, sample_weight: the rows it was fitted to.
        clusters: who each row is about, where persons repeat; a person is in one fold.
        n_starts, n_folds: refits of each kind; ``n_folds=0`` for starts alone, with a fifth of the
            rows held out.
        n_steps: updates of EM for each start.
        random_state: seed.
        verbose: a progress bar on the terminal.
        callback: called with a :class:`Progress`.
    """
    if isinstance(model, LatentDecision):
        raise LearningError(
            "LatentDecision is not learned by EM over X, so it has no random starts: "
            "mechanism_range_ and predict_bounds(level=.95) say how sure its numbers are"
        )
    subject = Subject.of(model, X, y, sensitive_features, sample_weight, clusters)
    check_count("n_starts", n_starts, 2, "a spread needs two")
    if n_folds or isinstance(n_folds, bool):
        check_count("n_folds", n_folds, 2, "a spread needs two; 0 leaves them out")
    check_count("n_steps", n_steps, 1, "500 are enough for most tables")
    rng = np.random.default_rng(random_state)
    rows, seed = subject.rows, int(rng.integers(2**31))
    # Each group and label has about its share of every fold.
    strata = rows.s.astype(np.int64) * (rows.n_classes + 1) + rows.d
    folds = stratified_folds(
        strata, n_folds or _SPLIT, validation=0, persons=subject.persons, seed=seed
    )
    total = n_steps + n_folds
    with progress(verbose, callback) as report:
        steps = steps_of(report, "random starts", total)
        own, *starts = _starts(subject, folds[0], n_starts, n_steps, rng, steps)
        refits = []
        for k, fold in enumerate(folds[:n_folds]):
            refits.append(_fold_refit(subject, fold))
            report(Progress("folds", n_steps + k + 1, total))
    names, found = (subject.groups, subject.classes), subject.distribution
    learned = found.mechanism, found.fair_rate
    return Stability(*names, *learned, own, tuple(starts), tuple(refits))


def _starts(
    subject: Subject,
    fold: Fold,
    n_starts: int,
    n_steps: int,
    rng: np.random.Generator,
    on_step: Callable[[int], object],
) -> list[Refit]:
    """EM from the model's parameters, then from random ones, all in one plan."""
    train, held_out = subject.rows.take(fold.fit), subject.rows.take(fold.test)
    circuit = subject.distribution.circuit
    bench = RefitPlan.of(subject, train)
    points = [circuit.parameters] + [circuit.graph.random(rng) for _ in range(n_starts)]
    step = bench.run(np.stack(points), n_steps, on_step)
    total = float(bench.weights.sum())
    ended = map(subject.distribution.with_parameters, step.parameters)
    tested = [mean_log_likelihood(distribution, held_out) for distribution in ended]
    fitness = zip(step.objective / total, step.log_likelihood / total, tested, strict=True)
    return _refits(subject, Estimates.of(subject.distribution, step.parameters), fitness)


def _fold_refit(subject: Subject, fold: Fold) -> Refit:
    """The whole fit without one fold; its rows are coded as for the model."""
    train, held_out = subject.whole.take(fold.fit), subject.whole.take(fold.test)
    with one_thread("blas"):
        found = subject.model._fitted_again(train)
    fitness = np.nan, mean_log_likelihood(found, train), mean_log_likelihood(found, held_out)
    return _refits(subject, Estimates.of_model(found), [fitness])[0]


def _refits(
    subject: Subject, estimates: Estimates, fitness: Iterable[tuple[float, float, float]]
) -> list[Refit]:
    """Estimates in the order of the model's, each with its objective and log-likelihoods."""
    own = Estimates.of_model(subject.distribution)
    aligned = aligned_to(own, estimates, named=subject.named)
    result = []
    for b, values in enumerate(fitness):
        switched = tuple(subject.groups[s] for s in np.flatnonzero(aligned.switched[b]))
        learned = aligned.mechanism[b], aligned.fair_rate[b]
        objective, log_likelihood, held_out = map(float, values)
        permuted = bool(aligned.permuted[b])
        result.append(Refit(*learned, objective, log_likelihood, held_out, permuted, switched))
    return result


def _spread(runs: tuple[Refit, ...]) -> Floats:
    return np.asarray(np.ptp([run.mechanism for run in runs], axis=0))


def _nats(value: float, sign: str = "") -> str:
    return f"{value:{sign}.4f}".replace("-", "\N{MINUS SIGN}")


def _points(spread: Floats) -> str:
    """The largest difference of two probabilities, in percentage points."""
    return f"{100 * float(spread.max()):.1f}"
