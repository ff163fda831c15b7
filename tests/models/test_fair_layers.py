"""EM of P(S), P(Df) and the mechanism alone, and the places of rows in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairpc.models import Rows
from fairpc.models._fit import Options, Structure, fit
from fairpc.models._soft_cells import DistinctRows
from fairpc.models._top_em import Places, TopRates, top_em
from models.tables import log_likelihood, random_rows


def test_upper_em_is_em_of_the_circuit_with_the_rest_fixed() -> None:
    """A first update from the same start: the same P(S), P(Df) and mechanism as by flows.

    With labels known: where they are not, flows fill them in, and this M-step leaves them out.
    """
    rows = random_rows(5, 200, 3, 2, 0.2)
    rows = rows.take(np.flatnonzero(rows.d >= 0))
    part = DistinctRows.of(rows)
    options = Options(structure=Structure("chow-liu"), max_iter=1, min_iter=0)
    start = fit("FairPC", rows, options=replace(options, max_iter=0)).distribution
    after = fit("FairPC", rows, options=options).distribution
    codes = start.layout.codes(part.places.s, None, part.rows.x[part.places.row])
    upper = start.top_rates
    densities = np.empty((len(codes), 2))
    for f in range(2):
        codes[:, 1] = f
        densities[:, f] = start.circuit.log_marginal(codes)
        densities[:, f] -= np.log(upper.group_rate[part.places.s] * upper.decision_rate[f])
    prior = TopRates(np.full(3, 1 / 3), np.full(2, 0.5), np.full((3, 2, 2), 0.5))
    steps = top_em(part.places, densities, upper, prior)
    first, second = next(steps), next(steps)
    assert first.log_likelihood == pytest.approx(
        float(rows.weights @ log_likelihood(start, rows)), abs=1e-8
    )
    np.testing.assert_allclose(second.rates.group_rate, after.group_rate, atol=1e-10)
    np.testing.assert_allclose(second.rates.decision_rate, after.decision_rate[0], atol=1e-10)
    np.testing.assert_allclose(second.rates.mechanism, after.mechanism, atol=1e-10)
    assert second.objective > first.objective


def test_places_of_rows_without_a_group() -> None:
    rows = Rows.of([0, 1, -1], [0, -1, 1], [[0], [1], [0]], n_groups=2, n_classes=2)
    places = Places.of(rows)
    assert places.row.tolist() == [0, 1, 2, 2]
    assert places.s.tolist() == [0, 1, 0, 1]
    logs, posterior = places.normalised(np.log([[0.1, 0.1], [0.2, 0.6], [0.1, 0.1], [0.1, 0.2]]))
    np.testing.assert_allclose(np.exp(logs), [0.2, 0.8, 0.5])
    np.testing.assert_allclose(posterior, [[0.5, 0.5], [0.25, 0.75], [0.2, 0.2], [0.2, 0.4]])
