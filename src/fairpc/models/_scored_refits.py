"""What of a LatentDecision is learned again: all that follows from scores of its classifiers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from fairpc.core import Floats, LearningError, counted
from fairpc.models._knowledge import limits_of_coding
from fairpc.models._latent import LatentDecision
from fairpc.models._refit_plan import OfModel
from fairpc.models._rows import Rows
from fairpc.models._score_map import ScoreMap
from fairpc.models._score_map_fit import ScoredRows, fit_score_map
from fairpc.models._top import Limits


@dataclass(frozen=True, eq=False)
class ScoredSubject(OfModel):
    """A fitted LatentDecision, and its training rows with cross-fitted scores."""

    model: LatentDecision
    scored: ScoredRows

    @classmethod
    def of(
        cls,
        model: LatentDecision,
        X: Any,
        y: Any,
        sensitive_features: Any = None,
        sample_weight: npt.ArrayLike | None = None,
        fair_labels: Any = None,
        clusters: npt.ArrayLike | None = None,
    ) -> ScoredSubject:
        """Of the rows of the fit, in their order."""
        scored = model.cross_fitted(
            X,
            y,
            sensitive_features=sensitive_features,
            sample_weight=sample_weight,
            clusters=clusters,
            fair_labels=fair_labels,
        )
        return cls(model, scored)

    def __post_init__(self) -> None:
        if self.model.n_anchors_ and self.rows.f is None:
            raise LearningError(
                f"the model was fitted with {counted(self.model.n_anchors_, 'fair label')} and "
                "none are given here: pass the same fair_labels"
            )

    @property
    def rows(self) -> Rows:
        return self.scored.rows

    @property
    def named(self) -> bool:
        """P(D = positive) is larger where Df is positive, so no value of Df is another's."""
        return True

    @property
    def mechanism(self) -> Floats:
        return self.model.bias_mechanism_

    @property
    def fair_rate(self) -> Floats:
        return self.model.fair_rate_

    def without_anchors(self) -> ScoredSubject:
        """The same, as if no fair decision were known."""
        return replace(self, scored=replace(self.scored, rows=self.rows.with_fair_decisions(None)))

    def observed(self) -> Floats:
        """P(D = positive | x, s) of each row, by a classifier that had not seen it."""
        return self.model.score_map_.observed(self.scored.last, self.scored.groups)

    @property
    def limits(self) -> Limits | None:
        """The knowledge that the model was fitted with, if any."""
        return limits_of_coding(self.model.knowledge_, self.model.coding_)

    def learned(self, scored: ScoredRows, limits: Limits | None) -> ScoreMap:
        """Calibration, held-out ends, P(Df) and mechanism of scored rows."""
        calibration, select = self.model.calibration, self.model.select
        return fit_score_map(
            scored, self.groups, calibration=calibration, select=select, limits=limits
        )

    def refused(self) -> str | None:
        """Why draws would say nothing of the mechanism; None where they do."""
        if self.model.warnings_:
            return f"The fit warned: {self.model.warnings_[0]}"
        if self.model.score_map_.straight:
            return (
                "The labels do not reject D = Df, so that was kept: an interval around it would "
                "look more certain than it is. See predict_bounds for what is open."
            )
        return None
