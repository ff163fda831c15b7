"""How a fitted model moves: with where EM started, with which rows were there, with assumptions.

Starts and folds say how much it depends on chance (:func:`stability`).

A bent assumption (:func:`sensitivity`) is prior knowledge that the model was not fitted with:
another P(Df), labels that were only ever lowered in a group, a box on the mechanism, rows whose
fair decision is known. The structure is kept (of a mixture, that of its heaviest component), EM
starts from the model, and all refits share one plan.

Of a LatentDecision the classifiers are kept, and what follows from their scores is learned again.
Its likelihood is that of labels given x and s. P(D = positive | x, s) cannot lie beyond the ends
of the mechanism, so that an assumption costs what scores beyond them lose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy import stats

from fairpc.core import Array, Floats, LearningError, Record, counted
from fairpc.learners import Fold, one_thread, stratified_folds
from fairpc.models._fair_rates import Limits
from fairpc.models._knowledge import Knowledge
from fairpc.models._latent import LatentDecision
from fairpc.models._refit_draws import (
    Assumed,
    Estimates,
    Progress,
    Report,
    aligned_to,
    check_count,
    mean_log_likelihood,
    progress,
    steps_of,
)
from fairpc.models._refits import Kept, RefitPlan, ScoredSubject, Subject, subject_of

_SPLIT: Final = 5
"""Folds of which one is held out where no fold is fitted by itself."""
STEPS: Final = (-0.1, -0.05, 0.05, 0.1)
"""Other rates of fair decisions that are tried where none are given, as differences."""


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
                "knowledge or fair labels do."
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
    fair_labels: Any = None,
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
        X, y, sensitive_features, sample_weight, fair_labels: the rows it was fitted to.
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
    subject = Subject.of(model, X, y, sensitive_features, sample_weight, fair_labels, clusters)
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
    ended = map(subject.with_parameters, step.parameters)
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


@dataclass(frozen=True, eq=False)
class Bent(Record):
    """One bent assumption and what it does.

    Attributes:
        name: what was assumed, in words.
        knowledge: the same as data; None for fair labels.
        log_likelihood_lost: nats per row of the observed data that the assumption costs; of a
            LatentDecision, of labels given x and s, by classifiers that had not seen the row.
        mechanism, fair_rate: P(D = d | Df = f, S = s), [s, f, d], and P(Df = f) under it.
        score_shift_mean, score_shift_max: absolute change of P(Df = positive | x, s) over the
            rows; of the class that changes most where there are more than two.
        rank_correlation: Spearman's, between the scores before and after; NaN where constant.
        decisions_changed: rows whose decision differs.
    """

    name: str
    knowledge: Knowledge | None
    log_likelihood_lost: float
    mechanism: Floats
    fair_rate: Floats
    score_shift_mean: float
    score_shift_max: float
    rank_correlation: float
    decisions_changed: int


@dataclass(frozen=True, eq=False)
class Sensitivity(Record):
    """A model beside itself with one assumption bent at a time.

    Attributes:
        groups, classes: names, in the order of the arrays.
        positive: position of the positive class.
        n_rows: rows whose scores and decisions were compared.
        mechanism, fair_rate: of the model after as many updates of EM as the others had.
        bent: one entry per bent assumption.
        kept: what no assumption changes: "structure", or "classifiers".
    """

    groups: tuple[str, ...]
    classes: tuple[str, ...]
    positive: int
    n_rows: int
    mechanism: Floats
    fair_rate: Floats
    bent: tuple[Bent, ...]
    kept: Kept = "structure"

    _computed = ("summary",)

    def summary(self) -> str:
        """A line per bent assumption: what it costs, and what it moves."""
        c = self.positive
        lines = [f"Nothing bent: P(Df = {self.classes[c]}) = {self.fair_rate[c]:.3f}"]
        lines += [
            f"{one.name}: {one.log_likelihood_lost:.4f} nats a row are lost "
            f"({one.log_likelihood_lost * self.n_rows:.1f} in all), P(Df = "
            f"{self.classes[c]}) = {one.fair_rate[c]:.3f}, the mechanism moves by up to "
            f"{np.abs(one.mechanism - self.mechanism).max():.3f}, scores by "
            f"{one.score_shift_mean:.3f} on average, {one.decisions_changed} of {self.n_rows} "
            "decisions change"
            for one in self.bent
        ]
        lines.append(
            f"Costs hold within the model's {self.kept}. If a cost is close to zero, these rows do "
            "not decide between the assumption and the model: the change then depends on prior "
            "knowledge, not on data. If a cost is below zero, the prior or the start of EM, not "
            "the likelihood, kept the model away from it."
        )
        return "\n".join(lines)


def sensitivity(
    model: Any,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any = None,
    sample_weight: npt.ArrayLike | None = None,
    fair_labels: Any = None,
    fair_rates: Iterable[float] | None = None,
    knowledge: Mapping[str, Knowledge] | None = None,
    n_steps: int = 500,
    verbose: bool = False,
    callback: Report | None = None,
) -> Sensitivity:
    """Refits of a model with one assumption bent at a time, and what they move.

    Without ``fair_rates`` and ``knowledge``, for two classes: P(Df = positive) .05 and .1
    below and above the fitted one, and for each group labels that were only ever lowered
    or only ever raised.

    Args:
        model: a fitted FairPC or LatNB; its structure is kept, EM starts from its parameters. Or a
            fitted LatentDecision, not loaded from a file, whose classifiers are kept.
        X, y, sensitive_features, sample_weight: the rows it was fitted to; for a LatentDecision in
            the same order.
        fair_labels: fair decisions known by other means, missing where not. If the model was
            fitted without, they are one more assumption to try; else they are kept in all.
        fair_rates: values of P(Df = positive) to try.
        knowledge: other knowledge to try, by name; it goes before what the model was fitted with.
        n_steps: updates of EM for each; a LatentDecision has none.
        verbose: a progress bar on the terminal.
        callback: called with a :class:`Progress` after each update of EM.
    """
    given = X, y, sensitive_features, sample_weight, fair_labels
    subject = subject_of(model, *given)
    check_count("n_steps", n_steps, 1, "500 are enough for most tables")
    anchored = None
    if subject.rows.f is not None and not subject.model.n_anchors_:
        anchored, subject = subject, subject.without_anchors()
    cases = _cases(subject, fair_rates, knowledge, anchored is not None)
    names: list[tuple[str, Knowledge | None]] = [(name, said) for name, said, _ in cases]
    total = n_steps * (2 if anchored else 1)
    with progress(verbose, callback) as report:
        steps = steps_of(report, "bent assumptions", total)
        limits = [some for _, _, some in cases]
        for some in limits:
            some.refuse_contradicted(subject.rows)
        fitted = subject.under(limits, n_steps, steps)
        if anchored is not None:
            names.append((f"{counted(anchored.rows.n_anchors, 'fair label')} known", None))
            steps = steps_of(report, "fair labels", total, before=n_steps)
            fitted += anchored.under((), n_steps, steps)
    return _record(subject, names, fitted)


def _cases(
    subject: Subject | ScoredSubject,
    fair_rates: Iterable[float] | None,
    knowledge: Mapping[str, Knowledge] | None,
    anchored: bool,
) -> list[tuple[str, Knowledge, Limits]]:
    """What is to be tried: name, knowledge, and limits with the model's own knowledge."""
    wanted: dict[str, Knowledge] = {}
    if fair_rates is None and knowledge is None and not anchored:
        wanted = _usual(subject)
    label = subject.classes[subject.positive]
    for rate in fair_rates or ():
        wanted[f"P(Df = {label}) = {float(rate):.3g}"] = Knowledge(fair_rate=float(rate))
    for name, said in (knowledge or {}).items():
        if not isinstance(said, Knowledge):
            raise LearningError(f"knowledge {name!r} is {said!r}: give a fairpc.Knowledge")
        wanted[str(name)] = said
    if not wanted and not anchored:
        raise LearningError("no assumption to change: give fair_rates, knowledge or fair_labels")
    if subject.rows.strata and any(said.fair_rate is not None for said in wanted.values()):
        raise LearningError(
            "a rate of fair decisions was given for a model with strata: every stratum has a rate "
            "of its own; give knowledge of the mechanism"
        )
    coding, own = subject.model.coding_, subject.model.knowledge_
    about = coding.groups, coding.labels.classes, subject.positive
    return [(name, said, own.and_also(said).limits(*about)) for name, said in wanted.items()]


def _usual(subject: Subject | ScoredSubject) -> dict[str, Knowledge]:
    if len(subject.classes) != 2:
        raise LearningError(
            f"the label has {len(subject.classes)} classes and no assumption to change was "
            "given: give knowledge"
        )
    label = subject.classes[subject.positive]
    rate = float(subject.fair_rate[subject.positive])
    result = {}
    # Within strata there is no one rate to change.
    for value in () if subject.rows.strata else (round(rate + step, 3) for step in STEPS):
        if 0 < value < 1:
            result[f"P(Df = {label}) = {value:g}"] = Knowledge(fair_rate=value)
    for group in subject.groups:
        for side in ("lowered", "raised"):
            result[f"labels of {group} only ever {side}"] = Knowledge(one_sided={group: side})
    return result


def _record(
    subject: Subject | ScoredSubject,
    names: Sequence[tuple[str, Knowledge | None]],
    fitted: list[Assumed],
) -> Sensitivity:
    rows, positive, base = subject.rows, subject.positive, fitted[0]
    decided = _decisions(subject, base.scores)
    bent = []
    for (name, said), one in zip(names, fitted[1:], strict=True):
        shift = np.abs(one.scores - base.scores).max(axis=1)
        ranked = base.scores[:, positive], one.scores[:, positive]
        constant = any(np.ptp(scores) == 0 for scores in ranked)
        bent.append(
            Bent(
                name,
                said,
                log_likelihood_lost=base.log_likelihood - one.log_likelihood,
                mechanism=one.mechanism,
                fair_rate=one.fair_rate,
                score_shift_mean=float(np.average(shift, weights=rows.weights)),
                score_shift_max=float(shift.max()),
                rank_correlation=np.nan if constant else float(stats.spearmanr(*ranked).statistic),
                decisions_changed=int((_decisions(subject, one.scores) != decided).sum()),
            )
        )
    names_of = subject.groups, subject.classes, positive
    learned = base.mechanism, base.fair_rate
    return Sensitivity(*names_of, rows.n_rows, *learned, tuple(bent), subject.kept)


def _decisions(subject: Subject | ScoredSubject, scores: Floats) -> Array:
    """The decision of every row, by the model's threshold."""
    if scores.shape[1] > 2:
        return np.asarray(scores.argmax(axis=1))
    return subject.model.threshold_.decide(scores[:, subject.positive], subject.rows.s)
