"""Gradient boosting by histograms, for losses of one's own.

A caller has the loss, and gives its derivatives; a tree of them is grown here. The learners of Df
(:mod:`fairpc.fair.learners`) and the test of the assumptions (:mod:`fairpc.evidence.boosting`)
boost with it.
"""

from fairpc.boosting.trees import Cells, Grower, Limits, Trees, places, stacked

__all__ = ["Cells", "Grower", "Limits", "Trees", "places", "stacked"]
