"""Decisions beside recorded labels: checked rows, their held-out sets, and what is refused.

Rates against Df need decisions that did not look at the labels. Some that did show it: they repeat
the labels; their rows are purer in labels than any set that was chosen without them; or, among rows
that a held-out classifier scores alike, they still follow the label. The last has two explanations:
these rows trained the model, or it knows more than the features that were given. On real tables
the odds ratio was 1.6 to 2.9 for models of other rows, and from 8 on for trees, boosting and
forests on their training rows; a logistic regression hardly overfits, and shows 2.4.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
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
from fairpc.evidence._chosen_sets import MIN_ROWS, TopSets, check_two
from fairpc.evidence._drift import held_out_scores
from fairpc.evidence._error_sets import DecisionCells
from fairpc.evidence._held_out_bounds import HeldOutRates
from fairpc.evidence._intervals import (
    check_enough_rows,
    clopper_pearson,
    quantile,
    rate_sample,
    some_of,
)
from fairpc.evidence._strata import check_strata
from fairpc.evidence._top_sets import OUTER
from fairpc.learners import deal, design

COPIES: Final = 0.99
"""Share of both labels that decisions repeat where they are the labels."""
HeldOut = list[list[HeldOutRates]]
"""Held-out sets by group and way of splitting."""
_SURE: Final = 1e-4
"""Chance at most that decisions which did not see the labels are refused."""
_ODD: Final = 4.0
_TOO_ODD: Final = 20.0
"""Odds ratios of decision and label, among rows that are scored alike: doubtful, and refused."""
_MOST_BINS: Final = 40
_PER_BIN: Final = 50


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
    within: bool  #: whether strata were given: each has a mechanism of its own

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
    ) -> DecisionRows:
        classes, labels = check_classes("y", y)
        n = len(labels)
        check_two(classes, "error rates against Df need")
        wanted = 1 if positive is None else one_of("positive", positive, classes)
        decided = _decided(check_labels("decisions", decisions, n).tolist(), classes, wanted)
        names, ids = check_groups(sensitive_features, n, "sensitive_features")
        persons = check_clusters(clusters, n)
        rule = f"held-out sets need at least {MIN_ROWS}"
        check_enough_rows(names, ids, persons, least=MIN_ROWS, rule=rule)
        weights = check_positive_weight(sample_weight, n)
        strata, where = check_strata(given, n)
        rest = names, ids, weights, persons, classes[wanted], strata, where, given is not None
        found = cls(decided, labels == wanted, *rest)
        # Both labels in every group, and in every stratum of it.
        for a, here in enumerate(found.parts):
            inside = f" in stratum {strata[a]!r}" if found.within else ""
            for g, name in enumerate(names):
                own = found.labelled[here & (ids == g)]
                if found.within and len(own) < MIN_ROWS:
                    raise MetricError(
                        f"group {name!r} has {len(own)} rows{inside}: a mechanism of its own needs "
                        f"{MIN_ROWS}; merge strata or groups"
                    )
                if len(np.unique(own)) < 2:
                    raise MetricError(
                        f"every row of group {name!r}{inside} has the same label: error rates need "
                        "both labels in every group; merge groups or strata, or collect more rows"
                    )
        return found

    @property
    def parts(self) -> list[Bools]:
        """Rows that share a mechanism within each group: all, or with strata those of each."""
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
        """Decision by label of a group, with strata in each."""
        here, weights, who = self.of_group(g)
        strata = self.where[here] if self.within else None
        return DecisionCells.of(self.decided[here], self.labelled[here], weights, who, strata)

    @cached_property
    def every_cells(self) -> list[DecisionCells]:
        """Those of every group."""
        return [self.cells(g) for g in range(len(self.names))]

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
    ) -> tuple[list[HeldOut], Floats]:
        """Held-out sets of every part, group and way of splitting; and P(D = 1 | x, s) of rows."""
        tops = isinstance(x, TopSets)  # of the same rows: a test has fitted the classifiers already
        if (label_scores is None) if tops else ((label_scores is None) == (x is None)):
            given = "both were given" if label_scores is not None else "neither was given"
            raise MetricError(
                f"label_scores and X: {given}; give held-out P(y = positive | x, s), or the "
                "features that a classifier learns them from"
            )
        if label_scores is None:
            features = design(x)  # type: ignore[arg-type]
            self.check_length("X", features)
            labels, held = self.labelled.astype(np.intp), []
            scores = held_out_scores(features, labels, self.ids, self.weights, self.persons)
            for part in self.parts:
                # By classifiers that did not see the rows that are counted.
                rows = features[part], labels[part], self.ids[part]
                about: Any = {"clusters": some_of(self.persons, part), "classifier": classifier}
                about |= {"sample_weight": some_of(self.weights, part), "seeds": range(n_seeds)}
                held.append(self._of_tops(TopSets.of(*rows, **about), 1))
            return held, scores
        scores = check_scores(label_scores, "label_scores")
        self.check_length("label_scores", scores)
        if isinstance(x, TopSets):
            return [self._of_tops(x, x.classes.index(self.positive))], scores
        return [self.of_part(here)._of_scores(scores[here], n_seeds) for here in self.parts], scores

    def check_length(self, name: str, values: Floats) -> None:
        if len(values) != len(self.ids):
            raise MetricError(
                f"{name} has {len(values)} rows and decisions {len(self.ids)}: give as many"
            )

    def _of_scores(self, scores: Floats, n_seeds: int) -> HeldOut:
        """From scores that are held out."""
        found: HeldOut = []
        for g, name in enumerate(self.names):
            here, weights, who = self.of_group(g)
            hits, own = self.labelled[here].astype(np.float64), scores[here]
            seeds = map(np.random.default_rng, range(n_seeds))
            dealt = (deal(hits.astype(np.intp), who, OUTER, rng) for rng in seeds)
            found.append([HeldOutRates.of(name, hits, own, k, weights, who) for k in dealt])
        return found

    def _of_tops(self, tops: TopSets, yes: int) -> HeldOut:
        return [
            [HeldOutRates(name, s.classes[yes], s.classes[1 - yes]) for s in splits]
            for name, splits in zip(self.names, tops.splits.values(), strict=True)
        ]

    def refuse_training_rows(self, held: HeldOut) -> None:
        """Decisions whose rows are purer in labels than any held-out set looked at the labels.

        D of the rows with h = 0 is positive at least as often as b0, so that fewer positive labels
        than in held-out sets imply a true positive rate above 1; likewise for h = 1.
        """
        for g, splits in enumerate(held):
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
                        f"decisions repeat the label in {pure.mean:.1%} of the rows of a group "
                        f"that are decided alike, held-out sets at most in {np.median(most):.1%}: "
                        "the decisions looked at these labels, or these rows trained the model; "
                        "give rows that it had not seen"
                    )

    def odds_ratio(self, scores: Floats) -> tuple[float, float]:
        """Of decision and label among rows that are scored alike, and its lower limit.

        By Mantel and Haenszel over bins of the scores within groups; the limit is by Robins,
        Breslow and Greenland (1986).
        """
        agree, differ, spread = 0.5, 0.5, np.zeros(3)
        for cells in self._alike(scores):
            n = cells.sum()
            r, s = cells[0] * cells[3] / n, cells[1] * cells[2] / n
            p, q = (cells[0] + cells[3]) / n, (cells[1] + cells[2]) / n
            agree, differ = agree + r, differ + s
            spread += p * r, p * s + q * r, q * s
        parts = spread / (2 * np.array([agree**2, agree * differ, differ**2]))
        error = quantile(1 - _SURE) * math.sqrt(parts.sum())
        return agree / differ, math.exp(math.log(agree / differ) - error)

    def doubt(self, scores: Floats) -> str:
        """A sentence if decisions follow the label among rows that are scored alike; else "".

        Where they do so very closely, a MetricError.
        """
        odds, least = self.odds_ratio(scores)
        if least < _ODD:
            return ""
        found = (
            "among rows that a held-out classifier scores alike, the decisions still follow the "
            f"recorded label (odds ratio {odds:.0f}): either these rows trained the model, or it "
            "knows more than the features that were given"
        )
        if least < _TOO_ODD:
            return f"Check first: {found}. If they trained it, no range holds."
        raise MetricError(f"{found}; give rows that it had not seen, with the features it uses")

    def _alike(self, scores: Floats) -> Iterator[Floats]:
        """Decision by label of rows that are scored alike, a row per person."""
        once = np.arange(len(self.ids))
        if self.persons is not None:
            once = np.unique(self.persons, return_index=True)[1]
        for g in range(len(self.names)):
            rows = once[self.ids[once] == g]
            n_bins = max(1, min(_MOST_BINS, len(rows) // _PER_BIN))
            cuts = np.quantile(scores[rows], np.arange(1, n_bins) / n_bins)
            place = np.searchsorted(np.unique(cuts), scores[rows])
            cell = 4 * place + 2 * self.decided[rows] + self.labelled[rows]
            found = np.bincount(cell, minlength=4 * (place.max() + 1)).reshape(-1, 4)
            yield from found[found.sum(axis=1) > 0].astype(np.float64)


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
