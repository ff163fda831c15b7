"""Methods to compare with: the paper's classifiers, and fairlearn's threshold optimiser."""

from importlib.util import find_spec

from fairpc.baselines.base import Baseline
from fairpc.baselines.models import LR, FairLR, Rand, Reduction, Reweight, ThresholdOptimizer

__all__ = [
    "LR",
    "Baseline",
    "FairLR",
    "Rand",
    "Reduction",
    "Reweight",
    "ThresholdOptimizer",
    "default_baselines",
]


def default_baselines(random_state: int = 0) -> dict[str, Baseline]:
    """LR, Rand, FairLR, Reweight; Reduction where fairlearn is installed."""
    found = [LR(), Rand(random_state=random_state), FairLR(), Reweight()]
    if find_spec("fairlearn") is not None:
        found.append(Reduction())
    return {type(model).__name__: model for model in found}
