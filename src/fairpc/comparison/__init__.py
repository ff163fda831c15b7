"""Several methods on the same folds: baselines, metrics, agreement beside gaps between groups."""

from fairpc.comparison._baseline_surface import Baseline as Baseline
from fairpc.comparison._baselines import LR as LR
from fairpc.comparison._baselines import Boosting as Boosting
from fairpc.comparison._baselines import FairLR as FairLR
from fairpc.comparison._baselines import Rand as Rand
from fairpc.comparison._baselines import Reduction as Reduction
from fairpc.comparison._baselines import ReweighedBoosting as ReweighedBoosting
from fairpc.comparison._baselines import Reweight as Reweight
from fairpc.comparison._baselines import ThresholdOptimizer as ThresholdOptimizer
from fairpc.comparison._baselines import default_baselines as default_baselines
from fairpc.comparison._baselines import every_baseline as every_baseline
from fairpc.comparison._by_group import FairnessGaps as FairnessGaps
from fairpc.comparison._by_group import GroupMetrics as GroupMetrics
from fairpc.comparison._by_group import MetricsByGroup as MetricsByGroup
from fairpc.comparison._by_group import MetricValue as MetricValue
from fairpc.comparison._by_group import PairMetrics as PairMetrics
from fairpc.comparison._by_group import by_group as by_group
from fairpc.comparison._by_group import fairness_gaps as fairness_gaps
from fairpc.comparison._compare import compare as compare
from fairpc.comparison._compare import default_models as default_models
from fairpc.comparison._compared import AGAINST_FAIR
from fairpc.comparison._compared import Comparison as Comparison
from fairpc.comparison._compared import FairRanges as FairRanges
from fairpc.comparison._compared import FoldScore as FoldScore
from fairpc.comparison._metrics import CalibrationBin as CalibrationBin
from fairpc.comparison._metrics import TestResult as TestResult
from fairpc.comparison._metrics import accuracy as accuracy
from fairpc.comparison._metrics import auc as auc
from fairpc.comparison._metrics import brier as brier
from fairpc.comparison._metrics import calibration as calibration
from fairpc.comparison._metrics import discrimination as discrimination
from fairpc.comparison._metrics import f1 as f1
from fairpc.comparison._metrics import group_means as group_means
from fairpc.comparison._metrics import largest_gap as largest_gap
from fairpc.comparison._metrics import mcnemar as mcnemar
from fairpc.comparison._metrics import mean_log_likelihood as mean_log_likelihood
from fairpc.comparison._metrics import rate_f1 as rate_f1
from fairpc.comparison._metrics import selection_rates as selection_rates
from fairpc.comparison._metrics import wilcoxon as wilcoxon
from fairpc.comparison._runner import typed_columns
from fairpc.learners import Fold as Fold
from fairpc.learners import folds_of as folds_of
from fairpc.learners import read_folds as read_folds
from fairpc.learners import stratified_folds as stratified_folds
