"""A fitted model fitted again: intervals of its mechanism, its stability."""

from fairpc.models import MechanismIntervals as MechanismIntervals
from fairpc.models import Progress as Progress
from fairpc.models import Refit as Refit
from fairpc.models import Stability as Stability
from fairpc.models import bootstrap_mechanism as bootstrap_mechanism
from fairpc.models import stability as stability
