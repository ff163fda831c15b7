"""A fitted model fitted again: intervals of its mechanism, its stability."""

from fairpc.models import (
    MechanismIntervals as MechanismIntervals,
    Progress as Progress,
    Refit as Refit,
    Stability as Stability,
    bootstrap_mechanism as bootstrap_mechanism,
    stability as stability,
)
