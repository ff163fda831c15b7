"""What must be said of a fit by scores before anything else: contradictions, silent groups."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fairpc.core import ColumnWarning, counted, warn_caller
from fairpc.data import IDENTIFIES, Encoding, TableCoding, identifiers, leaving_out, warn_of_dropped
from fairpc.evidence import LEVEL, SharedBounds, WithinBounds
from fairpc.models._classifiers import TableClassifier
from fairpc.models._score_map import ScoreMap
from fairpc.models._score_map_fit import ScoredRows, is_constant
from fairpc.models._strata import Strata
from fairpc.models._strata_columns import NAMED, stratum_names

ERRORS: Final = 2.0
"""Standard errors by which a classifier must tell labels better than the groups' rates."""


def findings(found: ScoreMap, scored: ScoredRows, coding: TableCoding, strata: Strata) -> list[str]:
    """What must be said of a fit before anything else."""
    sentences = _contradiction(found, coding, strata)
    sentences += _silent_groups(found, scored, coding)
    if _gain(found, scored) < ERRORS:
        sentences.append(
            "The classifier tells the labels of rows that it has not seen no better than the rates "
            "of the groups do: scores of Df then say little; give features that tell decisions "
            "apart, or another classifier."
        )
    return sentences


def warn_of_identifiers(features: Encoding, classifier: Any) -> None:
    """Name identifiers that a classifier learns from, and columns that ours leaves out by itself.

    ``features`` says which columns a circuit would drop; a classifier is given the whole table.
    """
    apart = classifier.encoding_.dropped if isinstance(classifier, TableClassifier) else ()
    warn_of_dropped(apart)
    unused = {column.name for column in apart}
    for name, why in identifiers(features).items():
        if name in unused or why != IDENTIFIES:
            continue
        warn_caller(
            ColumnWarning(
                f"column {name!r} has a different value in every row, like an identifier, and the "
                f"classifier is given it: leave it out with {leaving_out([name])}"
            )
        )


def _contradiction(found: ScoreMap, coding: TableCoding, strata: Strata) -> list[str]:
    """A sentence where held-out labels leave nothing possible."""
    ends, tail = found.ends, "or what was stated as known is wrong."
    if isinstance(ends, SharedBounds):
        if ends.boxes(LEVEL) is not None:
            return []
        return [
            f"The labels contradict the assumptions ({LEVEL:.0%} confidence): within "
            f"{strata.n} strata, no mechanism that is the same in all of them fits the labels of "
            "every group; Df cannot be independent of the group within them, or labels are bent "
            f"differently in some, or depend on features otherwise than through Df, {tail}"
        ]
    if isinstance(ends, WithinBounds):
        empty = ends.rejected(LEVEL)
        if not empty:
            return []
        names = stratum_names(strata, coding)
        shown = "; ".join(names[a] for a in empty[:NAMED]) + ("; …" if len(empty) > NAMED else "")
        return [
            f"The labels contradict the assumptions ({LEVEL:.0%} confidence): in "
            f"{counted(len(empty), 'stratum', 'strata')} ({shown}) no P(Df = "
            f"{coding.labels.positive_class}) fits every group; Df cannot be independent of the "
            f"group there, or the label depends on features otherwise than through Df, {tail}"
        ]
    lower, upper = ends.rate_set(LEVEL)
    if lower <= upper:
        return []
    return [
        f"The labels contradict the assumptions ({LEVEL:.0%} confidence): no P(Df = "
        f"{coding.labels.positive_class}) fits every group, {lower:.3f} is the least that one "
        f"needs and {upper:.3f} the most that another allows; Df cannot be independent of the "
        f"group, or the label depends on features otherwise than through Df, {tail}"
    ]


def _silent_groups(found: ScoreMap, scored: ScoredRows, coding: TableCoding) -> list[str]:
    """A sentence for each group in which nothing tells fair decisions apart."""
    sentences = []
    for g, (ends, name) in enumerate(zip(found.ends.groups, coding.group_names, strict=True)):
        only = scored.rows.d[scored.groups == g]
        if 0 < ends.rate < 1 and not is_constant(scored, g):
            continue
        why = "the classifier gives all of its rows one score"
        if not 0 < ends.rate < 1:
            why = f"all of its labels are {coding.labels.classes[int(only[0])]}"
        sentences.append(
            f"Nothing tells the fair decisions of group {name} apart ({why}): its rows get "
            "P(Df) as their score, or nearly so; merge groups, or give more rows."
        )
    return sentences


def _gain(found: ScoreMap, scored: ScoredRows) -> float:
    """How labels of unseen rows go with the rank of their score in its group, in standard errors.

    Ranks, because scores are calibrated before they are used: overstated ones may rank well.
    """
    from scipy.stats import rankdata

    groups, w = scored.groups, scored.rows.weights
    ranks = np.empty(len(w))
    for g in range(len(found.shifts)):
        here = groups == g
        rank = rankdata(scored.scores[here]) / here.sum()
        ranks[here] = rank - np.average(rank, weights=w[here])
    rates = np.array([g.rate for g in found.ends.groups])[groups]
    each = w * (scored.labels - rates) * ranks
    error = float(np.sqrt((each * each).sum()))
    return float(each.sum()) / error if error > 0 else 0.0
