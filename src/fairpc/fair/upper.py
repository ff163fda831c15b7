"""The upper layers learned by themselves: P(S), P(Df), P(D | Df, S), with P(x | f, s) held fixed.

The M-step is that of the paper (Section "Learning Fair Probabilistic Circuits")
restricted to these layers. With expected counts N: P(s) = N_s / N, P(f) = N_f / N over all groups
together, which is Df ⟂ S, and P(d | f, s) = N_sfd / N_sf.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from fairpc.circuit.bounds import filled
from fairpc.errors.arrays import Floats, Ints
from fairpc.fair.distribution import FairDistribution
from fairpc.fair.knowledge import Limits
from fairpc.fair.rows import Rows

EQUAL: Final = 1e-8
EQUALISING: Final = 50
"""Part of the rows by which masses may differ, and rounds in which they are made equal."""


@dataclass(frozen=True, eq=False)
class Places:
    """Every row once for each group that it may be from: its own, or all where S is missing.

    Attributes:
        row, s: row and group of each place.
        d: observed label of each place, -1 = missing.
        weights: weight of each row.
        n_groups, n_classes: number of values of S and of D.
        f: fair decision of each place, -1 = hidden; None where all are.
    """

    row: Ints
    s: Ints
    d: Ints
    weights: Floats
    n_groups: int
    n_classes: int
    f: Ints | None = None

    @classmethod
    def of(cls, rows: Rows) -> Places:
        known, unknown = np.flatnonzero(rows.s >= 0), np.flatnonzero(rows.s < 0)
        row = np.concatenate([known, np.tile(unknown, rows.n_groups)])
        s = np.concatenate([rows.s[known], np.repeat(np.arange(rows.n_groups), len(unknown))])
        return cls(
            row, s.astype(np.int64), rows.d[row].astype(np.int64), rows.weights,
            rows.n_groups, rows.n_classes,
            None if rows.f is None else rows.f[row].astype(np.int64),
        )  # fmt: skip

    @property
    def total_weight(self) -> float:
        return float(self.weights.sum())

    def normalised(self, joint: Floats) -> tuple[Floats, Floats]:
        """log P of each row and its posterior of (s, f), from log P(s, f, row), places × classes.

        Where the fair decision is known, the others are left out. A row of probability zero
        has no posterior: zeros.
        """
        n = len(self.weights)
        if self.f is not None:
            excluded = (self.f[:, None] >= 0) & (self.f[:, None] != np.arange(self.n_classes))
            joint = np.where(excluded, -np.inf, joint)
        top = np.full(n, -np.inf)
        np.maximum.at(top, self.row, joint.max(axis=1))
        top[np.isneginf(top)] = 0.0
        values = np.exp(joint - top[self.row, None])
        total = np.bincount(self.row, values.sum(axis=1), n)
        with np.errstate(divide="ignore"):
            logs = top + np.log(total)
        posterior: Floats = values / np.where(total > 0, total, 1.0)[self.row, None]
        return logs, posterior

    def equalised(self, joint: Floats, rate: Floats, shift: Floats) -> Floats:
        """The posterior with log-odds of f shifted so that its mass in each group follows ``rate``.

        ``shift`` [s, f] is where the shifts start, and is set to where they end.
        """
        for _ in range(EQUALISING):
            posterior = self.normalised(joint + shift[self.s])[1]
            mass = self.counts(posterior).sum(axis=2)
            wanted = rate * mass.sum(axis=1, keepdims=True)
            if np.abs(mass - wanted).max() <= EQUAL * self.total_weight:
                break
            known = (mass > 0) & (wanted > 0)
            shift += np.log(np.where(known, wanted, 1.0) / np.where(known, mass, 1.0))
        return posterior

    def counts(self, posterior: Floats) -> Floats:
        """Expected rows of each (s, f, d); where d is missing, it is the last value."""
        k = self.n_classes
        d = np.where(self.d < 0, k, self.d)
        cell = self.s * (k + 1) + d
        weighted = posterior * self.weights[self.row, None]
        sums = [np.bincount(cell, weighted[:, f], self.n_groups * (k + 1)) for f in range(k)]
        return np.stack([total.reshape(self.n_groups, k + 1) for total in sums], axis=1)


@dataclass(frozen=True, eq=False)
class Upper:
    """P(S), P(Df) and P(D = d | Df = f, S = s), [s, f, d]; or pseudo-counts of the same shapes."""

    group_rate: Floats
    decision_rate: Floats
    mechanism: Floats

    @classmethod
    def of(cls, distribution: FairDistribution) -> Upper:
        return cls(distribution.group_rate, distribution.decision_rate[0], distribution.mechanism)

    @classmethod
    def uniform(cls, n_groups: int, n_classes: int) -> Upper:
        k = n_classes
        mechanism = np.full((n_groups, k, k), 1.0 / k)
        return cls(np.full(n_groups, 1.0 / n_groups), np.full(k, 1.0 / k), mechanism)

    def log_joint(self, places: Places, densities: Floats) -> Floats:
        """log P(s, f, d, x), from log P(x | f, s); both places × classes."""
        with np.errstate(divide="ignore"):
            group, decision, mechanism = (
                np.log(p) for p in (self.group_rate, self.decision_rate, self.mechanism)
            )
        # A label that is missing is summed out: one more value of probability 1.
        label = np.concatenate([mechanism, np.zeros((*mechanism.shape[:2], 1))], axis=2)
        d = np.where(places.d < 0, places.n_classes, places.d)
        result: Floats = label[places.s, :, d] + densities + group[places.s, None] + decision
        return result

    def updated(self, counts: Floats, prior: Upper, limits: Limits | None = None) -> Upper:
        """The M-step from expected rows [s, f, d], the last d being "missing"; within limits."""
        by_cell = counts.sum(axis=2)
        labels = counts[:, :, :-1] + prior.mechanism
        totals = labels.sum(axis=2, keepdims=True)
        mechanism = np.where(totals > 0, labels / np.where(totals > 0, totals, 1.0), self.mechanism)
        group = by_cell.sum(axis=1) + prior.group_rate
        decision = by_cell.sum(axis=0) + prior.decision_rate
        rate = decision / decision.sum()
        if limits is not None:
            rate = filled(decision, limits.rate_lower, limits.rate_upper)
            known = np.where(totals > 0, labels, self.mechanism)
            mechanism = filled(known, limits.mechanism_lower, limits.mechanism_upper)
        return Upper(group / group.sum(), rate, mechanism)

    def within(self, limits: Limits) -> Upper:
        """The same brought within limits."""
        return Upper(
            self.group_rate,
            filled(self.decision_rate, limits.rate_lower, limits.rate_upper),
            filled(self.mechanism, limits.mechanism_lower, limits.mechanism_upper),
        )

    def of_free(self, limits: Limits) -> Upper:
        """Pseudo-counts for what is not bound to be zero: a prior says nothing of the rest."""
        return Upper(
            self.group_rate,
            np.where(limits.rate_upper > 0, self.decision_rate, 0.0),
            np.where(limits.mechanism_upper > 0, self.mechanism, 0.0),
        )

    def log_prior(self, prior: Upper) -> float:
        """Σ prior · log θ."""
        total = 0.0
        for theta, count in (
            (self.group_rate, prior.group_rate),
            (self.decision_rate, prior.decision_rate),
            (self.mechanism, prior.mechanism),
        ):
            used = count > 0
            with np.errstate(divide="ignore"):
                total += float((count[used] * np.log(theta[used])).sum())
        return total


@dataclass(frozen=True, eq=False)
class UpperStep:
    """Where EM over the upper layers stands: parameters, likelihood, MAP objective."""

    iteration: int
    upper: Upper
    log_likelihood: float
    objective: float


def upper_em(
    places: Places,
    densities: Floats,
    start: Upper,
    prior: Upper,
    limits: Limits | None = None,
    equal_mass: bool = False,
) -> Iterator[UpperStep]:
    """EM over the upper layers as an endless iterator of steps, the start among them.

    ``densities`` holds log P(x | f, s), places × classes. The objective leaves out
    the prior of the parameters that are fixed. With ``equal_mass`` the mass of Df in the
    rows is the same in all groups (see :mod:`fairpc.fair.balance`); the objective may then fall.
    """
    upper, iteration = start, 0
    shift = np.zeros((places.n_groups, places.n_classes))
    if limits is not None:
        upper, prior = start.within(limits), prior.of_free(limits)
    while True:
        joint = upper.log_joint(places, densities)
        logs, posterior = places.normalised(joint)
        used = places.weights > 0
        log_likelihood = float((places.weights[used] * logs[used]).sum())
        objective = log_likelihood + upper.log_prior(prior)
        yield UpperStep(iteration, upper, log_likelihood, objective)
        if equal_mass:
            posterior = places.equalised(joint, upper.decision_rate, shift)
        upper, iteration = upper.updated(places.counts(posterior), prior, limits), iteration + 1
