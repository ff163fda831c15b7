"""What is assumed, what follows from it, and what does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fairpc.auditing.verdict import DISCLAIMER
from fairpc.estimators.base import CircuitClassifier

_LATENT: Final = (
    "The hidden decision Df is independent of the group S.",
    "The observed label D depends on the features X through Df and S only.",
    "In every group a label is likeliest under the hidden decision of the same name.",
)
_TIED: Final = ("The label D is independent of the group S under the model; there is no Df.",)
_FREE: Final = ("Nothing: P(S, D) is free, and the scores may depend on the group.",)
_LIMITS: Final = (
    "Equal mean scores under the model are not equal mean scores on rows, and neither is equal "
    "selection rates after a threshold.",
    "The equality holds where the group is known at prediction; where it is hidden it need not.",
    "The data fix the order of scores within a group, not their level or spread: mechanisms that "
    "differ fit equally well.",
    "Intervals cover chance in these rows. They do not cover rows that are not like the people "
    "the decisions are about, labels that mean something else, or features that stand in for "
    "what may not be used.",
    "Every number against the observed label inherits what is wrong with that label.",
    DISCLAIMER,
)


@dataclass(frozen=True)
class Limits:
    """Assumptions and limits in words.

    Attributes:
        assumptions: of the model.
        guaranteed: what holds exactly under them.
        limits: what does not follow.
    """

    assumptions: tuple[str, ...]
    guaranteed: tuple[str, ...]
    limits: tuple[str, ...]


def limits(model: CircuitClassifier) -> Limits:
    """The words for a model of this kind, and for what it was told beforehand."""
    layout = model.distribution_.layout
    if not layout.tied:
        return Limits(_FREE, (), _LIMITS)
    guaranteed = (
        "Under the model the mean of P(decision | X, S) is the same in every group, whatever was "
        "learned: the circuit shares one set of parameters for it.",
    )
    told = [f"Stated beforehand: {model.knowledge_}."] if model.knowledge_ else []
    if model.n_anchors_:
        told.append(f"The fair decision of {model.n_anchors_:,} training rows is known.")
    return Limits((*(_LATENT if layout.latent else _TIED), *told), guaranteed, _LIMITS)
