"""Weighted codes -> scores: design, folds, linear models, boosted trees, cross-fits, files."""

from typing import TYPE_CHECKING

from fairpc.core import on_first_use

if TYPE_CHECKING:
    from fairpc.learners._boosting import BoostedOdds
    from fairpc.learners._calibration import (
        KNOT_ROWS,
        LEAST,
        Calibration,
        calibrate,
        kish,
        steps_along,
    )
    from fairpc.learners._cross_fit import (
        Chosen,
        Features,
        Learner,
        Own,
        chosen,
        few_threads,
        learners,
        others,
    )
    from fairpc.learners._design import (
        CLASSIFIER_KINDS,
        INFORMATIVE,
        WIDE,
        ClassifierKind,
        Edges,
        EncodedTable,
        coded_columns,
        design,
        distinct,
        encoded_matrix,
        encoded_sizes,
        fit_encoding,
        indicators,
        informative_columns,
    )
    from fairpc.learners._folds import Fold, deal, stratified_folds
    from fairpc.learners._linear import AlteredLabels, LinearOdds, additive_scores, softmax
    from fairpc.learners._saved import (
        Learned,
        SavedLinear,
        SavedTrees,
        corrected_boosting,
        corrected_linear,
        learn_boosting,
        learn_forest,
        learn_linear,
    )

__getattr__, __dir__ = on_first_use(__name__)
