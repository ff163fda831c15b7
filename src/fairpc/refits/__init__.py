"""A fitted model fitted again: intervals of its mechanism, its stability, bent assumptions."""

from fairpc.refits.bending import Bent, Sensitivity, sensitivity
from fairpc.refits.bootstrap import MechanismIntervals, bootstrap_mechanism
from fairpc.refits.progress import Progress
from fairpc.refits.variation import Refit, Stability, stability

__all__ = [
    "Bent",
    "MechanismIntervals",
    "Progress",
    "Refit",
    "Sensitivity",
    "Stability",
    "bootstrap_mechanism",
    "sensitivity",
    "stability",
]
