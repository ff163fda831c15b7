"""A fitted model fitted again: intervals of its mechanism, its stability, bent assumptions."""

from fairpc.refits._sensitivity import Bent, Sensitivity, sensitivity
from fairpc.refits._stability import Refit, Stability, stability
from fairpc.refits.bootstrap import MechanismIntervals, bootstrap_mechanism
from fairpc.refits.workbench import Progress

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
