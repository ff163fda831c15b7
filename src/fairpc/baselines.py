"""Methods to compare with: the paper's classifiers, boosting, fairlearn's threshold optimiser."""

from fairpc.comparison import (
    LR,
    Baseline,
    Boosting,
    FairLR,
    Rand,
    Reduction,
    ReweighedBoosting,
    Reweight,
    ThresholdOptimizer,
    default_baselines,
    every_baseline,
)
