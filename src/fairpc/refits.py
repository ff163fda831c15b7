"""A fitted model fitted again: intervals of its mechanism, its stability, bent assumptions."""

from fairpc.models import (
    Bent,
    MechanismIntervals,
    Progress,
    Refit,
    Sensitivity,
    Stability,
    bootstrap_mechanism,
    sensitivity,
    stability,
)

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
