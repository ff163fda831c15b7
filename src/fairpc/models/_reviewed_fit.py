"""What a fit takes from a review: fair rates and the mechanism, and what it does not go with.

The posterior of all rows, corrected by the reviewed ones with their weights, gives the point: it
errs less than reviewed rows alone, since it knows the recorded label of every row. The intervals of
the review give the limits, and its test says whether the groups' fair rates are tied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpc import evidence
from fairpc.core import Floats, LearningError
from fairpc.data import TableCoding, is_dask, is_source
from fairpc.models._knowledge import Knowledge
from fairpc.models._review import EDGE, USUAL, Reviewed, ReviewRows
from fairpc.models._top_em import Limits, TopRates


@dataclass(frozen=True, eq=False)
class ReviewedRates:
    """What a fit takes from a review, by group: fair rates, the mechanism, and its limits."""

    groups: tuple[str, ...]  #: names
    rate: Floats  #: P(Df = 1 | S), [s]; equal unless the review contradicts it
    mechanism: Floats  #: P(D = 1 | Df = f, S), [s, f]
    limits: Floats  #: 95 % intervals of it, [s, f, end], which hold without the posterior's help
    delta: float  #: by how much the rates differ; 0 where they are tied
    warnings: tuple[str, ...]  #: what the review contradicts, a sentence each

    @classmethod
    def of(cls, table: ReviewRows, reviewed: Reviewed, groups: tuple[str, ...]) -> ReviewedRates:
        """The corrected posterior of all rows gives the point, the reviewed rows its limits."""
        estimates = table.estimates(reviewed)
        m, tied = table.corrected(reviewed), not estimates.tests["rates"].rejected
        rate, limits = np.full(len(groups), float(m.mean())), np.zeros((len(groups), 2, 2))
        limits[..., 1] = 1.0
        mechanism = np.tile(USUAL, (len(groups), 1))
        for s, group in enumerate(groups):
            here = table.groups == group
            if not here.any():
                continue
            own, y = m[here], table.y[here]
            if tied:
                own = evidence.shifted(own, np.zeros(len(own), np.intp), rate[s : s + 1])
            rate[s] = own.mean()
            mechanism[s] = [float(p @ y) / max(float(p.sum()), 1e-9) for p in (1 - own, own)]
            both = estimates.mechanism[group]
            limits[s] = [(both[f].low, both[f].high) for f in (0, 1)]
        if (mechanism[:, 1] - mechanism[:, 0] <= EDGE).any():
            raise LearningError(
                "by the reviewed rows, labels of a group do not follow the fair decision: a model "
                "of this kind does not fit, use the reviewed estimates"
            )
        limits[..., 0] = np.minimum(limits[..., 0], mechanism)
        limits[..., 1] = np.maximum(limits[..., 1], mechanism)
        delta = 0.0 if tied else float(np.ptp(rate))
        found = [f"{text}." for text in estimates.contradictions()]
        if not tied:
            found[0] = f"{found[0][:-1]}: they are not tied in this fit."
        return cls(groups, rate, mechanism, limits, delta, tuple(found))

    def knowledge(self, classes: Sequence[Any], positive: int) -> Knowledge:
        """The limits of the mechanism as a fit states what is known."""
        order = [classes[1 - positive], classes[positive]]
        return Knowledge(
            mechanism_bounds={
                (group, order[f], order[1]): tuple(self.limits[s, f].tolist())
                for s, group in enumerate(self.groups)
                for f in (0, 1)
            }
        )

    def exact(self, positive: int) -> Limits:
        """Limits that hold EM at the point."""
        share = np.full(len(self.rate), 1 / len(self.rate))
        rate = self.rate if self.delta else self.rate[0]
        return Limits.exactly(TopRates.of_two(share, rate, self.mechanism, positive))


def knowledge_after(
    stated: Knowledge | None, held: ReviewedRates | None, coding: TableCoding
) -> Knowledge:
    """What was stated, and what a review leaves of the mechanism."""
    own = stated or Knowledge()
    if held is None:
        return own
    return own.and_also(held.knowledge(coding.labels.classes, coding.labels.positive))


def refuse_beside_review(reviewed: Any, X: Any, given: Any, sample_weight: Any) -> None:
    """A LearningError where reviewed rows are given beside what they do not go with."""
    if reviewed is None:
        return
    if not isinstance(reviewed, Reviewed):
        raise LearningError(
            f"reviewed is a {type(reviewed).__name__}: give a fairpc.models.Reviewed, as "
            "Reviewed.of(n_rows, batches) makes it"
        )
    if given or sample_weight is not None:
        beside = "given" if given else "sample_weight"
        raise LearningError(
            f"reviewed and {beside} were given: reviews are of rows, each once, and give rates "
            "of whole groups; leave one out"
        )
    if is_source(X) or is_dask(X):
        raise LearningError("reviewed rows are known by their place: give the table in memory")
    if len(X) != len(reviewed.truth):
        raise LearningError(
            f"reviewed is about {len(reviewed.truth):,} rows and X has {len(X):,}: give the table "
            "that the rows were drawn from"
        )
