"""Several methods on the same folds: baselines, metrics, agreement beside gaps between groups."""

from fairpc.comparison._baseline_surface import Baseline as Baseline
from fairpc.comparison._baselines import (
    LR as LR,
    Boosting as Boosting,
    FairLR as FairLR,
    Rand as Rand,
    Reduction as Reduction,
    ReweighedBoosting as ReweighedBoosting,
    Reweight as Reweight,
    ThresholdOptimizer as ThresholdOptimizer,
    every_baseline as every_baseline,
)
from fairpc.comparison._compare import compare as compare
from fairpc.comparison._compared import (
    Comparison as Comparison,
    FairRanges as FairRanges,
)
from fairpc.comparison._metrics import (
    accuracy as accuracy,
    auc as auc,
    discrimination as discrimination,
    f1 as f1,
    group_means as group_means,
    largest_gap as largest_gap,
    rate_f1 as rate_f1,
)
from fairpc.comparison._runner import typed_columns
from fairpc.learners import Fold as Fold, stratified_folds as stratified_folds
