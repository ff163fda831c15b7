"""Rates and mechanism of the upper layers: their limits and their EM.

Learned by themselves, with P(x | f, s) held fixed, the M-step is that of the paper (Section
"Learning Fair Probabilistic Circuits") restricted to them. With expected counts N: P(s) = N_s / N,
P(f) = N_f / N over all groups together, which is Df ⟂ S, and P(d | f, s) = N_sfd / N_sf. Rates that
a review has found to differ are held.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from fairpc.circuit import (
    SLACK,
    WEIGHT_TOLERANCE,
    AnyStep,
    Bounds,
    Graph,
    Near,
    filled,
    log_prior,
)
from fairpc.core import Floats, Ints, LearningError
from fairpc.models._fair_layers import Layout, Top
from fairpc.models._rows import Rows
from fairpc.models._strata import Strata


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

    @classmethod
    def of(cls, rows: Rows) -> Places:
        own, n = rows.s, rows.n_groups
        known, unknown = np.flatnonzero(own >= 0), np.flatnonzero(own < 0)
        row = np.concatenate([known, np.tile(unknown, n)])
        s = np.concatenate([own[known], np.repeat(np.arange(n), len(unknown))]).astype(np.int64)
        d = rows.d[row].astype(np.int64)
        return cls(row, s, d, rows.weights, rows.n_groups, rows.n_classes)

    @property
    def total_weight(self) -> float:
        return float(self.weights.sum())

    def normalised(self, joint: Floats) -> tuple[Floats, Floats]:
        """log P of each row and its posterior of (s, f), from log P(s, f, row), places × classes.

        A row of probability zero has no posterior: zeros.
        """
        top, values = self._scaled(joint)
        total = self._by_row(values.sum(axis=1))
        with np.errstate(divide="ignore"):
            logs = top + np.log(total)
        posterior: Floats = values / self._at_places(np.where(total > 0, total, 1.0))[:, None]
        return logs, posterior

    def _scaled(self, joint: Floats) -> tuple[Floats, Floats]:
        """Largest of the logs of each row, and all of them beside it, no more as logs."""
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

    def counts(self, posterior: Floats) -> Floats:
        """Expected rows of each (s, f, d); where d is missing, it is the last value."""
        k = self.n_classes
        d = np.where(self.d < 0, k, self.d)
        cell = self.s * (k + 1) + d
        weighted = posterior * self._at_places(self.weights)[:, None]
        n = self.n_groups
        sums = [np.bincount(cell, weighted[:, f], n * (k + 1)) for f in range(k)]
        return np.stack([total.reshape(n, k + 1) for total in sums], axis=1)


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
) -> Iterator[TopStep]:
    """EM over the upper layers as an endless iterator of steps, the start among them.

    ``densities`` holds log P(x | f, s), places × classes. The objective leaves out
    the prior of the parameters that are fixed.
    """
    rates, iteration = start, 0
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
        rates, iteration = rates.updated(places, posterior, prior, limits), iteration + 1
