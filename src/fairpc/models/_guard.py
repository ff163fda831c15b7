"""The fit check: whether Df is still the fair version of D after a fit, and what to do if not.

EM maximises P(x, s, d). Where many features go together, the values of Df explain more of a row as
clusters of X than as versions of the label. The learned mechanism then has little to do with the
label: Df has drifted. Three checks after a fit say so. None of them changes the model, or takes
from the random numbers of the fit. Where the limits are from: ``docs/decisions/guard.md``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np

from fairpc.core import Codes, EvidenceError, FairpcError, Floats, InterruptedWarning, warn_caller
from fairpc.data import TableCoding
from fairpc.evidence import (
    DRIFT_FOLDS,
    DriftBounds,
    GroupRates,
    LabelBounds,
    LabelFit,
    LabelledRows,
    classifier_scores,
    dealt,
    drift_bounds,
    group_rates,
    label_fit,
)
from fairpc.learners import design, indicators, kish
from fairpc.models._distribution import FairDistribution
from fairpc.models._fit import Options, fit_parameters
from fairpc.models._forest_fit import ForestStart, fit_forest
from fairpc.models._rows import Rows, TrainingRows, hold_out, joined, some_rows
from fairpc.models._score_map_fit import ScoredRows, bounds_of_labels
from fairpc.models._strata import UNDIVIDED, Strata
from fairpc.models._tables import Training

MAX_ROWS: Final = 20_000
"""Rows that are looked at, of longer tables a random sample."""
FOREST_ROWS: Final = 8_000
"""Rows to which a forest is fitted again: enough to predict labels nearly as well."""
MIN_ROWS: Final = 300
"""Independent rows under which nothing is said."""
UPDATES: Final = 20
"""Of EM in a refit: it starts where the fit ended, and must forget the rows held out."""
MAX_LEVELS: Final = 12
"""Up to which the levels of a feature are columns of their own for the plain classifier."""

LEVEL: Final = 0.95
LABEL_LEVEL: Final = 0.99
"""Of the sets of P(Df) and mechanisms; of P(D | S), where a false alarm is the likelier."""
ERRORS: Final = 2.0
"""Standard errors by which the model must fall short of half of what a plain classifier knows."""
RATE_MARGIN: Final = 0.05
MECHANISM_MARGIN: Final = 0.1
LABEL_MARGIN: Final = 0.02
"""How far P(Df), the mechanism and P(D | S) may lie outside their sets: they have errors of their
own, and priors pull at them."""

ADVICE: Final = (
    "Df may describe similar rows and not the label: take FairPC(structure='forest') or fewer "
    "features, or state what is known about Df (knowledge=…)."
)
RATE_ADVICE: Final = (
    "Df may describe similar rows, EM may have stopped too early, or the data contradict what was "
    "stated as known: take FairPC(structure='forest'), more updates (max_iter=…) or fewer "
    "features, or state less (knowledge=…)."
)
FOREST_ADVICE: Final = (
    "The rows may be too few for a forest circuit, or contradict what was stated as known: give "
    "more rows, state less (knowledge=…), or take another structure."
)
STRATA_ADVICE: Final = (
    "Df may not be independent of S within these strata: see what fairpc.evidence.test_assumptions "
    "says of them, or take other columns in given."
)


@dataclass(frozen=True, eq=False)
class Checked:
    """What held-out labels say of a fit."""

    sentences: tuple[str, ...] = ()  #: one for each check that failed
    #: what held-out labels leave possible; None where there are too few rows
    label_bounds: LabelBounds | None = None
    contradictions: tuple[str, ...] = ()  #: a sentence where they leave nothing


def check_fit(
    distribution: FairDistribution,
    rows: TrainingRows,
    coding: TableCoding,
    options: Options,
    fine: Training | None = None,
) -> Checked:
    """Check a fit of two classes; nothing is said where there are too few rows to say anything.

    ``options`` are those by which the model is fitted again, to be judged on rows it has not seen.
    ``fine`` are the rows under finer bins, where the table was read so: bins that were chosen with
    the label of every row know a little of labels that are held out, the more the fewer they are.
    """
    try:
        checks = findings(distribution, rows, coding, options, fine)
    except FairpcError:
        return Checked()  # Rows of which no classifier can be learned say nothing about the model.
    except KeyboardInterrupt:
        text = "the checks after the fit were interrupted: whether Df has drifted is not known"
        warn_caller(text, InterruptedWarning)
        return Checked()
    return Checked() if checks is None else Checked(tuple(checks.sentences()), checks.label_bounds)


def _refitted(
    fitted: FairDistribution, rows: Rows, coding: TableCoding, options: Options
) -> FairDistribution:
    """The model fitted to some of its rows: a few updates of EM, or a forest grown anew.

    The trees of a forest have learned from the labels of all rows.
    """
    if fitted.is_forest:
        some = some_rows(rows, FOREST_ROWS, np.random.default_rng(0))
        start = ForestStart.of(some, coding.features.ordered, options.limits)
        return fit_forest(start, options).distribution
    few = replace(options, max_iter=min(options.max_iter, UPDATES))
    return fit_parameters(fitted, rows, few, keep_interrupted=False).distribution


@dataclass(frozen=True, eq=False)
class Findings:
    """What the rows say about a model: the numbers of the three checks."""

    coding: TableCoding  #: names of groups and classes
    decision: Floats  #: P(Df | S = s) as learned, [s, f]; without strata the same in all groups
    mechanism: Floats  #: P(D = d | Df = f, S = s) as learned, [s, f, d]
    #: how well unseen labels are predicted; None where the refit excludes some rows
    labels: LabelFit | None
    bounds: DriftBounds  #: what the rows leave of P(Df) and of the mechanism
    rates: GroupRates  #: P(D | S) of the rows
    forest: bool = False  #: whether the model is a forest, which does not drift
    #: what held-out labels leave possible; None where a group has no rows in a stratum
    label_bounds: LabelBounds | None = None
    strata: Strata = UNDIVIDED  #: within which Df is independent of S

    def sentences(self) -> Iterator[str]:
        """One for each check that failed, with its numbers and what to do."""
        if said := self.unseen_labels():
            yield f"{said} {FOREST_ADVICE if self.forest else ADVICE}"
        for said, advice in ((self.outside_set(), ADVICE), (self.label_rates(), RATE_ADVICE)):
            if said:
                usual = FOREST_ADVICE if self.forest else advice
                yield f"{said} {STRATA_ADVICE if self.strata else usual}"

    def unseen_labels(self) -> str:
        """(a) P(D = 1 | x, s) lies in [b0, b1], so a mechanism that is too narrow tells no label.

        Where features tell nothing about the label, no model can be blamed.
        """
        found = self.labels
        if found is None or min(found.gain, found.shortfall) < ERRORS:
            return ""
        return (
            "The model predicts the labels of held-out rows much worse than a plain "
            f"classifier does: mean log P(d | x, s) is {found.model:.3f}, that of the classifier "
            f"{found.plain:.3f}, that of the groups' rates alone {found.rates:.3f}."
        )

    def outside_set(self) -> str:
        """(b) P(Df) and mechanism against what the data leave possible, with sampling error.

        If nothing is possible, it is the assumptions that do not fit, and the test of them says so.
        Within strata neither has a set of its own.
        """
        if self.strata or self.bounds.empty:
            return ""
        return self._rate_outside() or self._mechanism_outside()

    def _rate_outside(self) -> str:
        lowers, uppers = self.bounds.lowers, self.bounds.uppers
        off = self.rate_excess()
        # Of two classes both are off alike, and the positive one is reported.
        off[:, self.coding.labels.positive] += 1e-9
        s, c = (int(k) for k in np.unravel_index(np.argmax(off), off.shape))
        if off[s, c] <= RATE_MARGIN:
            return ""
        within = f" | S = {self.coding.group_names[s]}" if self.strata.delta else ""
        return (
            f"The learned P(Df = {self.classes[c]}{within}) is {self.decision[s, c]:.3f}, outside "
            f"of {lowers[s, c]:.3f} to {uppers[s, c]:.3f}, which is what the labels leave possible "
            f"({LEVEL:.0%} confidence)."
        )

    def _mechanism_outside(self) -> str:
        off = self.mechanism_excess()
        s, c = (int(k) for k in np.unravel_index(np.argmax(off), off.shape))
        if off[s, c] <= MECHANISM_MARGIN:
            return ""
        name = self.classes[c]
        return (
            f"The learned P(D = {name} | Df = {name}, S = {self.coding.group_names[s]}) is "
            f"{self.mechanism[s, c, c]:.3f}, but a plain classifier finds rows of which at least "
            f"{self.bounds.tops[s, c]:.3f} have that label ({LEVEL:.0%} confidence), and no "
            "rows can have more of it."
        )

    def label_rates(self) -> str:
        """(c) P(D | S) of the model, Σ P(Df) P(D | Df, S), against the rates of the rows.

        Where the assumptions do not fit, Df cannot be independent of S and give both rates.
        """
        if self.bounds.empty and not self.strata:
            return ""
        off = self.label_excess()
        off[:, self.coding.labels.positive] *= 1 + 1e-9
        s, c = (int(k) for k in np.unravel_index(np.argmax(off), off.shape))
        if off[s, c] <= LABEL_MARGIN:
            return ""
        return (
            f"Under the model P(D = {self.classes[c]} | S = {self.coding.group_names[s]}) is "
            f"{self.label_rate[s, c]:.3f}, but {self.rates.rates[s, c]:.3f} of the rows of that "
            "group have this label, a difference that chance does not explain."
        )

    @property
    def label_rate(self) -> Floats:
        """P(D = d | S = s) of the model, [s, d]."""
        return np.asarray(np.einsum("sf,sfd->sd", self.decision, self.mechanism), np.float64)

    def rate_excess(self) -> Floats:
        """By how much each P(Df = c | s) lies outside of its bounds, [s, c]."""
        bounds = self.bounds
        return np.maximum(bounds.lowers - self.decision, self.decision - bounds.uppers)

    def mechanism_excess(self) -> Floats:
        """By how much each P(D = c | Df = c, s) is too small, [s, c]."""
        return self.bounds.tops - np.diagonal(self.mechanism, axis1=1, axis2=2)

    def label_excess(self) -> Floats:
        """Differences of P(D = c | s) of model and rows, [s, c]; zero if chance explains them."""
        model, found = self.label_rate, self.rates
        beyond = (model < found.lowers) | (model > found.uppers)
        return np.where(beyond, np.abs(model - found.rates), 0.0)

    @property
    def classes(self) -> tuple[Any, ...]:
        return self.coding.labels.classes


def findings(
    distribution: FairDistribution,
    rows: TrainingRows,
    coding: TableCoding,
    options: Options,
    fine: Training | None = None,
) -> Findings | None:
    """The numbers of all checks, by one refit and one cross-fit of a plain classifier per coding.

    None where there are too few rows.
    """
    seen = _held_out(rows, coding)
    if seen is None:
        return None
    refitted = _refitted(distribution, seen.kept, coding, options)
    finer = seen if fine is None else _held_out(fine.rows, fine.coding)
    return Findings(
        coding,
        distribution.decision_rate,
        distribution.mechanism,
        _label_fit(refitted, seen.held, seen.known, seen.scores),
        drift_bounds(seen.known, seen.scores, LEVEL, distribution.layout.strata.delta),
        group_rates(seen.known, LABEL_LEVEL),
        distribution.is_forest,
        finer and finer.label_bounds(coding),
        distribution.layout.strata,
    )


class _HeldOut(NamedTuple):
    """Some rows of a table, and what a plain classifier says of those that it had not seen."""

    kept: Rows
    held: Rows  #: those that no classifier is chosen by
    known: LabelledRows  #: both, one by one
    scores: Floats  #: P(class) of each of these

    def label_bounds(self, coding: TableCoding) -> LabelBounds | None:
        """What the labels leave possible; None where a group has no rows."""
        rows, known = joined(self.kept, self.held), self.known
        # What is missing in a row says nothing of its stratum.
        where = rows.strata.codes(rows.x)[known.index]
        at = np.flatnonzero(where >= 0)
        if len(np.unique(known.groups[at])) < known.n_groups:
            return None
        weights = np.ones(len(at)) if known.weights is None else known.weights[at]
        one_by_one = rows.take(known.index[at]).with_weights(weights)
        positive = coding.labels.positive
        own = self.scores[at, positive], known.folds[at], positive
        return bounds_of_labels(ScoredRows(one_by_one, *own), coding.group_names)


def _held_out(rows: TrainingRows, coding: TableCoding) -> _HeldOut | None:
    """None where there are too few rows."""
    rng = np.random.default_rng(0)
    sample = some_rows(rows.sample(MAX_ROWS, rng), MAX_ROWS, rng)
    if sample.each.sum() < MIN_ROWS:
        return None
    kept, held = hold_out(sample, 1 / DRIFT_FOLDS, rng)
    known = _labelled(kept, held, coding, rng)
    if known is None:
        return None
    return _HeldOut(kept, held, known, classifier_scores(known, rng))


def _label_fit(
    refitted: FairDistribution, held: Rows, known: LabelledRows, scores: Floats
) -> LabelFit | None:
    """Predictions for the rows held out; they are the last distinct rows of those known."""
    judged = known.folds == 0
    rows = known.where(judged)
    try:
        observed = refitted.observed(held.s, held.x)
    except EvidenceError:
        return None  # Without smoothing, rows that were not seen may have probability zero.
    own = observed[rows.index - (len(known.design) - held.n_rows)]
    rates = group_rates(known.where(~judged), LEVEL).rates[rows.groups]
    return label_fit(own, scores[judged], rates, rows)


def _labelled(
    kept: Rows, held: Rows, coding: TableCoding, rng: np.random.Generator
) -> LabelledRows | None:
    """Rows of the table whose group and label are known, one by one; None where they are few."""
    rows = joined(kept, held)
    each, unit = (np.concatenate(pair) for pair in ((kept.each, held.each), (kept.unit, held.unit)))
    known = (rows.s >= 0) & (rows.d >= 0)
    index = np.repeat(np.arange(rows.n_rows), np.where(known, each, 0.0).astype(np.intp))
    weights = unit[index]
    labels, groups = rows.d[index].astype(np.intp), rows.s[index].astype(np.intp)
    if not len(index) or kish(weights) < MIN_ROWS or len(np.unique(labels)) < 2:
        return None
    folds = np.zeros(len(index), np.intp)
    learned = index < kept.n_rows
    folds[learned] = 1 + dealt(labels[learned], groups[learned], DRIFT_FOLDS - 1, rng)
    return LabelledRows(
        _design(rows, coding),
        index,
        labels,
        groups,
        None if np.ptp(weights) == 0 else weights,
        folds,
        rows.n_groups,
    )


def _design(rows: Rows, coding: TableCoding) -> Floats:
    """Codes as numbers: bins as they are, a column each for levels, holes and groups."""

    def levels(codes: Codes, arity: int) -> Floats:
        return indicators(codes, np.append(np.arange(arity), -1))

    ordered = [c.binned or not 2 < c.arity <= MAX_LEVELS for c in coding.features.columns]
    columns = [
        np.where(codes < 0, np.nan, codes) if number else levels(codes, int(arity))
        for codes, number, arity in zip(rows.x.T, ordered, rows.arities, strict=True)
    ]
    return design(np.column_stack([*columns, levels(rows.s, rows.n_groups)]))
