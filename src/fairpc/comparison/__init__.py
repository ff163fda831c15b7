"""Several methods on the same folds: baselines, metrics, agreement beside gaps between groups."""

from fairpc.comparison._baseline_surface import Baseline
from fairpc.comparison._baselines import (
    LR,
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
from fairpc.comparison._by_group import (
    FairnessGaps,
    GroupMetrics,
    MetricsByGroup,
    MetricValue,
    PairMetrics,
    by_group,
    fairness_gaps,
)
from fairpc.comparison._compare import compare, default_models
from fairpc.comparison._compared import AGAINST_FAIR, Comparison, FairRanges, FoldScore
from fairpc.comparison._metrics import (
    CalibrationBin,
    TestResult,
    accuracy,
    auc,
    brier,
    calibration,
    discrimination,
    f1,
    group_means,
    largest_gap,
    mcnemar,
    mean_log_likelihood,
    rate_f1,
    selection_rates,
    wilcoxon,
)
from fairpc.comparison._runner import typed_columns
from fairpc.learners import Fold, folds_of, read_folds, stratified_folds
