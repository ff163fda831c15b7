"""What data can decide and what they cannot: tests and intervals on plain arrays, for any model."""

from fairpc.evidence.assumptions import (
    AssumptionTest,
    BentSet,
    ClassBound,
    GroupBounds,
    test_assumptions,
)
from fairpc.evidence.assumptions_within import (
    GroupMechanism,
    StrataTest,
    StratumRates,
    StratumTest,
    TestsByStratum,
)
from fairpc.evidence.candidate_strata import CandidateStrata, StrataComparison, compare_strata
from fairpc.evidence.gaps import GroupMean, PairGap, Parity, ParityCurve, parity, parity_curve
from fairpc.evidence.gaps_within import PairWithin, ParityWithin, StratumGap
from fairpc.evidence.identified import (
    GroupRange,
    IdentifiedSet,
    MechanismRange,
    class_bounds,
    identified_set,
)
from fairpc.evidence.identified_within import (
    GroupWithin,
    IdentifiedByStratum,
    IdentifiedWithin,
    StratumWithin,
)
from fairpc.evidence.monitor import MonitorGap, ParityMonitor
from fairpc.evidence.strata import LeftOut
from fairpc.evidence.thresholds import EqualRates, GroupThreshold, equal_rates

__all__ = [
    "AssumptionTest",
    "BentSet",
    "CandidateStrata",
    "ClassBound",
    "EqualRates",
    "GroupBounds",
    "GroupMean",
    "GroupMechanism",
    "GroupRange",
    "GroupThreshold",
    "GroupWithin",
    "IdentifiedByStratum",
    "IdentifiedSet",
    "IdentifiedWithin",
    "LeftOut",
    "MechanismRange",
    "MonitorGap",
    "PairGap",
    "PairWithin",
    "Parity",
    "ParityCurve",
    "ParityMonitor",
    "ParityWithin",
    "StrataComparison",
    "StrataTest",
    "StratumGap",
    "StratumRates",
    "StratumTest",
    "StratumWithin",
    "TestsByStratum",
    "class_bounds",
    "compare_strata",
    "equal_rates",
    "identified_set",
    "parity",
    "parity_curve",
    "test_assumptions",
]
