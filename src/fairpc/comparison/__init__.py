"""Several methods on the same folds: agreement with the label beside gaps between groups."""

from fairpc.comparison.methods import default_baselines, default_models
from fairpc.comparison.record import Comparison, FoldScore
from fairpc.comparison.run import compare

__all__ = ["Comparison", "FoldScore", "compare", "default_baselines", "default_models"]
