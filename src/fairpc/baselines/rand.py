"""Random scores: no discrimination, no use."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fairpc.baselines.base import Baseline, Sensitive
from fairpc.errors.arrays import Floats, Ints


class Rand(Baseline):
    """Scores drawn uniformly, whatever the row (the paper's Rand).

    With two classes the score of the second is uniform on [0, 1]; with more,
    scores are uniform on the simplex. They mean nothing. The same seed and
    number of rows give the same scores.

    Args:
        sensitive: columns of X that are the sensitive attribute; ignored.
        random_state: seed.
    """

    use_sensitive = False
    _groups_required: ClassVar[bool] = False
    _any_classes: ClassVar[bool] = True

    def __init__(self, *, sensitive: Sensitive = None, random_state: int | None = None) -> None:
        self.sensitive = sensitive
        self.random_state = random_state

    def _fit(self, matrix: Floats, codes: Ints, groups: Ints) -> None:
        """There is nothing to learn."""

    def _scores(self, matrix: Floats, groups: Ints) -> Floats:
        rng = np.random.default_rng(self.random_state)
        return rng.dirichlet(np.ones(len(self.classes_)), len(matrix))
