"""Decisions beside recorded labels: checked rows, their held-out sets, and what is refused.

Rates against Df need decisions that did not look at the labels. Some that did show it: they repeat
the labels, or tell them better than sets of rows do that were chosen without them.
"""

from __future__ import annotations

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
from fairpc.evidence._strata import Mechanism, check_mechanism, check_strata
from fairpc.evidence._stratum_bounds import HeldOutRates
from fairpc.evidence._top_sets import OUTER, held_out_rates
from fairpc.learners import deal, design

COPIES: Final = 0.99
"""Share of both labels that decisions repeat where they are the labels."""
HeldOut = list[list[HeldOutRates]]
"""Held-out sets by group and way of splitting."""
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
    strata: tuple[Any, ...]  #: names of the strata; one, None, without any
    where: Positions  #: stratum of each row
    within: bool  #: whether strata have mechanisms of their own

    @classmethod
    def of(
        cls,
        decisions: npt.ArrayLike,
        y: npt.ArrayLike,
        sensitive_features: npt.ArrayLike,
        *,
        positive: Any,
        clusters: npt.ArrayLike | None,
        sample_weight: npt.ArrayLike | None,
        given: npt.ArrayLike | None,
        mechanism: Mechanism,
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
        weights = check_positive_weight(sample_weight, n)
        check_mechanism(mechanism, given)
        strata, where = check_strata(given, n)
        rest = names, ids, weights, persons, classes[wanted], strata, where, mechanism == "within"
        found = cls(decided, labels == wanted, *rest)
        found._check_labels()
        return found

    def _check_labels(self) -> None:
        """Both labels in every group and, if mechanisms are its own, in every stratum of it."""
        for a, here in enumerate(self.parts):
            inside = f" in stratum {self.strata[a]!r}" if self.within else ""
            for g, name in enumerate(self.names):
                own = self.labelled[here & (self.ids == g)]
                if self.within and len(own) < MIN_ROWS:
                    raise MetricError(
                        f"group {name!r} has {len(own)} rows{inside}: a mechanism of its own needs "
                        f"{MIN_ROWS}; merge strata or groups, or use mechanism='shared'"
                    )
                if len(np.unique(own)) < 2:
                    raise MetricError(
                        f"every row of group {name!r}{inside} has the same label: error rates need "
                        "both labels in every group; merge groups or strata, or collect more rows"
                    )

    @property
    def parts(self) -> list[Bools]:
        """Rows that share a mechanism within each group: all, or those of each stratum."""
        if self.within:
            return [self.where == a for a in range(len(self.strata))]
        return [np.ones(len(self.ids), np.bool_)]

    def of_part(self, here: Bools) -> DecisionRows:
        """Some rows, as a table without strata."""
        rows = (self.decided[here], self.labelled[here], self.names, self.ids[here])
        rest = some_of(self.weights, here), some_of(self.persons, here), self.positive
        return DecisionRows(*rows, *rest, (None,), np.zeros(int(here.sum()), np.intp), False)

    def of_group(self, g: int) -> tuple[Bools, Floats | None, Positions | None]:
        """Which rows are of a group, their weights and their persons."""
        here = self.ids == g
        who = (
            None if self.persons is None else np.unique(self.persons[here], return_inverse=True)[1]
        )
        return here, some_of(self.weights, here), who

    def cells(self, g: int) -> DecisionCells:
        """Decision by label of a group, in each stratum where these have their own mechanisms."""
        here, weights, who = self.of_group(g)
        strata = self.where[here] if self.within else None
        return DecisionCells.of(self.decided[here], self.labelled[here], weights, who, strata)

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
    ) -> list[HeldOut]:
        """Held-out sets of every part, group and way of splitting."""
        if (label_scores is None) == (x is None):
            given = "neither was given" if x is None else "both were given"
            raise MetricError(
                f"label_scores and X: {given}; give held-out P(y = positive | x, s), or the "
                "features that a classifier learns them from"
            )
        if label_scores is not None:
            scores = check_scores(label_scores, "label_scores")
            if len(scores) != len(self.ids):
                raise MetricError(
                    f"label_scores has {len(scores)} rows and decisions {len(self.ids)}: give as "
                    "many"
                )
            return [self.of_part(here)._of_scores(scores[here], n_seeds) for here in self.parts]
        if isinstance(x, TopSets):  # of the same rows: a test has fitted the classifiers already
            return [self._of_tops(x)]
        features = design(x)  # type: ignore[arg-type]
        if len(features) != len(self.ids):
            raise MetricError(
                f"X has {len(features)} rows and decisions {len(self.ids)}: give as many"
            )
        return [
            self.of_part(here)._of_features(features[here], classifier, n_seeds)
            for here in self.parts
        ]

    def _of_scores(self, scores: Floats, n_seeds: int) -> HeldOut:
        """From scores that are held out."""
        found: HeldOut = []
        for g, name in enumerate(self.names):
            here, weights, who = self.of_group(g)
            hits, own = self.labelled[here].astype(np.float64), scores[here]
            each = []
            for seed in range(n_seeds):
                rng = np.random.default_rng(seed)
                folds = deal(self.labelled[here].astype(np.intp), who, OUTER, rng)
                rest = folds, weights, who
                rates = held_out_rates(hits, own, *rest), held_out_rates(1 - hits, -own, *rest)
                each.append(HeldOutRates(name, *rates))
            found.append(each)
        return found

    def _of_features(self, x: Floats, classifier: Any, n_seeds: int) -> HeldOut:
        """From features, by classifiers that did not see the rows that are counted."""
        rest = {"clusters": self.persons, "sample_weight": self.weights}
        labels = self.labelled.astype(np.intp)
        seeds = range(n_seeds)
        tops = TopSets.of(x, labels, self.ids, classifier=classifier, seeds=seeds, **rest)
        return self._of_tops(tops, 1)

    def _of_tops(self, tops: TopSets, wanted: int | None = None) -> HeldOut:
        yes = tops.classes.index(self.positive) if wanted is None else wanted
        return [
            [HeldOutRates(name, s.classes[yes], s.classes[1 - yes]) for s in splits]
            for name, splits in zip(self.names, tops.splits.values(), strict=True)
        ]

    def refuse_training_rows(self, held: HeldOut) -> None:
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
