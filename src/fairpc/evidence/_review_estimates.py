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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairpc.core import (
    Array,
    Bools,
    Floats,
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
        test, gaps = self.tests["rates"], self.differences["fair_rate"]
        if not gaps:
            return "There is one group", "fair rates are not compared."
        known = [gap for gap in gaps if not math.isnan(gap.value)]
        if not known:
            return "Too few groups have reviewed rows to compare fair rates", "review more rows."
        widest = max(known, key=lambda one: abs(one.value))
        by, low, high = (
            f"{abs(100 * each):.1f} points {'less' if each < 0 else 'more'}"
            for each in (widest.value, widest.low, widest.high)
        )
        p = _p_words(test.p_value)
        seen = f"{p}; {widest.last}: {by} than {widest.first}, limits {low} and {high}"
        if not test.rejected:
            lead = f"The review does not contradict equal fair rates ({seen})"
            return lead, "a difference within these limits stays possible."
        most = max(abs(widest.low), abs(widest.high))
        advice = (
            f"do not tie them; allow a difference (delta={most:.2f}), or use the reviewed "
            "estimates."
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
            f"for a legitimate factor, fit with given=[{', '.join(map(repr, named))}] and "
            "mechanism='within'; otherwise use the reviewed estimates."
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
    m = None if posterior is None else _posterior(posterior, n_rows)
    if m is not None and recalibrate:
        folds = folds_of_rows(n_rows)
        m = recalibrated(m, t, labels.astype(np.intp), ids, own_weight, folds)
    rows = ReviewedTable(t, labels, ids, h, m, own_weight, own_spread, check_level(level))
    asked = {(rate.name, rate.group): (rate, where) for rate, where in _rates(rows)}
    ratios = {key: ratio_of(rows, *case) for key, case in asked.items()}
    filled = replace(rows, weight=weight, spread=spread)
    rates = {
        key: _given(ratio, _worst(filled, *asked[key], blank, ratio))
        for key, ratio in ratios.items()
    }
    tests = _tests(rows, ratios, X)
    return _record(rates, names, rows.level, (int(sent.sum()), int(blank.sum())), tests)


def _record(
    rates: Mapping[tuple[str, int], ReviewedRate],
    names: tuple[Any, ...],
    level: float,
    counts: tuple[int, int],
    tests: Mapping[str, Any],
) -> ReviewEstimates:
    """The rates by name and group, and their differences."""
    each = {name: _named(rates, name, names) for name, _ in rates}
    mechanism = {g: {f: each[f"mechanism_{f}"][g] for f in (0, 1)} for g in names}
    return ReviewEstimates(
        names,
        level,
        *counts,
        each["fair_rate"],
        mechanism,
        each.get("tpr", {}),
        each.get("fpr", {}),
        each.get("accuracy", {}),
        each.get("precision", {}),
        {name: _differences(by_group) for name, by_group in each.items()},
        tests,
    )


def _posterior(values: npt.ArrayLike, n_rows: int) -> Floats:
    m = posterior_of(values)
    if len(m) != n_rows:
        raise MetricError(f"posterior has {len(m)} rows and truth {n_rows}: give as many")
    return m


def _rates(rows: ReviewedTable) -> Iterator[tuple[Rate, Positions]]:
    for g, where in enumerate(group_rows(rows.ids)):
        h = None if rows.h is None else rows.h[where]
        for rate in rates_of_group(g, len(where), rows.y[where], h, "all"):
            yield rate, where


def _given(ratio: Ratio, worst: Interval) -> ReviewedRate:
    """A ratio as users get it."""
    limits = ratio.value, ratio.low, ratio.high
    return ReviewedRate(*limits, ratio.n, ratio.few, worst, ratio.reliance)


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
        ends.append(ratio_of(replace(rows, truth=filled), rate, where))
    return min(ends[0].low, ratio.low), max(ends[1].high, ratio.high)


def _named(
    rates: Mapping[tuple[str, int], ReviewedRate], name: str, groups: tuple[Any, ...]
) -> dict[Any, ReviewedRate]:
    return {g: rates[name, k] for k, g in enumerate(groups)}


def _differences(rates: Mapping[Any, ReviewedRate]) -> tuple[ReviewedDifference, ...]:
    """Every pair of groups, from the two intervals (Newcombe 1998)."""
    return tuple(_difference(a, b, rates[a], rates[b]) for a, b in combinations(rates, 2))


def _difference(
    first: Any, last: Any, rate_1: ReviewedRate, rate_2: ReviewedRate
) -> ReviewedDifference:
    value = rate_2.value - rate_1.value
    worst = rate_2.worst[0] - rate_1.worst[1], rate_2.worst[1] - rate_1.worst[0]
    if math.isnan(value):
        return ReviewedDifference(first, last, value, -1.0, 1.0, worst)
    down = math.hypot(rate_2.value - rate_2.low, rate_1.high - rate_1.value)
    up = math.hypot(rate_2.high - rate_2.value, rate_1.value - rate_1.low)
    low, high = max(-1.0, value - down), min(1.0, value + up)
    if rate_1.worst == (rate_1.low, rate_1.high) and rate_2.worst == (rate_2.low, rate_2.high):
        worst = low, high
    return ReviewedDifference(first, last, value, low, high, worst)


def _tests(rows: ReviewedTable, ratios: Mapping[tuple[str, int], Ratio], x: Any) -> dict[str, Any]:
    """Df ⟂ S, and for every column D ⟂ X_j given Df and S."""
    known = np.flatnonzero(~np.isnan(rows.truth))
    rates = [ratio for (name, _), ratio in ratios.items() if name == "fair_rate"]
    freedom = min(ratio.freedom for ratio in rates)
    pairs = [ratio.value for ratio in rates], [ratio.variance for ratio in rates]
    tests: dict[str, Any] = {"rates": rates_test(*pairs, freedom, len(known)), "features": {}}
    if x is not None and len(known):
        own = rows.truth[known], rows.weight[known]
        reviewed = ReviewedRows(known, *own, rows.y, rows.ids, _expected(rows))
        tests["features"] = feature_tests(_columns(x, len(rows.y)), reviewed)
    return tests


def _expected(rows: ReviewedTable) -> Floats:
    """The corrected posterior; where there is none, what the review says by label and group."""
    if rows.m is not None:
        return rows.m
    flat = np.full(len(rows.y), 0.5)
    return recalibrated(flat, rows.truth, rows.y.astype(np.intp), rows.ids, rows.weight, None)


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
