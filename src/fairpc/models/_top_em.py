"""Rates and mechanism of the upper layers: their limits, their EM, equal mass of Df in all groups.

Learned by themselves, with P(x | f, s) held fixed, the M-step is that of the paper (Section
"Learning Fair Probabilistic Circuits") restricted to them. With expected counts N: P(s) = N_s / N,
P(f) = N_f / N over all groups together, which is Df ⟂ S, and P(d | f, s) = N_sfd / N_sf. Rates that
a review has found to differ are held.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from fairpc.circuit import (
    SLACK,
    WEIGHT_TOLERANCE,
    AnyStep,
    Bounds,
    Graph,
    Near,
    RowPlan,
    filled,
    log_prior,
    prepare,
)
from fairpc.core import Codes, Floats, Int32s, Ints, LearningError, counted
from fairpc.data import Table
from fairpc.models._fair_layers import Layout, S, Top
from fairpc.models._rows import Rows
from fairpc.models._strata import Strata

EQUAL: Final = 1e-10
EQUALISING: Final = 50
FARTHEST: Final = 10.0
"""Share of the rows by which masses may differ, rounds in which they are made equal, and the
multiple of a plain step that is taken at most."""


@dataclass(frozen=True, eq=False)
class Limits:
    """Least and largest P(Df = f), [f], and P(D = d | Df = f, S = s), [s, f, d].

    With strata they may be P(Df = f | A = a), [a, f], and those of subgroups; where rates may
    differ, P(Df = f | S = s, A = a) of subgroups.
    """

    rate_lower: Floats
    rate_upper: Floats
    mechanism_lower: Floats
    mechanism_upper: Floats

    def __post_init__(self) -> None:
        for f in fields(self):
            getattr(self, f.name).flags.writeable = False

    @classmethod
    def exactly(cls, rates: TopRates) -> Limits:
        """Limits that leave these rates and nothing else."""
        decision, mechanism = rates.decision_rate, rates.mechanism
        return cls(*(each.copy() for each in (decision, decision, mechanism, mechanism)))

    @property
    def leave_one(self) -> bool:
        """Whether one P(Df) and one mechanism are left."""
        rates = np.array_equal(self.rate_lower, self.rate_upper)
        return rates and np.array_equal(self.mechanism_lower, self.mechanism_upper)

    def bounds(self, graph: Graph, layout: Layout) -> Bounds:
        """The same as bounds of the parameters of a circuit."""
        top = Top.of(graph, layout)
        lower, upper = np.zeros(graph.n_parameters), np.ones(graph.n_parameters)
        own = self.spread(layout)
        many = layout.n_subgroups // len(own.rate_lower), 1
        lower[top.decision], upper[top.decision] = (
            np.tile(rate, many) for rate in (own.rate_lower, own.rate_upper)
        )
        lower[top.mechanism], upper[top.mechanism] = own.mechanism_lower, own.mechanism_upper
        return Bounds.of(graph, lower, upper, near_rates(top, layout))

    def spread(self, layout: Layout) -> Limits:
        """The same limits for every stratum of a layout, and for its mechanism."""
        each = layout.n_subgroups // len(self.mechanism_lower)
        n = layout.strata.n if layout.tied else layout.n_subgroups
        rates = (
            np.tile(rate, (n // len(rate), 1))
            for rate in map(np.atleast_2d, (self.rate_lower, self.rate_upper))
        )
        bounds = self.mechanism_lower, self.mechanism_upper
        return Limits(*rates, *(np.repeat(end, each, axis=0) for end in bounds))

    def shares(self, decision: Floats, mechanism: Floats) -> tuple[Floats, Floats]:
        """P(Df) and the mechanism in proportion to counts, as nearly as the limits allow."""
        return (
            filled(decision, self.rate_lower, self.rate_upper),
            filled(mechanism, self.mechanism_lower, self.mechanism_upper),
        )

    def allow(self, rate: Floats, mechanism: Floats) -> bool:
        """Whether a P(Df) and a mechanism keep to the limits, up to rounding."""
        rates = (rate >= self.rate_lower - SLACK) & (rate <= self.rate_upper + SLACK)
        low, high = self.mechanism_lower - SLACK, self.mechanism_upper + SLACK
        return bool(rates.all() and ((mechanism >= low) & (mechanism <= high)).all())

    def refuse_contradicted(self, rows: Rows) -> None:
        """A LearningError where a known fair decision is one that the limits exclude."""
        if rows.f is None:
            return
        known = np.flatnonzero((rows.f >= 0) & (rows.weights > 0))
        own = rows.s if len(self.mechanism_upper) == rows.n_groups else rows.subgroups
        s, f, d = own[known], rows.f[known], rows.d[known]
        labelled = (s >= 0) & (d >= 0)
        bad = np.atleast_2d(self.rate_upper).max(axis=0)[f] <= 0
        bad[labelled] |= self.mechanism_upper[s[labelled], f[labelled], d[labelled]] <= 0
        if bad.any():
            n = counted(int(rows.each[known[bad]].sum()), "row has", "rows have")
            raise LearningError(
                f"{n} a fair label that the stated knowledge excludes: correct it, or drop that "
                "part of the knowledge"
            )


def near_rates(top: Top, layout: Layout) -> Near | None:
    """That P(Df | s) of all groups are near each other, within each stratum; None if tied."""
    if not layout.strata.delta:
        return None
    zero, one = top.decision.reshape(layout.n_groups, layout.strata.n, 2).transpose(2, 1, 0)
    return Near(zero, one, layout.strata.delta)


def parameter_bounds(limits: Limits | None, graph: Graph, layout: Layout) -> Bounds | None:
    """What limits, and rates that may differ but by so much, leave of the parameters."""
    if limits is not None:
        return limits.bounds(graph, layout)
    near = near_rates(Top.of(graph, layout), layout)
    n = graph.n_parameters
    return None if near is None else Bounds.of(graph, np.zeros(n), np.ones(n), near)


@dataclass(frozen=True, eq=False)
class Places:
    """Every row once for each group that it may be from: its own, or all where it is not known."""

    row: Ints  #: row of each place
    s: Ints  #: group of each place
    d: Ints  #: recorded label of each place, -1 = missing
    weights: Floats  #: weight of each row
    n_groups: int  #: number of values of S and of D
    n_classes: int
    f: Ints | None = None  #: fair decision of each place, -1 = hidden; None where all are

    @classmethod
    def of(cls, rows: Rows) -> Places:
        own, n = rows.s, rows.n_groups
        known, unknown = np.flatnonzero(own >= 0), np.flatnonzero(own < 0)
        row = np.concatenate([known, np.tile(unknown, n)])
        s = np.concatenate([own[known], np.repeat(np.arange(n), len(unknown))]).astype(np.int64)
        d = rows.d[row].astype(np.int64)
        f = None if rows.f is None else rows.f[row].astype(np.int64)
        return cls(row, s, d, rows.weights, rows.n_groups, rows.n_classes, f)

    @property
    def total_weight(self) -> float:
        return float(self.weights.sum())

    def normalised(self, joint: Floats) -> tuple[Floats, Floats]:
        """log P of each row and its posterior of (s, f), from log P(s, f, row), places × classes.

        Where the fair decision is known, the others are left out. A row of probability zero
        has no posterior: zeros.
        """
        top, values = self._scaled(joint)
        total = self._by_row(values.sum(axis=1))
        with np.errstate(divide="ignore"):
            logs = top + np.log(total)
        posterior: Floats = values / self._at_places(np.where(total > 0, total, 1.0))[:, None]
        return logs, posterior

    def _scaled(self, joint: Floats) -> tuple[Floats, Floats]:
        """Largest of the logs of each row, and all of them beside it, no more as logs."""
        if self.f is not None:
            excluded = (self.f[:, None] >= 0) & (self.f[:, None] != np.arange(self.n_classes))
            joint = np.where(excluded, -np.inf, joint)
        # Column by column: NumPy is slow along an axis of two or three values.
        joint = np.asfortranarray(joint)
        top = joint.max(axis=1)
        if not self.one_each:
            largest = np.full(len(self.weights), -np.inf)
            np.maximum.at(largest, self.row, top)
            top = largest
        top[np.isneginf(top)] = 0.0
        return top, np.exp(joint - self._at_places(top)[:, None])

    @cached_property
    def one_each(self) -> bool:
        """Whether every row has one place, and they are in order."""
        return np.array_equal(self.row, np.arange(len(self.weights)))

    def _at_places(self, values: Floats) -> Floats:
        """A number of each row, for its places."""
        return values if self.one_each else values[self.row]

    def _by_row(self, values: Floats) -> Floats:
        """Sum over the places of each row."""
        if self.one_each:
            return values
        return np.asarray(np.bincount(self.row, values, len(self.weights)), np.float64)

    def equalised(self, joint: Floats, rate: Floats, odds: Floats) -> tuple[Floats, Floats]:
        """The posterior with odds of f shifted so that its mass in each group follows ``rate``.

        Each group's P(f) is multiplied by odds of its own, [s, f], and normalised, which leaves
        P(s); these odds, which start as given, come second. ``joint`` is log P(s, f, row),
        ``rate`` P(f).
        """
        rates, values = np.tile(rate, (self.n_groups, 1)), self._scaled(joint)[1]
        weights = self._at_places(self.weights)
        shifted = np.empty_like(values)
        before = moved = np.zeros(odds.shape)
        for _ in range(EQUALISING):
            factors = odds / (rates * odds).sum(axis=1, keepdims=True)
            for f in range(self.n_classes):
                np.multiply(values[:, f], factors[:, f][self.s], out=shifted[:, f])
            total = self._by_row(shifted.sum(axis=1))
            shifted /= self._at_places(np.where(total > 0, total, 1.0))[:, None]
            passed = [np.bincount(self.s, weights * p, len(odds)) for p in shifted.T]
            mass = np.stack(passed, axis=1)
            wanted = rates * mass.sum(axis=1, keepdims=True)
            if np.abs(mass - wanted).max() <= EQUAL * max(self.total_weight, 1.0):
                break
            known = (mass > 0) & (wanted > 0)
            step = np.log(np.where(known, wanted, 1.0) / np.where(known, mass, 1.0))
            moved = step * _stretch(moved, before - step)
            before, odds = step, odds * np.exp(moved)
        return shifted, odds

    def counts(self, posterior: Floats) -> Floats:
        """Expected rows of each (s, f, d); where d is missing, it is the last value."""
        k = self.n_classes
        d = np.where(self.d < 0, k, self.d)
        cell = self.s * (k + 1) + d
        weighted = posterior * self._at_places(self.weights)[:, None]
        n = self.n_groups
        sums = [np.bincount(cell, weighted[:, f], n * (k + 1)) for f in range(k)]
        return np.stack([total.reshape(n, k + 1) for total in sums], axis=1)


def _stretch(moved: Floats, saved: Floats) -> Floats:
    """How far to go along the next step, by secants: steps alone only ever fall short."""
    sure = np.abs(saved) > 1e-300
    stretch: Floats = np.where(sure, moved / np.where(sure, saved, 1.0), 1.0)
    return np.clip(stretch, 1.0, FARTHEST)


@dataclass(frozen=True, eq=False)
class TopRates:
    """P(S), P(Df) and P(D = d | Df = f, S = s), [s, f, d]; or pseudo-counts of the same shapes.

    With strata: P(S, A) of the subgroups, P(Df | A), [a, f], and the mechanisms of the subgroups. A
    decision that is not tied has rates of each group or subgroup, [s, f].
    """

    group_rate: Floats
    decision_rate: Floats
    mechanism: Floats

    @classmethod
    def of_two(cls, share: Floats, rate: Any, mechanism: Floats, positive: int) -> TopRates:
        """Of two classes, from P(Df = 1) and P(D = 1 | Df = f), 1 being the positive one."""
        order = [0, 1] if positive else [1, 0]
        labels = np.stack([1 - mechanism, mechanism], axis=2)
        decided = np.stack([1 - rate, rate], axis=-1)
        return cls(share, decided[..., order], labels[:, order][:, :, order])

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, for a file."""
        return {f.name: getattr(self, f.name).tolist() for f in fields(self)}

    def check(self, layout: Layout) -> None:
        """A LearningError where these are not the distributions of such a model."""
        k, strata = layout.n_classes, layout.strata
        n_decisions = strata.n if layout.tied else layout.n_subgroups
        shapes = {
            "group_rate": (layout.n_subgroups,),
            "decision_rate": (n_decisions, k) if strata or not layout.tied else (k,),
            "mechanism": (layout.n_subgroups, k, k),
        }
        for name, shape in shapes.items():
            rate = getattr(self, name)
            fits = rate.shape == shape and bool((rate >= 0).all())
            if not fits or not (np.abs(rate.sum(axis=-1) - 1.0) < WEIGHT_TOLERANCE).all():
                raise LearningError(f"{name} of the model is not a distribution: fit it again")
        if not layout.latent and (self.mechanism != np.eye(k)).any():
            raise LearningError(
                "a model without a latent fair decision has no mechanism: fit it again"
            )

    def log_joint(self, places: Places, densities: Floats) -> Floats:
        """log P(s, f, d, x), from log P(x | f, s); both places × classes."""
        with np.errstate(divide="ignore"):
            group, decision, mechanism = (
                np.log(p) for p in (self.group_rate, self.decision_rate, self.mechanism)
            )
        # A label that is missing is marginalised: one more value of probability 1.
        label = np.concatenate([mechanism, np.zeros((*mechanism.shape[:2], 1))], axis=2)
        d = np.where(places.d < 0, places.n_classes, places.d)
        of_group = group[places.s]
        of_decision = decision if decision.ndim == 1 else decision[places.s]
        result: Floats = np.empty(densities.shape, order="F")
        for f in range(places.n_classes):
            result[:, f] = label[places.s, f, d] + densities[:, f] + of_group + of_decision[..., f]
        return result

    def of_subgroup(self, g: int, strata: Strata) -> tuple[Floats, Floats]:
        """P(Df) and P(D | Df) of one subgroup."""
        return rates_of(self.decision_rate, g, strata), self.mechanism[g]

    def by_subgroup(self, layout: Layout) -> Floats:
        """P(decision) of every subgroup, [s, f]."""
        rates = np.atleast_2d(self.decision_rate)
        return np.tile(rates, (layout.n_groups, 1)) if layout.tied else rates

    def updated(
        self, places: Places, posterior: Floats, prior: TopRates, limits: Limits | None = None
    ) -> TopRates:
        """The M-step from the posterior of (s, f) of each place; within limits."""
        counts = places.counts(posterior)  # [s, f, d], the last d being "missing"
        by_cell = counts.sum(axis=2)
        labels = counts[:, :, :-1] + prior.mechanism
        totals = labels.sum(axis=2, keepdims=True)
        mechanism = np.where(totals > 0, labels / np.where(totals > 0, totals, 1.0), self.mechanism)
        group = by_cell.sum(axis=1) + prior.group_rate
        # Rates that a review has found to differ are those of each group.
        masses = by_cell.sum(axis=0) if self.decision_rate.ndim == 1 else by_cell
        decision = masses + prior.decision_rate
        rate = decision / decision.sum(axis=-1, keepdims=True)
        if limits is not None:
            known = np.where(totals > 0, labels, self.mechanism)
            rate, mechanism = limits.shares(decision, known)
        return TopRates(group / group.sum(), rate, mechanism)

    def of_free(self, limits: Limits) -> TopRates:
        """Pseudo-counts for what is not bound to be zero: a prior says nothing of the rest."""
        return TopRates(
            self.group_rate,
            np.where(limits.rate_upper > 0, self.decision_rate, 0.0),
            np.where(limits.mechanism_upper > 0, self.mechanism, 0.0),
        )

    def log_prior(self, prior: TopRates) -> float:
        """Σ prior · log θ."""
        pairs = [(getattr(self, f.name), getattr(prior, f.name)) for f in fields(self)]
        return sum(log_prior(theta, count) for theta, count in pairs)


def rates_of(rates: Floats, subgroups: Any, strata: Strata) -> Floats:
    """P(decision), or its log, of each of some subgroups; one for all where all have the same."""
    if strata.delta:
        return np.asarray(rates[subgroups], np.float64)
    return np.asarray(rates[subgroups % strata.n] if strata else rates, np.float64)


@dataclass(frozen=True, eq=False)
class TopStep(AnyStep):
    """A step of EM over the upper layers alone."""

    rates: TopRates


def top_em(
    places: Places,
    densities: Floats,
    start: TopRates,
    prior: TopRates,
    limits: Limits | None = None,
    equal_mass: bool = False,
) -> Iterator[TopStep]:
    """EM over the upper layers as an endless iterator of steps, the start among them.

    ``densities`` holds log P(x | f, s), places × classes. The objective leaves out
    the prior of the parameters that are fixed. With ``equal_mass`` the mass of Df in the
    rows is the same in all groups (see :class:`BalancedPlan`); the objective may then fall.
    """
    rates, iteration = start, 0
    odds = np.ones((places.n_groups, places.n_classes))
    if limits is not None:
        shares = limits.shares(start.decision_rate, start.mechanism)
        rates, prior = TopRates(start.group_rate, *shares), prior.of_free(limits)
    while True:
        joint = rates.log_joint(places, densities)
        logs, posterior = places.normalised(joint)
        used = places.weights > 0
        log_likelihood = float((places.weights[used] * logs[used]).sum())
        objective = log_likelihood + rates.log_prior(prior)
        yield TopStep(iteration, log_likelihood, objective, rates)
        if equal_mass:
            posterior, odds = places.equalised(joint, rates.decision_rate, odds)
        rates, iteration = rates.updated(places, posterior, prior, limits), iteration + 1


@dataclass(eq=False)
class BalancedPlan:
    """A plan whose flows have equal mass of Df in all groups: an option, not in the paper.

    EM balances the pooled posterior of Df only. With a rich P(x | f, s) the mean of
    P(Df | x, s, d) over the rows of a group may drift from P(Df), which is the same for all
    groups. Here each E-step shifts the log-odds of Df in each group so that its mass in the
    group's rows is P(Df) times their number. The MAP objective may then fall.

    The log-odds are shifted by giving each group weights of its own in the sum over
    Df, in a copy of the graph where these are not shared. They are found from P(f, row | s) of
    every row, which the shifts do not change. The shifts of one call are where the next one
    starts.
    """

    graph: Graph  #: of the model itself
    plan: RowPlan  #: of the rows in it
    apart: RowPlan  #: the same rows in the copy of the graph
    source: Ints  #: for each parameter of the copy, the one that it is a copy of
    decision: Ints  #: parameters of P(f) in the copy, [s, f]
    shared: Ints  #: parameters of P(f) in the model, [s, f]
    places: Places  #: every row once for each group that it may be from
    placed: RowPlan  #: plan of the rows of the places; ``at`` gives the distinct row of each
    at: Int32s
    #: by which P(f) was last multiplied, [s, f]; 1 before the first call
    odds: Floats = field(repr=False)

    @classmethod
    def of(cls, plan: RowPlan, layout: Layout) -> BalancedPlan:
        """The plan of the same rows with balanced flows."""
        graph = plan.graph
        top = Top.of(graph, layout)
        untied, source = _untie(graph, top)
        apart, decision = prepare(untied, plan.table), Top.of(untied, layout).decision
        places, codes = _places(plan.table, layout)
        placed, at = plan, np.arange(plan.n_distinct, dtype=np.int32)
        if len(codes) > plan.n_distinct:
            placed = prepare(graph, Table.of(codes, arities=graph.arities))
            at = placed.row_of
        odds = np.ones(top.decision.shape)
        return cls(graph, plan, apart, source, decision, top.decision, places, placed, at, odds)

    @property
    def n_rows(self) -> int:
        return self.plan.n_rows

    @property
    def total_weight(self) -> float:
        return self.plan.total_weight

    def __call__(self, parameters: Floats, weights: Floats | None = None) -> tuple[float, Floats]:
        """Log-likelihood of the model itself, and balanced flows."""
        log_likelihood = self.plan.log_likelihood(parameters, weights)
        places = replace(self.places, weights=self.plan.distinct_weights(weights))
        rate = parameters[self.shared]
        joint, rates = self._log_joint(parameters), rate[:1]
        _, self.odds = places.equalised(joint, rates, self.odds)
        shifted = rate * self.odds
        theta = parameters[self.source]
        theta[self.decision] = shifted / shifted.sum(axis=1, keepdims=True)
        flows = self.apart(theta, weights)[1]
        summed = np.bincount(self.source, flows, self.graph.n_parameters)
        return log_likelihood, np.asarray(summed, np.float64)

    def _log_joint(self, parameters: Floats) -> Floats:
        """log P(s, f, row), places × classes: P(row) with all the mass of Df on f, times P(f)."""
        certain = parameters.copy()
        joint = np.empty((len(self.places.row), self.shared.shape[1]))
        for f in range(joint.shape[1]):
            certain[self.shared] = 0.0
            certain[self.shared[:, f]] = 1.0
            joint[:, f] = self.placed.row_logs(certain)[self.at]
        with np.errstate(divide="ignore"):
            joint += np.log(parameters[self.shared])[self.places.s]
        return joint

    def batch(self, parameters: Floats, weights: Floats | None = None) -> tuple[Floats, Floats]:
        """One parameter set after the other."""
        sets = len(parameters)
        rows = [None] * sets if weights is None else np.broadcast_to(weights, (sets, self.n_rows))
        results = [self(theta, w) for theta, w in zip(parameters, rows, strict=True)]
        return np.array([r[0] for r in results]), np.stack([r[1] for r in results])


def _places(table: Table, layout: Layout) -> tuple[Places, Codes]:
    """Every row of a table of the circuit in each group that it may be from; and its codes."""
    codes, x = table.codes, slice(layout.x.start, layout.x.stop)
    columns = codes[:, S], codes[:, layout.d], codes[:, x], table.weights
    sizes = layout.n_groups, layout.n_classes, np.array(layout.arities), layout.names
    places = Places.of(Rows(*columns, *sizes))
    placed = np.asfortranarray(codes[places.row])
    placed[:, S] = places.s
    return places, placed


def _untie(graph: Graph, top: Top) -> tuple[Graph, Ints]:
    """The graph with weights of its own for each group's sum over Df; and whose copy each is."""
    block, block_ptr = graph.block.copy(), graph.block_ptr
    source = np.arange(graph.n_parameters)
    for first in np.unique(graph.parameter_block[top.decision[:, 0]]).tolist():
        own = np.arange(block_ptr[first], block_ptr[first + 1])
        for node in np.flatnonzero(graph.block == first)[1:]:
            block[node] = len(block_ptr) - 1
            block_ptr = np.append(block_ptr, block_ptr[-1] + len(own))
            source = np.concatenate([source, own])
    return replace(graph, block=block, block_ptr=block_ptr), source
