"""A fitted model fitted again: intervals of its mechanism, its stability, bent assumptions."""

from fairpc.models import (
    AnchorCell,
    AnchorPlan,
    Bent,
    MechanismIntervals,
    Progress,
    Refit,
    Sensitivity,
    Stability,
    WidthAfter,
    bootstrap_mechanism,
    sensitivity,
    stability,
    suggest_anchors,
)

__all__ = [
    "AnchorCell",
    "AnchorPlan",
    "Bent",
    "MechanismIntervals",
    "Progress",
    "Refit",
    "Sensitivity",
    "Stability",
    "WidthAfter",
    "bootstrap_mechanism",
    "sensitivity",
    "stability",
    "suggest_anchors",
]
