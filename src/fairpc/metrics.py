"""Scores and folds on plain arrays, for any classifier."""

from fairpc.comparison import (
    Fold as Fold,
    accuracy as accuracy,
    auc as auc,
    discrimination as discrimination,
    f1 as f1,
    group_means as group_means,
    largest_gap as largest_gap,
    rate_f1 as rate_f1,
    stratified_folds as stratified_folds,
)
