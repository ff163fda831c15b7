"""What reviewed rows say of this table: fair rates, mechanism and error rates, with intervals.

Every rate is a ratio Σ u / Σ v over the rows of a group, where u and v depend on the fair decision.
With û and v̂ what the posterior expects and W the weight of a reviewed row (1 / p in one batch),

    Σ z(u) = λ Σ û + Σ_reviewed W (u − λ û)

is unbiased for Σ u whatever the posterior is worth, and likewise for v. λ is the same in both and
has the least variance, between 0, reviewed rows alone, and 1 (prediction-powered inference,
Angelopoulos et al. 2023). What is estimated is this table, so the variance is that of the draw:
Σ (1 − p) / p² e², with e the residual of a reviewed row. Nothing else is assumed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairpc.core import (
    Array,
    Bools,
    MetricError,
    Positions,
    Record,
    check_groups,
    check_level,
    check_table,
    counted,
)
from fairpc.evidence._intervals import Interval
from fairpc.evidence._review_rates import (
    FEW,
    Rate,
    Ratio,
    ReviewedGroup,
    ReviewedTable,
    group_rows,
    rates_of_group,
    ratio_of,
)
from fairpc.evidence._review_rows import (
    binary,
    check_chances,
    check_drawn,
    folds_of_rows,
    posterior_of,
    recalibrated,
    response_of,
    weights_of,
)
from fairpc.evidence._review_tests import ReviewedRows, ReviewTest, feature_tests, rates_test

MANY_COLUMNS: Final = 3
"""Columns on which labels depend from which no stratum is proposed."""


@dataclass(frozen=True)
class ReviewedRate(Record):
    """A rate of this table as a review shows it."""

    value: float  #: NaN where no reviewed row carries it
    low: float
    high: float
    n: int  #: reviewed rows that carry it: those in its denominator
    few: bool  #: fewer than five of them on one side, 0 or 1: read with care
    worst: Interval  #: limits if what reviewers could not tell were all against it, or all for it
    reliance: float  #: λ: 0 rests on reviewed rows alone, 1 on the posterior as corrected by them


@dataclass(frozen=True)
class ReviewedDifference(Record):
    """Last group minus first, of one rate."""

    first: Any
    last: Any
    value: float
    low: float
    high: float
    worst: Interval


@dataclass(frozen=True)
class ReviewEstimates(Record):
    """What a review says of this table; every rate by group."""

    groups: tuple[Any, ...]
    level: float  #: of each interval by itself
    n_drawn: int
    n_blank: int  #: drawn, and reviewers could not tell
    fair_rate: Mapping[Any, ReviewedRate]
    mechanism: Mapping[Any, Mapping[int, ReviewedRate]]  #: [group][f]: P(D = 1 | Df = f, group)
    tpr: Mapping[Any, ReviewedRate]  #: of the decisions, against Df; empty without decisions
    fpr: Mapping[Any, ReviewedRate]
    accuracy: Mapping[Any, ReviewedRate]
    precision: Mapping[Any, ReviewedRate]
    #: every pair of groups, by "fair_rate", "mechanism_0", "mechanism_1", "tpr", …
    differences: Mapping[str, tuple[ReviewedDifference, ...]]
    tests: Mapping[str, Any]  #: "rates": Df ⟂ S; "features": by column, D ⟂ X_j given Df, S

    _computed = ("warnings", "conclusions")

    def warnings(self) -> tuple[str, ...]:
        """Rates that fewer than five reviewed rows carry on one side, a sentence each."""
        named = [
            *((f"the fair rate of {g!r}", r) for g, r in self.fair_rate.items()),
            *(
                (f"P(D=1 | Df={f}) of {g!r}", r)
                for g, both in self.mechanism.items()
                for f, r in both.items()
            ),
        ]
        for name in ("tpr", "fpr", "accuracy", "precision"):
            named += [(f"{name} of {g!r}", r) for g, r in getattr(self, name).items()]
        return tuple(
            f"Fewer than {FEW} of {r.n} reviewed rows are on one side of {text}: read its limits, "
            "not its value."
            for text, r in named
            if r.few
        )

    def conclusions(self) -> tuple[str, ...]:
        """What both tests found, and what follows for a model, a sentence each."""
        said = [f"{finding}: {advice}" for finding, advice in self._findings()]
        return tuple(sorted(said, key=lambda one: not one.startswith(self.contradictions())))

    def contradictions(self) -> tuple[str, ...]:
        """What tests that reject found, without advice."""
        tests = self.tests["rates"], *self.tests["features"].values()
        rejected = tests[0].rejected, any(test.rejected for test in tests[1:])
        return tuple(f[0] for f, no in zip(self._findings(), rejected, strict=True) if no)

    def _findings(self) -> tuple[tuple[str, str], tuple[str, str]]:
        return self._of_rates(), self._of_columns()

    def _of_rates(self) -> tuple[str, str]:
        """Whether fair rates of groups may be taken for equal."""
        if len(self.groups) < 2:
            return "There is one group", "fair rates are not compared."
        test = self.tests["rates"]
        if math.isnan(test.value):
            return "Too few groups have reviewed rows to compare fair rates", "review more rows."
        by, low, high = (
            f"{abs(100 * each):.1f} points {'less' if each < 0 else 'more'}"
            for each in (test.value, test.low, test.high)
        )
        p = _p_words(test.p_value)
        seen = f"{p}; {test.last}: {by} than {test.first}, limits {low} and {high}"
        if not test.rejected:
            lead = f"The review does not contradict equal fair rates ({seen})"
            return lead, "a difference within these limits stays possible."
        most = math.ceil(100 * max(abs(test.low), abs(test.high))) / 100
        advice = (
            f"do not tie them; allow a difference, delta={most:.2f} (--rates-may-differ), or use "
            "the reviewed estimates."
        )
        return f"The review contradicts equal fair rates ({seen})", advice

    def _of_columns(self) -> tuple[str, str]:
        """Which columns alter labels, and what to do about it."""
        tests: Mapping[Any, ReviewTest] = self.tests["features"]
        if not any(test.n for test in tests.values()):
            return "No column was tested", "that none alters labels by itself is taken for granted."
        named = [name for name, test in tests.items() if test.rejected]
        if not named:
            least = min(test.corrected for test in tests.values())
            tested = sum(test.n > 0 for test in tests.values())
            lead = (
                "No column is seen to alter labels beyond the fair decision and the group (least "
                f"{_p_words(least)}, corrected for {counted(tested, 'column')})"
            )
            return lead, "what these rows are too few to show stays possible."
        lead = (
            f"Labels depend on {', '.join(map(str, named))} beyond the fair decision and the group "
            "(p < 0.05, corrected)"
        )
        if len(named) >= MANY_COLUMNS:
            return lead, "a model of this kind does not fit, use the reviewed estimates."
        return lead, (
            f"for a legitimate factor, fit with given=[{', '.join(map(repr, named))}]; otherwise "
            "use the reviewed estimates."
        )


def _p_words(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def review_estimates(
    truth: npt.ArrayLike,
    y: npt.ArrayLike,
    sensitive_features: npt.ArrayLike,
    *,
    probability: npt.ArrayLike,
    posterior: npt.ArrayLike | None = None,
    drawn: npt.ArrayLike | None = None,
    batch: npt.ArrayLike | None = None,
    decisions: npt.ArrayLike | None = None,
    X: Any = None,  # noqa: N803
    level: float = 0.95,
    recalibrate: bool = True,
) -> ReviewEstimates:
    """Fair rates, mechanism and error rates of this table from rows drawn with a known chance.

    Args:
        truth: reviewed fair decision of every row, 0 or 1; NaN where it was not reviewed.
        y: recorded label, 0 or 1.
        sensitive_features: group per row.
        probability: chance with which each row was drawn, in its batch; only that of rows that were
            drawn is used.
        posterior: P(Df = 1 | x, s, d) of every row, from any model that did not see the truth;
            None: reviewed rows alone.
        drawn: True for rows that were drawn, if reviewers could not tell some. These count as
            missing at random within a group and a recorded label, with the worst case beside it.
        batch: number of the batch in which a row was drawn. A chance may depend on the reviews of
            earlier batches, whose rows are not drawn again.
        decisions: decisions of any model, 0 or 1, for their error rates against Df.
        X: features, a table or a frame: test which of them alter labels.
        level: of each interval.
        recalibrate: correct the posterior by the reviews of other rows first
            (:func:`recalibrate_posterior` with ``cross_fit``).
    """
    n_rows = len(np.asarray(truth))
    t = binary("truth", truth, n_rows, blank=True)
    labels = binary("y", y, n_rows)
    names, ids = check_groups(sensitive_features, n_rows, "sensitive_features", least=1)
    h = None if decisions is None else binary("decisions", decisions, n_rows)
    sent = check_drawn(drawn, t)
    blank = sent & np.isnan(t)
    chance = check_chances(probability, sent)
    weight, spread = weights_of(chance, sent, batch)
    cell = 2 * ids + labels.astype(np.intp)
    response = response_of(weight, sent, sent & ~blank, cell)
    own_weight, own_spread = weights_of(chance, sent, batch, response)
    m = None
    if posterior is not None:
        m = posterior_of(posterior)
        if len(m) != n_rows:
            raise MetricError(f"posterior has {len(m)} rows and truth {n_rows}: give as many")
        if recalibrate:
            folds = folds_of_rows(n_rows)
            m = recalibrated(m, t, labels.astype(np.intp), ids, own_weight, folds)
    rows = ReviewedTable(t, labels, ids, h, m, own_weight, own_spread, check_level(level))
    filled = replace(rows, weight=weight, spread=spread)
    rates: dict[str, dict[Any, ReviewedRate]] = defaultdict(dict)
    fair = []
    for g, where in enumerate(group_rows(ids)):
        own_h, group = None if h is None else h[where], ReviewedGroup.of(rows, where)
        for rate in rates_of_group(g, len(where), labels[where], own_h, "all"):
            found = ratio_of(group, rate, rows.level)
            if rate.name == "fair_rate":
                fair.append(found)
            limits = found.value, found.low, found.high, found.n, found.few
            worst = _worst(filled, rate, where, blank, found)
            rates[rate.name][names[g]] = ReviewedRate(*limits, worst, found.reliance)
    return ReviewEstimates(
        names,
        rows.level,
        int(sent.sum()),
        int(blank.sum()),
        rates["fair_rate"],
        {g: {f: rates[f"mechanism_{f}"][g] for f in (0, 1)} for g in names},
        rates.get("tpr", {}),
        rates.get("fpr", {}),
        rates.get("accuracy", {}),
        rates.get("precision", {}),
        {name: _differences(by_group) for name, by_group in rates.items()},
        _tests(rows, names, fair, X),
    )


def _worst(
    rows: ReviewedTable, rate: Rate, where: Positions, blank: Bools, ratio: Ratio
) -> Interval:
    """Limits with every blank answered against the rate, and with every one for it."""
    if math.isnan(ratio.value) or not blank[where].any():
        return ratio.low, ratio.high
    at_0, at_1 = rate.gap(ratio.value)
    here = blank[where]
    ends = []
    for raising in (at_1 < at_0, at_1 > at_0):
        filled = rows.truth.copy()
        filled[where[here]] = raising[here]
        group = ReviewedGroup.of(replace(rows, truth=filled), where)
        ends.append(ratio_of(group, rate, rows.level))
    return min(ends[0].low, ratio.low), max(ends[1].high, ratio.high)


def _differences(rates: Mapping[Any, ReviewedRate]) -> tuple[ReviewedDifference, ...]:
    """Every pair of groups, from the two intervals (Newcombe 1998)."""
    found = []
    for (first, a), (last, b) in combinations(rates.items(), 2):
        value = b.value - a.value
        low, high, worst = -1.0, 1.0, (b.worst[0] - a.worst[1], b.worst[1] - a.worst[0])
        if not math.isnan(value):
            low = max(low, value - math.hypot(b.value - b.low, a.high - a.value))
            high = min(high, value + math.hypot(b.high - b.value, a.value - a.low))
            if all(rate.worst == (rate.low, rate.high) for rate in (a, b)):
                worst = low, high
        found.append(ReviewedDifference(first, last, value, low, high, worst))
    return tuple(found)


def _tests(
    rows: ReviewedTable, names: tuple[Any, ...], rates: list[Ratio], x: Any
) -> dict[str, Any]:
    """Df ⟂ S, and for every column D ⟂ X_j given Df and S."""
    known = np.flatnonzero(~np.isnan(rows.truth))
    freedom = min(ratio.freedom for ratio in rates)
    of = [ratio.value for ratio in rates], [ratio.variance for ratio in rates], freedom
    tests: dict[str, Any] = {"rates": rates_test(names, *of, len(known)), "features": {}}
    if x is not None and len(known):
        expected = rows.m
        if expected is None:  # what the review says by label and group
            case = rows.truth, rows.y.astype(np.intp), rows.ids, rows.weight
            expected = recalibrated(np.full(len(rows.y), 0.5), *case, None)
        own = rows.truth[known], rows.weight[known]
        reviewed = ReviewedRows(known, *own, rows.y, rows.ids, expected)
        tests["features"] = feature_tests(_columns(x, len(rows.y)), reviewed)
    return tests


def _columns(x: Any, n_rows: int) -> dict[Any, Array]:
    """The columns of a table or a frame by name, or by number where they have none."""
    if hasattr(x, "columns"):
        columns = {name: np.asarray(x[name]) for name in x.columns}
    else:
        columns = dict(enumerate(check_table("X", x).T))
    for name, column in columns.items():
        if column.shape != (n_rows,):
            raise MetricError(f"column {name!r} of X has {len(column)} rows: give {n_rows}")
    return columns
