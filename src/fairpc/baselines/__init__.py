"""Methods to compare with: the paper's classifiers, and fairlearn's threshold optimiser."""

from fairpc.baselines.base import Baseline
from fairpc.baselines.fair_lr import FairLR
from fairpc.baselines.fairlearn_models import Reduction, ThresholdOptimizer
from fairpc.baselines.logistic import LR
from fairpc.baselines.rand import Rand
from fairpc.baselines.reweight import Reweight

__all__ = ["LR", "Baseline", "FairLR", "Rand", "Reduction", "Reweight", "ThresholdOptimizer"]
