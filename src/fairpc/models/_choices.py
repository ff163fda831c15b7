"""What automatic selection chose and why: in numbers, in words, and as data of a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from fairpc.circuit import SLACK
from fairpc.core import Floats, LearningError, counted
from fairpc.learners import INFORMATIVE, WIDE
from fairpc.models._components import KINDS

SUM_TOLERANCE: Final = 1e-8


@dataclass(frozen=True)
class Choices:
    """The choices of a fit, each made on validation rows alone.

    Attributes:
        n_train, n_validation: rows that were fitted to, and rows that decided.
        strength: prior rows of every sum of a circuit, which shrink its parameters.
        mixture_strength: the same in a mixture of structures; nan where there was none.
        strength_scores: mean held-out log P(x | d, s) with each strength that was tried.
        start_scores: mean validation log-likelihood of each structure to start from.
        start: the one that was taken.
        single_score: mean validation log-likelihood of the single circuit per cell.
        mixture_gain, standard_error: what the mixture of structures has more per validation row
            than the single circuit, paired; nan where there was no mixture to compare.
        clusters_gain: what a mixture of clusters has more than that of structures; nan where
            there was none.
        components, weights: structure of each component and its weight; one without a mixture.
        dropped: components whose weight was too small to keep.
        refitted: whether the model was fitted again to training and validation rows together.
        interrupted: whether the fit was stopped before the selection had ended.
        label_score: mean log P(d | x, s) of rows that a plain classifier had not seen.
        label_gain, label_error: what it has more than circuits, paired, and its standard error.
        forest: whether a forest circuit was taken in place of circuits.
        drifted: whether it was taken because circuits failed the fit check.
        wide: whether one was taken because the table has too many columns for circuits.
        ruled: whether circuits were held to the point between the groups' recorded rates, which EM
            had left.
        turned: share of decisions that other draws of a forest would turn, as its trees differ.
    """

    n_train: int
    n_validation: int
    strength: float = np.nan
    mixture_strength: float = np.nan
    strength_scores: dict[float, float] = field(default_factory=dict)
    start_scores: dict[str, float] = field(default_factory=dict)
    start: str = ""
    single_score: float = np.nan
    mixture_gain: float = np.nan
    standard_error: float = np.nan
    clusters_gain: float = np.nan
    components: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()
    dropped: tuple[str, ...] = ()
    refitted: bool = False
    interrupted: bool = False
    label_score: float = np.nan
    label_gain: float = np.nan
    label_error: float = np.nan
    forest: bool = False
    drifted: bool = False
    wide: bool = False
    ruled: bool = False
    turned: float = np.nan

    def __post_init__(self) -> None:
        numbers = [*self.weights, *self.strength_scores, *self.strength_scores.values()]
        whole = (
            len(self.components) == len(self.weights)
            and bool(np.isfinite(numbers).all())
            and all(0 <= weight <= 1 + SLACK for weight in self.weights)
            and (not self.weights or abs(sum(self.weights) - 1) < SUM_TOLERANCE)
            and min(self.n_train, self.n_validation) >= 0
            and (self.start in self.start_scores if self.start_scores else not self.start)
        )
        words = {*self.components, *self.dropped, *self.start_scores}
        if not (whole and words <= {kind.words for kind in KINDS}):
            raise LearningError("the choices of the automatic selection do not fit each other")

    @property
    def sentences(self) -> tuple[str, ...]:
        """The same in words."""
        label: tuple[str, ...] = ()
        if np.isfinite(self.label_gain):
            taken = "A forest circuit was taken" if self.forest else "Circuits were taken"
            label = (
                f"{taken}: a plain classifier predicts the label of unseen rows with a mean "
                f"log-likelihood of {self.label_score:.4f}, {self.label_gain:+.4f} more than "
                f"circuits do (standard error {self.label_error:.4f}).",
            )
        if self.forest:
            parts = [f"{counted(self.n_train, 'row was', 'rows were')} fitted to.", *label]
            if self.drifted:
                parts.append(
                    "A forest circuit was taken, because the circuits failed the fit check."
                )
            if self.wide:
                parts.append(
                    "A forest circuit was taken without a comparison: there are over "
                    f"{WIDE} columns. In each fold the {INFORMATIVE} that predict the label best "
                    "were learned from."
                )
            if np.isfinite(self.turned):
                parts.append(
                    "Other draws of folds and trees would turn about "
                    f"{self.turned:.1%} of the decisions, as the trees differ."
                )
            return tuple(parts)
        return label + self._circuits

    @property
    def _circuits(self) -> tuple[str, ...]:
        """How the circuits were chosen, in words."""
        scores = "; ".join(f"{name}: {score:.4f}" for name, score in self.start_scores.items())
        parts = [
            f"{counted(self.n_train, 'row was', 'rows were')} fitted to, "
            f"{counted(self.n_validation, 'validation row')} decided.",
            f"Parameters are shrunk towards each cell's marginals by {self.strength:g} prior "
            f"{'row' if self.strength == 1 else 'rows'}.",
            f"The search for a structure began with {self.start} (validation log-likelihood: "
            f"{scores}).",
        ]
        if np.isfinite(self.mixture_gain):
            taken = "was taken" if len(self.components) + len(self.dropped) > 1 else "was left"
            parts.append(
                f"A mixture {taken}: its log-likelihood is {self.mixture_gain:+.4f} a validation "
                f"row (standard error {self.standard_error:.4f}) on a single circuit per cell."
            )
        if np.isfinite(self.clusters_gain):
            taken = "were taken" if self.clusters_gain > 0 else "were left"
            parts.append(
                f"Clusters of rows {taken}: their log-likelihood is {self.clusters_gain:+.4f} a "
                "validation row more than that of a mixture of structures."
            )
        shares = [f"{w:.0%} {c}" for c, w in zip(self.components, self.weights, strict=True)]
        parts.append(f"Structure of P(x | Df, S): {'; '.join(shares)}.")
        if self.dropped:
            dropped = "; ".join(self.dropped)
            parts.append(f"Components of too little weight were dropped: {dropped}.")
        if self.ruled:
            parts.append(
                "The fair rate was held between the groups' recorded rates, and the mechanism with "
                "it: EM alone had left them, though the labels allow it."
            )
        if self.refitted:
            parts.append("The chosen model was fitted again to training and validation rows.")
        if self.interrupted:
            parts.append("The fit was interrupted: this is the best model up to then.")
        return tuple(part.replace("as in Strudel", "as in the paper") for part in parts)

    def __str__(self) -> str:
        return "\n".join(self.sentences)


def paired_gain(
    better: Floats, than: Floats, weights: Floats, n_rows: float
) -> tuple[float, float]:
    """Mean difference of log-likelihoods of the same rows, and its standard error.

    ``weights`` are of distinct rows, ``n_rows`` is the number of rows that they stand for.
    """
    used = weights > 0
    share, difference = weights[used] / weights[used].sum(), better[used] - than[used]
    mean = float(share @ difference)
    variance = float(share @ (difference - mean) ** 2)
    return mean, float(np.sqrt(variance / max(n_rows - 1.0, 1.0)))
