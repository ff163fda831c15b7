"""Reviews of a model's table: which rows to look at again, and what the answers say of all rows.

The statistics are those of :mod:`fairpc.evidence`, which takes plain arrays. Here a fitted model
gives the arrays: labels, groups and decisions of its table, and P(Df = 1 | x, s, d).

A model's own point alters as few labels as possible, and its posterior is close to 0 or 1: it says
nothing about where to look. So P(D = 1 | x, s), which every model has, is turned into a posterior
at the middle of the mechanisms that the labels leave possible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import numpy.typing as npt

from fairpc import evidence
from fairpc.core import (
    Array,
    Bools,
    Floats,
    LearningError,
    MetricError,
    Positions,
)
from fairpc.data import Column, TableCoding, take_rows
from fairpc.evidence import LEVEL, Interval, LabelBounds
from fairpc.models._rows import Rows
from fairpc.models._score_map import posterior_of
from fairpc.models._tables import rows_in_order

if TYPE_CHECKING:
    from fairpc.evidence import ExpectedWidth, ReviewDesign, ReviewEstimates

Quantity = Literal["all", "rates", "mechanism", "errors"]
Batch = tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike]
"""Positions of the rows that were drawn, the chance of each, and its answer."""

USUAL: Final = (0.05, 0.95)
"""P(D = 1 | Df) where nothing is known of it: one label in twenty is altered."""
EDGE: Final = 0.02
"""Least P(Df = 1 | x, s): a score beyond the middle of the set is not certain."""


@dataclass(frozen=True, eq=False)
class Reviewed:
    """Rows of a table that were drawn for review, and what reviewers said; of every row."""

    truth: Floats  #: the fair decision, 1 = positive; NaN where nobody said
    drawn: Bools
    probability: Floats  #: chance of a row that was drawn, in its batch; else 1
    batch: Positions  #: number of its batch, from 1; 0 where it was not drawn

    @classmethod
    def of(cls, n_rows: int, batches: Sequence[Batch]) -> Reviewed:
        """What batches of a table of ``n_rows`` said, in their order.

        Args:
            n_rows: rows of the table.
            batches: of each the positions of its rows, their chances, as
                ``design.probability[design.rows]``, and the answers: 1 for the positive class, 0,
                or NaN where reviewers could not tell.
        """
        truth, chance = np.full(n_rows, np.nan), np.ones(n_rows)
        number = np.zeros(n_rows, np.intp)
        for k, (rows, probability, answers) in enumerate(batches, 1):
            at, chances = evidence.check_draw(rows, probability, n_rows, f"batch {k}")
            if (number[at] > 0).any():
                raise MetricError(f"batch {k} has a row that was drawn before: each is drawn once")
            given = np.asarray(answers, np.float64)
            known = given[~np.isnan(given)]
            if given.shape != at.shape or not np.isin(known, (0.0, 1.0)).all():
                raise MetricError(f"answers of batch {k} are not 0, 1 or NaN for each row drawn")
            truth[at], chance[at], number[at] = given, chances, k
        if not (number > 0).any():
            raise MetricError("no row was drawn: give a batch")
        return cls(truth, number > 0, chance, number)

    def taken(self, rows: Positions) -> Reviewed:
        """The same of some rows."""
        return Reviewed(*(of[rows] for of in vars(self).values()))

    @property
    def n_batches(self) -> int:
        return int(self.batch.max())


@dataclass(frozen=True, eq=False)
class ReviewRows:
    """What a review is about: the rows of a table whose recorded label and group are known."""

    n_table: int  #: rows of the table
    at: Positions  #: of these rows in it
    y: Floats  #: recorded label, 1 = positive
    groups: Array  #: name of each row's group
    decisions: Floats  #: to be audited, 1 = positive
    posterior: Floats  #: P(Df = 1 | x, s, d) of a model that did not see the truth
    columns: Mapping[str, Array]  #: features by name
    classes: tuple[Any, Any]  #: the negative and the positive one
    #: by name and group, the values of a rate that recorded labels alone leave possible
    ranges: Mapping[tuple[str, str], Interval] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        model: Any,
        X: Any,
        y: Any,
        sensitive_features: Any = None,
        decisions: npt.ArrayLike | None = None,
    ) -> ReviewRows:
        """Of a fitted model and a table; ``decisions``, 0 or 1, take the place of the model's."""
        coding = model._coding()
        labels = coding.labels
        if len(labels.classes) != 2:
            raise LearningError(
                f"the label has {len(labels.classes)} classes, and a review needs two: merge "
                "classes into two; FairPC with structure='strudel' keeps more"
            )
        rows = rows_in_order(coding, X, y, sensitive_features)
        at = np.flatnonzero((rows.d >= 0) & (rows.s >= 0))
        if not len(at):
            raise LearningError(
                "no row has a known label and group: a review needs both, give the columns"
            )
        h, given = decisions, {"X": X}
        if sensitive_features is not None:
            given["sensitive_features"] = sensitive_features
        if len(at) < rows.n_rows:  # a classifier may not say anything of the others
            given = {name: take_rows(of, at) for name, of in given.items()}
        observed = model.predict_observed_proba(**given)[:, labels.positive]
        h = model.predict(**given) == labels.positive_class if h is None else np.asarray(h)[at]
        bounds = model.label_ends_ if model._latent else None
        return cls.of_codes(coding, rows, at, observed, h, bounds, X)

    @classmethod
    def of_codes(
        cls,
        coding: TableCoding,
        rows: Rows,
        at: Positions,
        observed: Floats,
        decisions: npt.ArrayLike,
        bounds: LabelBounds | None,
        X: Any = None,
    ) -> ReviewRows:
        """Of coded rows; ``observed`` is P(D = positive | x, s) of those ``at`` some positions.

        Tests of columns need the numbers of ``X``: bins were chosen by the labels that they test.
        """
        labels = coding.labels
        d = np.asarray(rows.d[at] == labels.positive, np.float64)
        s = np.asarray(rows.s[at], np.intp)
        middle = middle_mechanism(bounds, len(coding.group_names))
        numbers = {} if X is None else coding.features.numbers(X)
        return cls(
            n_table=rows.n_rows,
            at=at,
            y=d,
            groups=np.array(coding.group_names, dtype=object)[s].astype(str),
            decisions=np.asarray(decisions, np.float64),
            posterior=posterior_at(middle, observed, d, s),
            columns={
                column.name: _levels(column, rows.x[at, j], numbers, at)
                for j, column in enumerate(coding.features.columns)
                if column.name not in coding.groups.column_names
            },
            classes=(labels.classes[1 - labels.positive], labels.positive_class),
            ranges={} if bounds is None else _without_review(bounds, coding.group_names),
        )

    def called(self, groups: Mapping[str, str], classes: tuple[Any, Any]) -> ReviewRows:
        """The same with other names of groups and classes."""
        return replace(
            self,
            groups=np.array([groups[group] for group in self.groups.tolist()]),
            classes=classes,
            ranges={(name, groups[group]): of for (name, group), of in self.ranges.items()},
        )

    def corrected(self, reviewed: Reviewed | None) -> Floats:
        """The posterior after a review, for the next batch."""
        if reviewed is None or np.isnan(reviewed.truth[self.at]).all():
            return self.posterior
        own = reviewed.taken(self.at)
        return evidence.recalibrate_posterior(
            self.posterior,
            own.truth,
            self.y,
            self.groups,
            probability=own.probability,
            batch=own.batch,
        )

    def design(
        self,
        n: int,
        quantity: Quantity = "all",
        *,
        strata: npt.ArrayLike | None = None,
        reviewed: Reviewed | None = None,
        method: Literal["active", "uniform"] = "active",
        random_state: int | np.random.Generator | None = None,
    ) -> ReviewDesign:
        """Rows drawn for review, by their positions in the table; see ``review_design``."""
        drawn = evidence.review_design(
            self.corrected(reviewed),
            n,
            **self._known,
            quantity=quantity,
            method=method,
            strata=None if strata is None else np.asarray(strata)[self.at],
            reviewed=None if reviewed is None else reviewed.drawn[self.at],
            random_state=random_state,
        )
        chance = np.zeros(self.n_table)
        chance[self.at] = drawn.probability
        chance.flags.writeable = False
        return evidence.ReviewDesign(chance, self.at[drawn.rows], n, method, quantity, drawn.draw)

    def widths(
        self,
        n: int,
        quantity: Quantity = "all",
        *,
        reviewed: Reviewed | None = None,
        method: Literal["active", "uniform"] = "active",
    ) -> tuple[ExpectedWidth, ...]:
        """How well each rate would be known with n reviewed rows in all."""
        given = {"quantity": quantity, "method": method, **self._known}
        return evidence.expected_widths(self.corrected(reviewed), min(n, len(self.at)), **given)

    def estimates(
        self, reviewed: Reviewed, *, level: float = 0.95, alone: bool = False
    ) -> ReviewEstimates:
        """What a review says of these rows; ``alone``: of reviewed rows, without the posterior."""
        import polars as pl

        own = reviewed.taken(self.at)
        return evidence.review_estimates(
            own.truth,
            self.y,
            self.groups,
            probability=own.probability,
            posterior=None if alone else self.posterior,
            drawn=own.drawn,
            batch=own.batch,
            decisions=self.decisions,
            X=None if alone else pl.DataFrame(dict(self.columns)),
            level=level,
        )

    @property
    def _known(self) -> dict[str, Any]:
        return {"sensitive_features": self.groups, "y": self.y, "decisions": self.decisions}


class Reviewable:
    """A fitted model that says which rows to review."""

    def review(
        self,
        X: Any,
        y: Any,
        n: int,
        *,
        sensitive_features: Any = None,
        quantity: Quantity = "all",
        strata: npt.ArrayLike | None = None,
        reviewed: Reviewed | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> ReviewDesign:
        """Draw n rows to be looked at again, each with a known chance.

        Rows without a label or a group are not drawn. Give the answers, as :class:`Reviewed`, to
        ``fairpc.audit(…, reviewed=…)``, and to the next call for another batch.

        Args:
            X: table in memory.
            y: recorded labels.
            n: rows to draw.
            sensitive_features: groups given apart, as at fit.
            quantity: what to be precise about: "rates", "mechanism", "errors" of this model's
                decisions, or "all".
            strata: levels that must be covered, one per row.
            reviewed: earlier batches.
            random_state: seed or generator.
        """
        rows = ReviewRows.of(self, X, y, sensitive_features)
        how: dict[str, Any] = {"strata": strata, "reviewed": reviewed}
        return rows.design(n, quantity, **how, random_state=random_state)


def middle_mechanism(bounds: LabelBounds | None, n_groups: int) -> Floats:
    """P(D = 1 | Df = f, S = s) in the middle of what labels leave possible, [s, f], 1 = positive.

    Where labels contradict equal fair rates, of what they leave possible without them; where nobody
    has looked at it, one label in twenty is altered.
    """
    usual = np.tile(USUAL, (n_groups, 1))
    both = () if bounds is None else (bounds, bounds.with_delta(1.0))
    for ranges in (each.mechanism_range() for each in both):
        middle = ranges.mean(axis=-1)
        middle = middle if middle.ndim == 2 else middle.mean(axis=1)
        if (middle[:, 1] - middle[:, 0] > EDGE).all():  # not so where some are NaN
            return np.asarray(middle, np.float64)
    return usual


def _without_review(bounds: LabelBounds, groups: Sequence[str]) -> dict[tuple[str, str], Interval]:
    """Ranges of fair rates and of the mechanism, by name and group; none where rejected."""
    found: dict[tuple[str, str], Interval] = {}
    mechanism = bounds.mechanism_range()
    if mechanism.ndim != 3 or np.isnan(mechanism).any():  # strata that have their own, or none
        return found
    low, high = bounds.rate_set(LEVEL)
    for group, own in zip(groups, mechanism, strict=True):
        found["fair_rate", group] = low, high
        for f in (0, 1):
            found[f"mechanism_{f}", group] = float(own[f, 0]), float(own[f, 1])
    return found


def posterior_at(mechanism: Floats, observed: Floats, y: Floats, groups: Positions) -> Floats:
    """P(Df = 1 | x, s, d) where P(D = 1 | x, s) and the mechanism are known."""
    own = mechanism[groups]
    b0, b1 = own.T
    return posterior_of(np.clip((observed - b0) / (b1 - b0), EDGE, 1 - EDGE), y, own)


def _levels(column: Column, codes: Array, numbers: Mapping[str, Floats], at: Positions) -> Array:
    """A feature as the tests take it: numbers if known, or their bins, names as text."""
    if column.binned:
        of_bins = np.where(codes < 0, np.nan, codes.astype(np.float64))
        known = numbers[column.name][at] if column.name in numbers else of_bins
        return known if (np.isnan(known) == np.isnan(of_bins)).all() else of_bins
    return np.array([*column.labels, ""], dtype=object)[codes]
