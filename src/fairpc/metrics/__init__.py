"""Scores, folds and tests on plain arrays, for any classifier."""

from fairpc.metrics.folds import Fold, folds_of, read_folds, stratified_folds
from fairpc.metrics.scores import (
    CalibrationBin,
    accuracy,
    auc,
    brier,
    calibration,
    discrimination,
    f1,
    group_means,
    largest_gap,
    mean_log_likelihood,
    rate_f1,
    selection_rates,
)
from fairpc.metrics.significance import TestResult, mcnemar, wilcoxon

__all__ = [
    "CalibrationBin",
    "Fold",
    "TestResult",
    "accuracy",
    "auc",
    "brier",
    "calibration",
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
