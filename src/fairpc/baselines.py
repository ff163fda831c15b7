"""Methods to compare with: the paper's classifiers, boosting, fairlearn's threshold optimiser."""

from fairpc.comparison import (
    LR as LR,
    Baseline as Baseline,
    Boosting as Boosting,
    FairLR as FairLR,
    Rand as Rand,
    Reduction as Reduction,
    ReweighedBoosting as ReweighedBoosting,
    Reweight as Reweight,
    ThresholdOptimizer as ThresholdOptimizer,
    default_baselines as default_baselines,
    every_baseline as every_baseline,
)
