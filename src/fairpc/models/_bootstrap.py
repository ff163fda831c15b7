"""Intervals for P(D | Df, S) and P(Df): the rows resampled, the model fitted again to each draw.

The structure and the start are those of the fitted model, so the intervals cover
the chance of these rows, given structure and family. They do not cover what no
number of rows decides: the identified set is given beside them. Where the data
reject the assumptions there is no mechanism to put an interval on.

EM that stopped at a tolerance may be short of the optimum, nearer to its start. A prior of the
mechanism pulls it towards D = Df, and draws of the rows would not show by how much. The
intervals are therefore around where ``n_steps`` more updates bring the model without that prior.
A mixture inside P(x | f, s) is fitted by parts, and EM over all its parameters would take it
elsewhere: the intervals are then those of its heaviest component, alone.

The structure was learned from the same rows, and draws that keep it do not show what another one
would say. Near 0 and 1 draws hardly differ, and less the nearer the estimate is. The standard
error of P(Df) is therefore widened, none of the mechanism is less than if Df were known, and each
end is the farther of a normal and a score interval (``docs/decisions/refits.md``).

The mechanism of a forest circuit or of a LatentDecision is a point of a set, chosen by a rule:
draws of the rows around it do not cover the truth, and ``mechanism_range_`` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy import stats

from fairpc.core import (
    Codes,
    Floats,
    Ints,
    LearningError,
    MetricError,
    Positions,
    Record,
    counted,
)
from fairpc.evidence import (
    AssumptionTest,
    IdentifiedSet,
    TestsByStratum,
    identified_set,
    some_of,
    test_assumptions,
)
from fairpc.models._latent_decision import LatentDecision
from fairpc.models._refits import (
    Estimates,
    RefitPlan,
    Report,
    Subject,
    aligned_to,
    check_count,
    progress,
    steps_of,
)
from fairpc.models._rows import effective_size

RATE_WIDENING: Final = 1.25
"""Errors of P(Df) with a structure learned from the same rows over those with a given one."""
Tested = AssumptionTest | TestsByStratum
"""A test of the assumptions, of a model with strata within these."""
ADDED: Final = 2.0
"""Rows of either kind that Agresti and Coull add to a share, so that 0 of n is not certain."""
BLOCK: Final = 32
"""Replicates that are fitted together: bounds memory, and each gets its turn at Ctrl-C."""
MOVED: Final = 0.005
"""A difference to the model's own mechanism that is worth a sentence."""


@dataclass(frozen=True, eq=False)
class MechanismIntervals(Record):
    """The mechanism that the rows say, with intervals from a bootstrap, or why there are none.

    Attributes:
        groups, classes: names, in the order of the arrays.
        positive: position of the positive class.
        mechanism, fair_rate: P(D = d | Df = f, S = s), [s, f, d], and P(Df = f) after ``n_steps``
            more updates of EM on these rows, without the prior of the mechanism; for a mixture, of
            its heaviest component alone.
        lower, upper: ends of each entry of the mechanism; NaN if refused.
        sd: standard deviation of the replicates, which the ends widen.
        fair_rate_lower, fair_rate_upper, fair_rate_sd: the same of P(Df).
        replicates, fair_rate_replicates: what each draw gave, [b, s, f, d] and [b, f].
        switched: replicates in which Df has another order than in the model inside some group.
        level: of each interval, taken by itself.
        n_steps: updates of EM per replicate.
        moved: how far this mechanism is from the model's own, at most.
        assumptions: the test of the assumptions; None where it could not be made.
        identified: mechanisms that fit these rows equally well; None for more than two classes, or
            strata.
        refused: why there are no intervals; None where there are.
    """

    groups: tuple[str, ...]
    classes: tuple[str, ...]
    positive: int
    mechanism: Floats
    lower: Floats
    upper: Floats
    sd: Floats
    fair_rate: Floats
    fair_rate_lower: Floats
    fair_rate_upper: Floats
    fair_rate_sd: Floats
    replicates: Floats
    fair_rate_replicates: Floats
    switched: int
    level: float
    n_steps: int
    moved: float
    assumptions: Tested | None
    identified: IdentifiedSet | None
    refused: str | None

    _computed = ("n_replicates", "summary")
    _long = ("replicates", "fair_rate_replicates")

    @property
    def n_replicates(self) -> int:
        return len(self.replicates)

    def summary(self) -> str:
        """The intervals, or the reason why there are none, in plain words."""
        if self.refused is not None:
            return f"No intervals. {self.refused}"
        lines = [
            f"{self.level:.0%} intervals from {self.n_replicates} bootstrap replicates, for "
            "sampling error only; structure and assumptions are taken as given."
        ]
        shown = [self.positive] if len(self.classes) == 2 else range(len(self.classes))
        for f in shown:
            values = self.fair_rate[f], self.fair_rate_lower[f], self.fair_rate_upper[f]
            lines.append(f"P(Df = {self.classes[f]}) = {_shown(values)}")
        for s, f, d in np.ndindex(self.mechanism.shape):
            if d in shown:
                values = self.mechanism[s, f, d], self.lower[s, f, d], self.upper[s, f, d]
                name = f"P(D = {self.classes[d]} | Df = {self.classes[f]}, S = {self.groups[s]})"
                lines.append(f"{name} = {_shown(values)}")
        if self.moved > MOVED:
            lines.append(
                f"The prior of the mechanism is left out of them ({self.n_steps} updates of EM "
                "without it), so the model itself may lie outside of them: it is up to "
                f"{self.moved:.3f} from their centre."
            )
        if self.switched:
            lines.append(
                f"In {counted(self.switched, 'replicate')} Df changed its order inside a group: "
                "the rows hardly distinguish its values there."
            )
        if self.identified is None:
            lines.append("What more rows would not decide is not in these intervals.")
        else:
            lines.append(f"Not in these intervals: {self.identified.summary()}")
        return "\n".join(lines)


def bootstrap_mechanism(
    model: Any,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any = None,
    sample_weight: npt.ArrayLike | None = None,
    fair_labels: Any = None,
    clusters: npt.ArrayLike | None = None,
    n_replicates: int = 200,
    n_steps: int = 500,
    level: float = 0.95,
    random_state: int | np.random.Generator | None = None,
    assumptions: Tested | None = None,
    verbose: bool = False,
    callback: Report | None = None,
) -> MechanismIntervals:
    """Intervals for P(D | Df, S) and P(Df) of a fitted model, unless the data reject its
    assumptions.

    Args:
        model: a fitted FairPC or LatNB; its structure, smoothing and knowledge are kept, its prior
            of the mechanism is not. Of a forest circuit and a LatentDecision see
            ``mechanism_range_``.
        X, y, sensitive_features, sample_weight, fair_labels: the rows it was fitted to.
        clusters: who each row is about, where persons repeat; persons are drawn, not rows.
        n_replicates: draws; 200 give a standard error to a twentieth of itself.
        n_steps: updates of EM per draw; some tables have ridges on which 100 are too few.
        level: of each interval.
        random_state: seed.
        assumptions: what ``test_assumptions`` gave for these rows; by default it is run on the
            encoded features.
        verbose: a progress bar on the terminal.
        callback: called with a :class:`Progress` after each update of EM.
    """
    forest = getattr(getattr(model, "distribution_", None), "is_forest", False)
    if forest or isinstance(model, LatentDecision):
        raise LearningError(
            "the mechanism of a forest circuit or a LatentDecision is a point of a set, chosen by "
            "a rule, and intervals of draws around it do not cover the truth: use "
            "model.mechanism_range_, which holds at 95% confidence"
        )
    given = X, y, sensitive_features, sample_weight, fair_labels, clusters
    subject = Subject.of(model, *given)
    draws = Draws(n_replicates, n_steps, level, subject.persons)
    test, refused = assumptions, None
    if test is None:
        test, refused = _tested(subject, draws.persons, sample_weight)
    if test is not None and test.rejected:
        refused = f"The data reject the assumptions behind a mechanism. {test.summary()}"
    n_replicates = 0 if refused else draws.n_replicates
    with progress(verbose, callback) as report:
        rng = np.random.default_rng(random_state)
        drawn = _replicated(subject, draws, n_replicates, rng, report)
    return _intervals(subject, draws, drawn, test, refused)


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


def _replicated(
    subject: Subject, draws: Draws, n_replicates: int, rng: np.random.Generator, report: Report
) -> tuple[Estimates, Estimates]:
    """The model after more EM on its own rows, and the same from there on each draw of them."""
    plan, n_steps = RefitPlan.of(subject).without_mechanism_prior(), draws.n_steps
    model, start = subject.distribution, subject.distribution.circuit.parameters[None]
    total = (n_replicates + 1) * n_steps
    steps = steps_of(report, "the model on its own rows", total)
    own = plan.run(start, n_steps, steps).parameters
    found = [own[:0]]
    for first in range(0, n_replicates, BLOCK):
        size = min(BLOCK, n_replicates - first)
        drawn = [draws.weights(subject.rows.weights, rng) for _ in range(size)]
        merged = [np.bincount(plan.row_of, weights, len(plan.weights)) for weights in drawn]
        before, starts = (first + 1) * n_steps, np.repeat(own, size, axis=0)
        steps = steps_of(report, "bootstrap replicates", total, before=before, each=size)
        again = plan.run(starts, n_steps, steps, weights=np.array(merged, np.float64))
        found.append(again.parameters)
    return Estimates.of(model, own), Estimates.of(model, np.concatenate(found))


def _intervals(
    subject: Subject,
    draws: Draws,
    drawn: tuple[Estimates, Estimates],
    test: Tested | None,
    refused: str | None,
) -> MechanismIntervals:
    centre, replicates = drawn
    mechanism, rate = centre.mechanism[0], centre.fair_rate[0]
    aligned = aligned_to(centre, replicates, named=subject.named)
    sd, rate_sd = _spread(aligned.mechanism), _spread(aligned.fair_rate)
    mechanism_limits, rate_limits = _intervals_of(subject, draws, centre, sd, rate_sd)
    return MechanismIntervals(
        subject.groups,
        subject.classes,
        subject.positive,
        mechanism,
        *mechanism_limits,
        sd,
        rate,
        *rate_limits,
        rate_sd,
        replicates=aligned.mechanism,
        fair_rate_replicates=aligned.fair_rate,
        switched=int(aligned.switched.any(axis=1).sum()),
        level=draws.level,
        n_steps=draws.n_steps,
        moved=float(np.abs(mechanism - subject.distribution.mechanism).max()),
        assumptions=test,
        identified=_identified(subject, test),
        refused=refused,
    )


def _spread(draws: Floats) -> Floats:
    """Standard deviation over draws; NaN where there are none."""
    if not len(draws):
        return np.full(draws.shape[1:], np.nan)
    sd: Floats = draws.std(axis=0, ddof=1)
    return sd


LowHigh = tuple[Floats, Floats]


def normal_intervals(centre: Floats, sd: Floats, level: float) -> LowHigh:
    """Normal intervals within 0 to 1."""
    half = float(stats.norm.ppf((1 + level) / 2)) * sd
    return np.clip(centre - half, 0, 1), np.clip(centre + half, 0, 1)


def farther_limits(centre: Floats, sd: Floats, rows: Floats, level: float) -> LowHigh:
    """The farther one of a normal and a score interval, at either end.

    The score interval (Wilson 1927) has the shares b for which |centre - b| is at most z standard
    errors *at b*, √(b(1-b) / m); a normal one takes that at the centre, which is too small
    where the centre is nearer to 0 or 1 than the truth. m is the number of rows that would
    give the standard error of the draws. It is not more than ``rows``, those of which Df would be
    known at best, and 2 of either kind (Agresti and Coull 1998).
    """
    nearer = (rows * centre + ADDED) / (rows + 2 * ADDED)
    variance = nearer * (1 - nearer)
    error = np.maximum(sd, np.sqrt(variance / (rows + 2 * ADDED)))
    z2 = float(stats.norm.ppf((1 + level) / 2)) ** 2 * error**2 / variance
    middle = (centre + z2 / 2) / (1 + z2)
    half = np.sqrt(z2 * (centre * (1 - centre) + z2 / 4)) / (1 + z2)
    low, high = normal_intervals(centre, error, level)
    return np.minimum(low, middle - half), np.maximum(high, middle + half)


def _intervals_of(
    subject: Subject, draws: Draws, centre: Estimates, sd: Floats, rate_sd: Floats
) -> tuple[LowHigh, LowHigh]:
    """Those of the mechanism and of P(Df), as far as the model's knowledge allows."""
    mechanism, rate, limits = centre.mechanism[0], centre.fair_rate[0], subject.limits
    cells = centre.group_rate[0][:, None, None] * rate[:, None]
    rows = draws.n_effective(subject.rows.weights) * cells
    own = farther_limits(mechanism, sd, rows, draws.level)
    of_rate = normal_intervals(rate, RATE_WIDENING * rate_sd, draws.level)
    if limits is None:
        return own, of_rate
    return (
        _within(own, limits.mechanism_lower, limits.mechanism_upper),
        _within(of_rate, limits.rate_lower, limits.rate_upper),
    )


def _within(ends: LowHigh, lower: Floats, upper: Floats) -> LowHigh:
    """Ends within limits of shares that sum to 1: each is also what the others leave it."""
    least = np.maximum(lower, 1 - (upper.sum(axis=-1, keepdims=True) - upper))
    most = np.minimum(upper, 1 - (lower.sum(axis=-1, keepdims=True) - lower))
    return np.clip(ends[0], least, most), np.clip(ends[1], least, most)


def _tested(
    subject: Subject, persons: Positions | None, sample_weight: npt.ArrayLike | None
) -> tuple[Tested | None, str | None]:
    """The test of the assumptions on the features as the model sees them; or why there is none."""
    rows = subject.rows
    known = (rows.subgroups >= 0) & (rows.d >= 0)
    names, labels = np.array(subject.groups), np.array(subject.classes)
    two = len(subject.classes) == 2
    within: dict[str, Any] = {}
    if rows.strata:
        within = {"given": rows.strata.codes(rows.x[known])}
    try:
        found: Tested = test_assumptions(
            _indicators(rows.x[known], rows.arities),
            labels[rows.d[known]],
            names[rows.s[known]],
            positive=subject.classes[subject.positive] if two else None,
            clusters=some_of(persons, known),
            sample_weight=None if sample_weight is None else rows.weights[known],
            **within,
        )
    except MetricError as error:
        return None, f"The assumptions could not be tested on these rows: {error}"
    return found, None


def _indicators(codes: Codes, arities: Ints) -> Floats:
    """Codes as columns of 0 and 1: one per value, "missing" among them; one for two values."""
    columns = []
    for j, arity in enumerate(arities.tolist()):
        column = codes[:, j]
        hidden = (column < 0).any()
        values = range(1 if arity == 2 and not hidden else 0, arity)
        columns += [column == v for v in values] + ([column < 0] if hidden else [])
    return np.column_stack(columns).astype(np.float64)


def _identified(subject: Subject, test: Tested | None) -> IdentifiedSet | None:
    """Mechanisms that fit the model's own P(D = 1 | x, s) equally well."""
    rows = subject.rows
    if len(subject.classes) != 2 or rows.strata:
        return None
    known = np.flatnonzero(rows.s >= 0)
    scores = subject.distribution.observed(rows.s, rows.x)[known, subject.positive]
    groups = np.array(subject.groups)[rows.s[known]]
    ends = None
    if isinstance(test, AssumptionTest) and test.positive is not None:
        tested = {str(name): pair for name, pair in test.ends().items()}
        ends = tested if set(groups) <= set(tested) else None  # some may be too small to be tested
    return identified_set(scores, groups, ends=ends)


def _shown(values: tuple[Any, Any, Any]) -> str:
    return "{:.3f}, from {:.3f} to {:.3f}".format(*values)
