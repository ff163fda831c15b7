"""Decisions beside recorded labels: checked rows, their held-out sets, and what is refused.

Rates against Df need decisions that did not look at the labels. Some that did show it: they repeat
the labels, or tell them better than sets of rows do that were chosen without them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairpc.core import (
    Bools,
    Floats,
    MetricError,
    Positions,
    check_classes,
    check_clusters,
    check_groups,
    check_labels,
    check_positive_weight,
    check_scores,
    one_of,
)
from fairpc.evidence._chosen_sets import MIN_ROWS, TopSets
from fairpc.evidence._error_sets import DecisionCells
from fairpc.evidence._intervals import check_enough_rows, clopper_pearson, rate_sample, some_of
from fairpc.evidence._stratum_bounds import HeldOutRates
from fairpc.evidence._top_sets import OUTER, held_out_rates
from fairpc.learners import deal

COPIES: Final = 0.99
"""Share of both labels that decisions repeat where they are the labels."""
_SURE: Final = 1e-4
"""Chance at most that decisions which did not see the labels are refused."""


@dataclass(frozen=True, eq=False)
class DecisionRows:
    """Checked rows: what was decided, what was recorded, of whom."""

    decided: Bools
    labelled: Bools
    names: tuple[Any, ...]
    ids: Positions
    weights: Floats | None
    persons: Positions | None
    positive: Any
    sources: tuple[npt.ArrayLike, npt.ArrayLike]  #: y and sensitive_features, as they were given

    @classmethod
    def of(
        cls,
        decisions: npt.ArrayLike,
        y: npt.ArrayLike,
        sensitive_features: npt.ArrayLike,
        positive: Any,
        clusters: npt.ArrayLike | None,
        sample_weight: npt.ArrayLike | None,
    ) -> DecisionRows:
        classes, labels = check_classes("y", y)
        n = len(labels)
        if len(classes) != 2:
            raise MetricError(
                f"y has {len(classes)} classes: error rates against Df need two; compare one class "
                "with all others"
            )
        wanted = 1 if positive is None else one_of("positive", positive, classes)
        decided = _decided(check_labels("decisions", decisions, n).tolist(), classes, wanted)
        names, ids = check_groups(sensitive_features, n, "sensitive_features")
        persons = check_clusters(clusters, n)
        rule = f"held-out sets need at least {MIN_ROWS}"
        check_enough_rows(names, ids, persons, least=MIN_ROWS, rule=rule)
        labelled = labels == wanted
        for g, name in enumerate(names):
            if len(np.unique(labelled[ids == g])) < 2:
                raise MetricError(
                    f"every row of group {name!r} has the same label: error rates need both labels "
                    "in every group; merge groups, or collect more rows"
                )
        weights = check_positive_weight(sample_weight, n)
        sources = y, sensitive_features
        return cls(decided, labelled, names, ids, weights, persons, classes[wanted], sources)

    def of_group(self, g: int) -> tuple[Bools, Floats | None, Positions | None]:
        """Which rows are of a group, their weights and their persons."""
        here = self.ids == g
        who = (
            None if self.persons is None else np.unique(self.persons[here], return_inverse=True)[1]
        )
        return here, some_of(self.weights, here), who

    @property
    def cells(self) -> Iterator[DecisionCells]:
        for g in range(len(self.names)):
            here, weights, who = self.of_group(g)
            yield DecisionCells.of(self.decided[here], self.labelled[here], weights, who)

    def refuse_copies(self) -> None:
        """Decisions that are the recorded ones, but for a few, cannot be judged by them."""
        repeated = self.decided == self.labelled
        share = min(repeated[self.labelled].mean(), repeated[~self.labelled].mean())
        if share >= COPIES:
            raise MetricError(
                f"decisions repeat the label in {repeated.mean():.1%} of the rows: they are the "
                "recorded ones or looked at them, and error rates against Df need decisions that "
                "did not; give those of a model that was made on other rows"
            )

    def ends(
        self,
        label_scores: npt.ArrayLike | None,
        x: npt.ArrayLike | TopSets | None,
        classifier: Any,
        n_seeds: int,
    ) -> list[list[HeldOutRates]]:
        """Held-out sets of every group, per way of splitting."""
        if label_scores is not None and x is None:
            return self._of_scores(check_scores(label_scores, "label_scores"), n_seeds)
        if x is not None and label_scores is None:
            return self._of_features(x, classifier, n_seeds)
        given = "neither was given" if x is None else "both were given"
        raise MetricError(
            f"label_scores and X: {given}; give held-out P(y = positive | x, s), or the features "
            "that a classifier learns them from"
        )

    def _of_scores(self, scores: Floats, n_seeds: int) -> list[list[HeldOutRates]]:
        """From scores that are held out."""
        if len(scores) != len(self.ids):
            raise MetricError(
                f"label_scores has {len(scores)} rows and decisions {len(self.ids)}: give as many"
            )
        found: list[list[HeldOutRates]] = []
        for g, name in enumerate(self.names):
            here, weights, who = self.of_group(g)
            hits, own = self.labelled[here].astype(np.float64), scores[here]
            each = []
            for seed in range(n_seeds):
                folds = deal(self.labelled[here].astype(np.intp), who, OUTER, _rng(seed))
                rest = folds, weights, who
                rates = held_out_rates(hits, own, *rest), held_out_rates(1 - hits, -own, *rest)
                each.append(HeldOutRates(name, *rates))
            found.append(each)
        return found

    def _of_features(
        self, x: npt.ArrayLike | TopSets, classifier: Any, n_seeds: int
    ) -> list[list[HeldOutRates]]:
        """From features, by classifiers that did not see the rows that are counted."""
        if isinstance(x, TopSets):
            tops = x  # of the same rows: a test has fitted the classifiers already
        else:
            tops = TopSets.of(
                x,
                *self.sources,
                positive=self.positive,
                classifier=classifier,
                seeds=range(n_seeds),
                clusters=self.persons,
                sample_weight=self.weights,
            )
        wanted = tops.classes.index(self.positive)
        return [
            [HeldOutRates(name, s.classes[wanted], s.classes[1 - wanted]) for s in splits]
            for name, splits in tops.splits.items()
        ]

    def refuse_training_rows(self, held: list[list[HeldOutRates]]) -> None:
        """Decisions whose rows are purer in labels than any held-out set looked at the labels.

        D of the rows with h = 0 is positive at least as often as b0, so that fewer positive labels
        than in held-out sets imply a true positive rate above 1; likewise for h = 1.
        """
        for g, (name, splits) in enumerate(zip(self.names, held, strict=True)):
            here, weights, who = self.of_group(g)
            for side in (False, True):
                rows = self.decided[here] == side
                if rows.sum() < MIN_ROWS:
                    continue
                hits = (self.labelled[here] == side)[rows].astype(np.float64)
                pure = rate_sample(hits, some_of(weights, rows), some_of(who, rows))
                tops = [(s.positive if side else s.negative).top for s in splits]
                tail = _SURE / (2 * len(held))
                most = [
                    1.0 if t is None else clopper_pearson(t.mean * t.size, t.size, tail)[1]
                    for t in tops
                ]
                least = clopper_pearson(pure.mean * pure.size, pure.size, tail)[0]
                if least > np.median(most):
                    raise MetricError(
                        f"decisions {int(side)} of group {name!r} repeat the label in "
                        f"{pure.mean:.1%} of the rows, held-out sets at most in "
                        f"{np.median(most):.1%}: the decisions looked at these labels, or these "
                        "rows trained the model; give rows that it had not seen"
                    )


def _rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def _decided(values: list[Any], classes: tuple[Any, ...], wanted: int) -> Bools:
    """Which decisions are positive: classes of the label, or 0 and 1."""
    there = set(values)
    if there <= set(classes):
        return np.array([value == classes[wanted] for value in values], np.bool_)
    if there <= {0, 1}:
        return np.array(values, np.bool_)
    odd = next(value for value in values if value not in classes)
    raise MetricError(
        f"decisions has the value {odd!r}: give 0 and 1, or the classes of y, {classes[0]!r} and "
        f"{classes[1]!r}; scores of a model go to scores"
    )
