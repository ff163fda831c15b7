"""What data can decide and what they cannot: tests and intervals on plain arrays, for any model."""

from typing import TYPE_CHECKING

from fairpc.core import on_first_use

if TYPE_CHECKING:
    from fairpc.evidence._assumptions import test_assumptions
    from fairpc.evidence._candidate_strata import (
        CandidateStrata,
        StrataComparison,
        compare_strata,
        compared,
    )
    from fairpc.evidence._chosen_sets import MIN_ROWS, TopSets
    from fairpc.evidence._decision_rows import COPIES
    from fairpc.evidence._drift import (
        DRIFT_FOLDS,
        DriftBounds,
        GroupRates,
        LabelFit,
        LabelledRows,
        classifier_scores,
        dealt,
        drift_bounds,
        group_rates,
        held_out_scores,
        label_fit,
    )
    from fairpc.evidence._error_rates import error_rates
    from fairpc.evidence._error_records import (
        THROUGH_DF,
        ErrorRates,
        GroupErrorRates,
        PairErrorRates,
        RateRange,
        RecordedRates,
        ScoreBin,
        StratumErrorRates,
    )
    from fairpc.evidence._gaps import (
        SMALL,
        GroupMean,
        PairGap,
        PairWithin,
        Parity,
        ParityCurve,
        ParityWithin,
        StratumGap,
        parity,
        parity_curve,
    )
    from fairpc.evidence._group_range import (
        NO_DELTA,
        FairRatePoint,
        GroupRange,
        LeastDifference,
        MechanismRange,
        fair_rate_point,
    )
    from fairpc.evidence._held_out_bounds import ANYTHING, LEVEL, Known, StratumBounds, around
    from fairpc.evidence._identified import (
        GroupWithin,
        IdentifiedByStratum,
        IdentifiedSet,
        IdentifiedWithin,
        StratumWithin,
        class_bounds,
        identified_set,
    )
    from fairpc.evidence._intervals import (
        Interval,
        Sample,
        clopper_pearson,
        mean_sample,
        quantile,
        rate_sample,
        some_of,
        wilson,
    )
    from fairpc.evidence._label_bounds import (
        LabelBounds,
        SharedBounds,
        WithinBounds,
        label_bounds,
        read_bounds,
    )
    from fairpc.evidence._monitor import MonitorGap, ParityMonitor
    from fairpc.evidence._review_design import (
        ExpectedWidth,
        ReviewDesign,
        either_way,
        expected_in_words,
        expected_widths,
        review_design,
    )
    from fairpc.evidence._review_estimates import (
        ReviewedDifference,
        ReviewedRate,
        ReviewEstimates,
        review_estimates,
    )
    from fairpc.evidence._review_rows import check_draw, recalibrate_posterior, shifted
    from fairpc.evidence._review_tests import RatesTest, ReviewTest
    from fairpc.evidence._strata import LeftOut
    from fairpc.evidence._test_records import (
        AlteredByFeatures,
        AlteredByFeatures as BentSet,  # kept for a release
        AssumptionTest,
        ClassBound,
        GroupBounds,
        GroupMechanism,
        StrataTest,
        StratumRates,
        StratumTest,
        TestsByStratum,
    )
    from fairpc.evidence._thresholds import (
        EqualRates,
        GroupOperatingPoint,
        GroupThreshold,
        Notion,
        ThresholdCurve,
        ThresholdPoint,
        equal_opportunity,
        equal_rates,
        equalised_odds,
        threshold_curve,
        thresholds_of,
    )
    from fairpc.evidence._top_sets import Watch

__all__ = [
    "AlteredByFeatures",
    "AssumptionTest",
    "BentSet",
    "CandidateStrata",
    "ClassBound",
    "EqualRates",
    "ErrorRates",
    "ExpectedWidth",
    "FairRatePoint",
    "GroupBounds",
    "GroupErrorRates",
    "GroupMean",
    "GroupMechanism",
    "GroupOperatingPoint",
    "GroupRange",
    "GroupThreshold",
    "GroupWithin",
    "IdentifiedByStratum",
    "IdentifiedSet",
    "IdentifiedWithin",
    "LeastDifference",
    "LeftOut",
    "MechanismRange",
    "MonitorGap",
    "PairErrorRates",
    "PairGap",
    "PairWithin",
    "Parity",
    "ParityCurve",
    "ParityMonitor",
    "ParityWithin",
    "RateRange",
    "RatesTest",
    "RecordedRates",
    "ReviewDesign",
    "ReviewEstimates",
    "ReviewTest",
    "ReviewedDifference",
    "ReviewedRate",
    "ScoreBin",
    "StrataComparison",
    "StrataTest",
    "StratumErrorRates",
    "StratumGap",
    "StratumRates",
    "StratumTest",
    "StratumWithin",
    "TestsByStratum",
    "ThresholdCurve",
    "ThresholdPoint",
    "class_bounds",
    "compare_strata",
    "equal_opportunity",
    "equal_rates",
    "equalised_odds",
    "error_rates",
    "expected_widths",
    "fair_rate_point",
    "identified_set",
    "parity",
    "parity_curve",
    "recalibrate_posterior",
    "review_design",
    "review_estimates",
    "test_assumptions",
]

__getattr__, __dir__ = on_first_use(__name__)
