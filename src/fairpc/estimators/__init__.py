"""The models as scikit-learn classifiers, and their files."""

from fairpc.estimators.file import load
from fairpc.estimators.latent import LatentDecision
from fairpc.estimators.models import FairPC, LatNB, NLatPC, TwoNB

__all__ = ["FairPC", "LatNB", "LatentDecision", "NLatPC", "TwoNB", "load"]
