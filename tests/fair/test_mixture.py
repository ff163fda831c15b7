"""Components mixed inside each cell."""

from __future__ import annotations

import numpy as np

from fair.tables import SHORT, biased_rows
from fairpc.fair.recipe import Stage, fit_auto


def test_a_mixture_has_the_weights_it_was_given() -> None:
    rows = biased_rows(17, 300)
    stages: list[Stage] = []
    fitted = fit_auto(rows, options=SHORT, n_components=3, refit=False, callback=stages.append)
    m = fitted.distribution
    assert m.layout.component is not None
    nothing = np.full((1, len(m.layout.variables)), -1)
    shares = m.circuit.posterior(m.layout.component, nothing)[0]
    np.testing.assert_allclose(shares, fitted.choices.weights, atol=1e-12)
    if not fitted.choices.clusters_gain > 0:
        assert fitted.choices.components[0] == "a tree for each cell, split by gain"
