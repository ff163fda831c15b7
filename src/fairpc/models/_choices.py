"""What automatic selection chose and why: in numbers, in words, and as data of a file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairpc.core import LearningError, counted
from fairpc.learners import INFORMATIVE, WIDE


@dataclass(frozen=True)
class Choices:
    """What was chosen in a fit.

    Attributes:
        n_rows: rows that the structure was learned from.
        interrupted: whether the fit was stopped before structural EM had ended.
        label_score: mean log P(d | x, s) of rows that a plain classifier had not seen.
        label_gain, label_error: what it has more than circuits, paired, and its standard error.
        forest: whether a forest circuit was taken in place of circuits.
        drifted: whether it was taken because circuits failed the fit check.
        wide: whether one was taken because the table has too many columns for circuits.
        ruled: whether circuits were held to the point between the groups' recorded rates, which EM
            had left.
        turned: share of decisions that other draws of a forest would turn, as its trees differ.
    """

    n_rows: int
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
        if self.n_rows < 0:
            raise LearningError("the choices of the automatic selection have fewer than 0 rows")

    @property
    def sentences(self) -> tuple[str, ...]:
        """The same in words."""
        parts = [f"{counted(self.n_rows, 'row was', 'rows were')} fitted to."]
        if np.isfinite(self.label_gain):
            taken = "A forest circuit was taken" if self.forest else "Circuits were taken"
            parts.append(
                f"{taken}: a plain classifier predicts the label of unseen rows with a mean "
                f"log-likelihood of {self.label_score:.4f}, {self.label_gain:+.4f} more than "
                f"circuits do (standard error {self.label_error:.4f})."
            )
        return (*parts, *(self._forest if self.forest else self._circuits))

    @property
    def _forest(self) -> tuple[str, ...]:
        """Why a forest circuit was taken, in words."""
        parts = []
        if self.drifted:
            parts.append("A forest circuit was taken, because the circuits failed the fit check.")
        if self.wide:
            parts.append(
                f"A forest circuit was taken without a comparison: there are over {WIDE} columns. "
                f"In each fold the {INFORMATIVE} that predict the label best were learned from."
            )
        if np.isfinite(self.turned):
            parts.append(
                f"Other draws of folds and trees would turn about {self.turned:.1%} of the "
                "decisions, as the trees differ."
            )
        return tuple(parts)

    @property
    def _circuits(self) -> tuple[str, ...]:
        """What circuits there are, in words."""
        parts = ["Structure of P(x | Df, S): a tree for each cell, split by gain."]
        if self.interrupted:
            parts = [
                "The fit was interrupted: P(x | Df, S) are the trees that structural EM starts "
                "from, learned with the recorded label in place of Df."
            ]
        if self.ruled:
            parts.append(
                "The fair rate was held between the groups' recorded rates, and the mechanism with "
                "it: EM alone had left them, though the labels allow it."
            )
        return tuple(parts)

    def __str__(self) -> str:
        return "\n".join(self.sentences)
