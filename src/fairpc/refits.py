"""A fitted model fitted again: intervals of its mechanism, its stability."""

from fairpc.models import (
    MechanismIntervals,
    Progress,
    Refit,
    Stability,
    bootstrap_mechanism,
    stability,
)
