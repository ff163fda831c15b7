"""Several methods on the same folds: baselines, metrics, agreement beside gaps between groups."""

from fairpc.comparison._baseline_surface import Baseline
from fairpc.comparison._baselines import (
    LR,
    FairLR,
    Rand,
    Reduction,
    Reweight,
    ThresholdOptimizer,
    default_baselines,
)
from fairpc.comparison._compare import Comparison, FoldScore, compare, default_models
from fairpc.comparison._runner import typed_columns
from fairpc.comparison._scores import (
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
from fairpc.learners import Fold, folds_of, read_folds, stratified_folds

__all__ = [
    "LR",
    "Baseline",
    "CalibrationBin",
    "Comparison",
    "FairLR",
    "Fold",
    "FoldScore",
    "Rand",
    "Reduction",
    "Reweight",
    "TestResult",
    "ThresholdOptimizer",
    "accuracy",
    "auc",
    "brier",
    "calibration",
    "compare",
    "default_baselines",
    "default_models",
    "discrimination",
    "f1",
    "folds_of",
    "group_means",
    "largest_gap",
    "mcnemar",
    "mean_log_likelihood",
    "rate_f1",
    "read_folds",
    "selection_rates",
    "stratified_folds",
    "wilcoxon",
]
