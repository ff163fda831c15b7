"""What data can decide and what they cannot: tests and intervals on plain arrays, for any model."""

from typing import TYPE_CHECKING

from fairpc.core import on_first_use

if TYPE_CHECKING:
    from fairpc.evidence._assumptions import test_assumptions as test_assumptions
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
    from fairpc.evidence._error_rates import error_rates as error_rates
    from fairpc.evidence._error_records import (
        THROUGH_DF,
        ErrorRates as ErrorRates,
        GroupErrorRates as GroupErrorRates,
        PairErrorRates as PairErrorRates,
        RateRange as RateRange,
        RecordedRates as RecordedRates,
        ScoreBin as ScoreBin,
        StratumErrorRates as StratumErrorRates,
    )
    from fairpc.evidence._gaps import (
        SMALL,
        GroupMean as GroupMean,
        PairGap as PairGap,
        PairWithin as PairWithin,
        Parity as Parity,
        ParityWithin as ParityWithin,
        StratumGap as StratumGap,
        parity as parity,
    )
    from fairpc.evidence._group_range import (
        FairRatePoint as FairRatePoint,
        GroupRange as GroupRange,
        LeastDifference as LeastDifference,
        MechanismRange as MechanismRange,
        fair_rate_point as fair_rate_point,
    )
    from fairpc.evidence._held_out_bounds import ANYTHING, LEVEL, Known, StratumBounds, around
    from fairpc.evidence._identified import (
        IdentifiedByStratum as IdentifiedByStratum,
        IdentifiedSet as IdentifiedSet,
        identified_set as identified_set,
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
        WithinBounds,
        label_bounds,
        read_bounds,
    )
    from fairpc.evidence._review_design import (
        ExpectedWidth as ExpectedWidth,
        ReviewDesign as ReviewDesign,
        either_way,
        expected_in_words,
        expected_widths as expected_widths,
        review_design as review_design,
    )
    from fairpc.evidence._review_estimates import (
        ReviewedDifference as ReviewedDifference,
        ReviewedRate as ReviewedRate,
        ReviewEstimates as ReviewEstimates,
        review_estimates as review_estimates,
    )
    from fairpc.evidence._review_rows import (
        check_draw,
        recalibrate_posterior as recalibrate_posterior,
        shifted,
    )
    from fairpc.evidence._review_tests import RatesTest as RatesTest, ReviewTest as ReviewTest
    from fairpc.evidence._strata import LeftOut as LeftOut
    from fairpc.evidence._test_records import (
        AlteredByFeatures as AlteredByFeatures,
        AssumptionTest as AssumptionTest,
        ClassBound as ClassBound,
        GroupBounds as GroupBounds,
        StratumTest as StratumTest,
        TestsByStratum as TestsByStratum,
    )
    from fairpc.evidence._thresholds import (
        EqualRates as EqualRates,
        GroupThreshold as GroupThreshold,
        equal_rates as equal_rates,
    )
    from fairpc.evidence._top_sets import Watch

__getattr__, __dir__ = on_first_use(__name__)
