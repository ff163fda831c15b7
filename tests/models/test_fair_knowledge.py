"""Prior knowledge: bounds that EM keeps, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from fairpc.circuit import laplace, maximize
from fairpc.data import fit_groups
from fairpc.datasets import make_synthetic
from fairpc.errors import LearningError
from fairpc.models import Rows
from fairpc.models._fit import Fitted, Options, fit
from fairpc.models._knowledge import Knowledge
from fairpc.models._selection import fit_auto
from fairpc.models._soft_cells import cell_posterior
from fairpc.models._top_em import Limits, Places, TopRates
from models.tables import random_rows, rows_of_any_kind
from strategies import examples

GROUPS = fit_groups({"sex": ["F", "M"]})
NUMBERED = fit_groups([0, 1])
CLASSES = ("bad", "good")


def random_limits(seed: int, n_groups: int, n_classes: int) -> Limits:
    """Boxes around a random P(Df) and mechanism, some sides at 0, at 1, or without width."""
    rng = np.random.default_rng(seed)

    def box(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        inside = rng.dirichlet(np.ones(n_classes), shape)
        lower = inside * rng.random(inside.shape) * (rng.random(inside.shape) < 0.6)
        upper = inside + (1 - inside) * rng.random(inside.shape)
        return lower, np.where(rng.random(inside.shape) < 0.4, 1.0, upper)

    return Limits(*box(()), *box((n_groups, n_classes)))


def kept(limits: Limits, fitted: Fitted) -> bool:
    m = fitted.distribution
    return limits.allow(m.decision_rate[0], m.mechanism) and all(
        limits.allow(m.decision_rate[0], mechanism) for mechanism in fitted.history["mechanism"]
    )


@settings(max_examples=examples(60))
@given(rows_of_any_kind(), st.integers(0, 2**31))
def test_bounds_are_kept_and_the_objective_never_falls(rows: Rows, seed: int) -> None:
    limits = random_limits(seed, rows.n_groups, rows.n_classes)
    for model in ("FairPC", "LatNB"):
        fitted = fit(model, rows, options=Options(max_iter=12, tol=0, limits=limits))
        history = fitted.history["objective"]
        assert (np.diff(history) > -1e-9 * np.abs(history[:-1])).all()
        assert kept(limits, fitted)
        assert fitted.distribution.parity_gap().max() < 1e-9


@settings(max_examples=examples(40))
@given(rows_of_any_kind(), st.integers(0, 2**31))
def test_the_upper_layers_have_the_update_of_the_circuit(rows: Rows, seed: int) -> None:
    """EM over the upper layers alone and EM over all: the same M-step, and bounds.

    With labels known: where they are not, flows fill them in, and the upper layers leave them out.
    """
    rows = rows.take(np.flatnonzero(rows.d >= 0))
    assume(rows.n_rows)
    limits = random_limits(seed, rows.n_groups, rows.n_classes)
    m = fit("FairPC", rows, options=Options(max_iter=2, tol=0)).distribution
    graph, k = m.circuit.graph, rows.n_classes
    _, flows = rows.plan(m.circuit, m.layout)(m.circuit.parameters)
    bounds = limits.bounds(graph, m.layout)
    theta = maximize(graph, flows, laplace(graph, 1.0), m.circuit.parameters, bounds)
    places = Places.of(rows)
    posterior = cell_posterior(m, rows, places)
    n = rows.n_groups
    prior = TopRates(np.full(n, 1 / n), np.full(k, 1 / k), np.full((n, k, k), 1 / k))
    upper = m.top_rates.updated(places, posterior, prior, limits)
    np.testing.assert_allclose(upper.decision_rate, theta[m.top.decision[0]], atol=1e-9)
    np.testing.assert_allclose(upper.mechanism, theta[m.top.mechanism], atol=1e-9)
    np.testing.assert_allclose(upper.group_rate, theta[m.top.group], atol=1e-9)


def test_automatic_selection_keeps_to_knowledge() -> None:
    data = make_synthetic(6, 1500, random_state=1)
    s, d = (np.asarray(v).astype(int) for v in (data.sensitive, data.y))
    limits = Knowledge(fair_rate=0.45, one_sided={1: "lowered"}).limits(NUMBERED, (0, 1), 1)
    rows = Rows.of(s, d, np.asarray(data.X))
    options = Options(mechanism_prior=30.0, limits=limits, random_state=0)
    fitted = fit_auto(rows, options=options)
    assert kept(limits, fitted)
    assert fitted.distribution.mechanism[1, 0, 1] == 0


def limits_of(knowledge: Knowledge) -> Limits:
    return knowledge.limits(GROUPS, CLASSES, 1)


def test_what_knowledge_means() -> None:
    found = limits_of(Knowledge(fair_rate=0.3))
    np.testing.assert_allclose(found.rate_lower, [0.7, 0.3])
    np.testing.assert_allclose(found.rate_upper, [0.7, 0.3])
    found = limits_of(Knowledge(fair_rate={"bad": (0.2, 0.4)}))
    assert found.rate_lower.tolist() == [0.2, 0.0]
    assert found.rate_upper.tolist() == [0.4, 1.0]
    lowered = limits_of(Knowledge(one_sided={"F": "lowered"})).mechanism_upper
    assert lowered[0].tolist() == [[1, 0], [1, 1]]
    assert (lowered[1] == 1).all()
    assert (limits_of(Knowledge(one_sided={"sex=F": "lowered"})).mechanism_upper == lowered).all()
    raised = limits_of(Knowledge(one_sided={"M": "raised"})).mechanism_upper
    assert raised[1].tolist() == [[1, 1], [0, 1]]
    box = limits_of(Knowledge(mechanism_bounds={(None, "good", "good"): (0.8, 0.9)}))
    assert box.mechanism_lower[:, 1, 1].tolist() == [0.8, 0.8]
    assert box.mechanism_upper[:, 1, 1].tolist() == [0.9, 0.9]


@pytest.mark.parametrize(
    ("knowledge", "message"),
    [
        ({"fair_rate": 1.2}, "fair_rate is 1.2: give a number from 0 to 1"),
        ({"fair_rate": (0.6, 0.4)}, "least, largest"),
        ({"fair_rate": "half"}, "fair_rate is 'half'"),
        ({"fair_rate": {"bad": 0.7, "good": 0.7}}, "leaves no P\\(Df\\)"),
        ({"fair_rate": {"fine": 0.7}}, "the class 'fine', which is not there: use bad, good"),
        ({"one_sided": {"F": "down"}}, "choose 'lowered' or 'raised'"),
        ({"one_sided": "F"}, "give a mapping"),
        ({"one_sided": {"X": "raised"}}, "the group 'X', which is not there: use F, M"),
        ({"mechanism_bounds": {("F", "good"): 0.9}}, "give \\(group, fair decision, label\\)"),
        (
            {"mechanism_bounds": {("F", "good", "good"): 0.2, ("F", "good", "bad"): (0, 0.5)}},
            "P\\(D | Df = good, S = F\\) leave nothing",
        ),
        (
            {
                "one_sided": {"F": "lowered"},
                "mechanism_bounds": {("F", "bad", "good"): (0.1, 0.2)},
            },
            "P\\(D | Df = bad, S = F\\) leave nothing",
        ),
    ],
)
def test_what_is_refused(knowledge: dict[str, object], message: str) -> None:
    with pytest.raises(LearningError, match=message):
        limits_of(Knowledge(**knowledge))  # type: ignore[arg-type]


def test_three_classes_need_rates_by_class_and_boxes() -> None:
    classes = ("a", "b", "c")
    with pytest.raises(LearningError, match="give a mapping from classes to rates"):
        Knowledge(fair_rate=0.3).limits(GROUPS, classes, 2)
    with pytest.raises(LearningError, match="it needs two; give mechanism_bounds"):
        Knowledge(one_sided={"F": "lowered"}).limits(GROUPS, classes, 2)
    found = Knowledge(fair_rate={"a": 0.3}).limits(GROUPS, classes, 2)
    assert found.rate_upper.tolist() == [0.3, 1.0, 1.0]


def test_knowledge_is_plain_data() -> None:
    known = Knowledge(
        fair_rate={"good": (0.2, 0.4)},
        one_sided={"F": "lowered"},
        mechanism_bounds={("M", "good", "good"): (0.9, 1.0), (None, "bad", "bad"): 0.8},
    )
    assert Knowledge.from_dict(json.loads(json.dumps(known.to_dict()))) == known
    assert replace(known) == known
    assert hash(known) == hash(replace(known))
    assert not Knowledge()
    assert known
    assert Knowledge.from_dict(Knowledge(fair_rate=(0.1, 0.2)).to_dict()).fair_rate == (0.1, 0.2)
    other = known.and_also(Knowledge(fair_rate=0.5))
    assert (other.fair_rate, other.one_sided) == (0.5, known.one_sided)
    assert "labels of group F were only ever lowered" in str(known)
    with pytest.raises(LearningError, match="give an object with"):
        Knowledge.from_dict({"pi": 0.3})


def test_what_cannot_go_together_is_refused() -> None:
    rows = random_rows(1, 60, 2, 2, 0.0)
    limits = random_limits(0, 2, 2)
    with pytest.raises(LearningError, match="without a latent fair decision"):
        fit("NLatPC", rows, options=Options(limits=limits))
