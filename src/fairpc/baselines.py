"""Methods to compare with: the paper's classifiers, boosting, fairlearn's threshold optimiser."""

from fairpc.comparison import LR as LR
from fairpc.comparison import Baseline as Baseline
from fairpc.comparison import Boosting as Boosting
from fairpc.comparison import FairLR as FairLR
from fairpc.comparison import Rand as Rand
from fairpc.comparison import Reduction as Reduction
from fairpc.comparison import ReweighedBoosting as ReweighedBoosting
from fairpc.comparison import Reweight as Reweight
from fairpc.comparison import ThresholdOptimizer as ThresholdOptimizer
from fairpc.comparison import default_baselines as default_baselines
from fairpc.comparison import every_baseline as every_baseline
