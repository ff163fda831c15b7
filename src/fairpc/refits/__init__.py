"""A fitted model fitted again: intervals of its mechanism, its stability, bent assumptions."""

from fairpc.refits._sensitivity import Bent, Sensitivity, sensitivity
from fairpc.refits._stability import Refit, Stability, stability
from fairpc.refits.anchors import AnchorCell, AnchorPlan, WidthAfter, suggest_anchors
from fairpc.refits.bootstrap import MechanismIntervals, bootstrap_mechanism
from fairpc.refits.workbench import Progress

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
