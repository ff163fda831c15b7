"""Several methods on the same folds: agreement with the label beside gaps between groups."""

from fairpc.baselines import default_baselines
from fairpc.comparison.run import Comparison, FoldScore, compare, default_models

__all__ = ["Comparison", "FoldScore", "compare", "default_baselines", "default_models"]
