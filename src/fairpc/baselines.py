"""Methods to compare with: the paper's classifiers, and fairlearn's threshold optimiser."""

from fairpc.comparison import (
    LR,
    Baseline,
    FairLR,
    Rand,
    Reduction,
    Reweight,
    ThresholdOptimizer,
    default_baselines,
)

__all__ = [
    "LR",
    "Baseline",
    "FairLR",
    "Rand",
    "Reduction",
    "Reweight",
    "ThresholdOptimizer",
    "default_baselines",
]
