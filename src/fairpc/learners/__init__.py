"""Weighted codes -> scores: design, folds, linear models, boosted trees, cross-fits."""

from fairpc.learners._folds import Fold, folds_of, read_folds, stratified_folds
from fairpc.learners._label_classifiers import (
    Chosen,
    Features,
    Learner,
    Own,
    chosen,
    design,
    distinct,
    few_threads,
    learners,
    one_thread,
    others,
)
from fairpc.learners._trees import Cells, Grower, Limits, Trees, places, stacked

__all__ = ["Cells", "Grower", "Limits", "Trees", "places", "stacked"]
