"""Scores, metrics by group, folds and tests on plain arrays, for any classifier."""

from fairpc.comparison import CalibrationBin as CalibrationBin
from fairpc.comparison import FairnessGaps as FairnessGaps
from fairpc.comparison import Fold as Fold
from fairpc.comparison import GroupMetrics as GroupMetrics
from fairpc.comparison import MetricsByGroup as MetricsByGroup
from fairpc.comparison import MetricValue as MetricValue
from fairpc.comparison import PairMetrics as PairMetrics
from fairpc.comparison import TestResult as TestResult
from fairpc.comparison import accuracy as accuracy
from fairpc.comparison import auc as auc
from fairpc.comparison import brier as brier
from fairpc.comparison import by_group as by_group
from fairpc.comparison import calibration as calibration
from fairpc.comparison import discrimination as discrimination
from fairpc.comparison import f1 as f1
from fairpc.comparison import fairness_gaps as fairness_gaps
from fairpc.comparison import folds_of as folds_of
from fairpc.comparison import group_means as group_means
from fairpc.comparison import largest_gap as largest_gap
from fairpc.comparison import mcnemar as mcnemar
from fairpc.comparison import mean_log_likelihood as mean_log_likelihood
from fairpc.comparison import rate_f1 as rate_f1
from fairpc.comparison import read_folds as read_folds
from fairpc.comparison import selection_rates as selection_rates
from fairpc.comparison import stratified_folds as stratified_folds
from fairpc.comparison import wilcoxon as wilcoxon
