"""Fair rates of groups that may differ by delta: every model, its files, and what is refused."""

from __future__ import annotations

from copy import copy
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fairpc import FairPC, LatentDecision, LatNB, NLatPC, load
from fairpc.core import ContradictionWarning
from fairpc.errors import FileFormatError, LearningError
from fairpc.models._fit import Options, fit
from fairpc.models._rows import Rows
from fairpc.models._strata import Strata

FORESTS: dict[str, Any] = {
    "forest": lambda **given: FairPC(structure="forest", **given),
    "auto": FairPC,
}
pytestmark = pytest.mark.filterwarnings("ignore::fairpc.errors.DriftWarning")


def table(n: int = 1500, rates: tuple[float, ...] = (0.3, 0.6), seed: int = 0) -> Any:
    """Labels that are fair decisions, but for a few, whose rates differ between groups."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, len(rates), n)
    f = rng.random(n) < np.array(rates)[s]
    d = np.where(rng.random(n) < 0.03, ~f, f)
    x = np.column_stack([rng.normal(size=(n, 2)) + 2.5 * f[:, None], rng.normal(size=n)])
    names = np.array([f"g{k}" for k in range(len(rates))])
    return pl.DataFrame({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2]}), d.astype(int), names[s]


def fitted(model: Any, delta: float, **given: Any) -> Any:
    X, y, groups = table(**given)
    return model(delta=delta, random_state=0, guard=False).fit(X, y, sensitive_features=groups)


def gap(model: Any) -> float:
    return float(np.ptp(model.fair_rates_, axis=0).max())


@pytest.mark.parametrize("kind", FORESTS)
@pytest.mark.parametrize("delta", [0.02, 0.1])
def test_rates_of_a_forest_circuit_differ_by_delta_at_most(kind: str, delta: float) -> None:
    model = fitted(FORESTS[kind], delta)
    assert model.distribution_.is_forest
    assert model.parity_gap()["model"] <= delta + 1e-12
    assert gap(model) == pytest.approx(delta, abs=1e-9)  # these labels ask for more
    # By the circuit itself, not by what the model says of it.
    layout, circuit = model.distribution_.layout, model.circuit_
    nothing = np.full((2, len(layout.names)), -1, np.int16)
    asked = circuit.posterior(layout.decision, layout.codes(np.arange(2), None, nothing))
    np.testing.assert_allclose(asked, model.fair_rates_, atol=1e-12)
    np.testing.assert_allclose(model.fair_rate_, model.group_rate_ @ model.fair_rates_)


def test_without_delta_rates_are_one_block() -> None:
    model = fitted(LatNB, 0.0)
    assert model.distribution_.layout.tied
    assert len(set(map(tuple, model.fair_rates_.tolist()))) == 1


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("n_groups", [2, 3])
def test_the_objective_of_em_never_falls(within: bool, n_groups: int) -> None:
    for seed in range(5):
        rows = random_rows(seed, n_groups, within)
        options = Options(smoothing=1.0, init="random", random_state=seed, max_iter=60, tol=0.0)
        found = fit("LatNB", rows, options=options)
        assert np.diff(found.history["objective"]).min() > -1e-9
        apart = np.ptp(found.distribution.subgroup_decision_rate, axis=0)
        assert apart.max() <= rows.strata.delta + 1e-12


def random_rows(seed: int, n_groups: int, within: bool) -> Rows:
    rng = np.random.default_rng(seed)
    n = 300
    s, x = rng.integers(0, n_groups, n), rng.integers(0, 2, (n, 3))
    d = (rng.random(n) < 0.2 + 0.5 * (s == 0) + 0.2 * x[:, 0]).astype(int)
    missing = rng.random((n, 3)) < 0.1
    missing[:, 2] = False
    rows = Rows.of(s, d, np.where(missing, -1, x), arities=[2, 2, 2])
    strata = Strata((2,), (2,), 0.07) if within else Strata(delta=0.07)
    return rows.with_strata(strata)


def test_knowledge_and_delta_hold_together() -> None:
    from fairpc import Knowledge

    X, y, groups = table()
    known = Knowledge(fair_rate=(0.35, 0.42))
    model = FairPC(structure="forest", delta=0.05, knowledge=known, guard=False, random_state=0)
    model.fit(X, y, sensitive_features=groups)
    assert gap(model) <= 0.05 + 1e-12
    assert model.fair_rates_[:, 1].min() >= 0.35 - 1e-9
    assert model.fair_rates_[:, 1].max() <= 0.42 + 1e-9


SCORES: dict[str, Any] = {
    "latent": lambda delta: LatentDecision(delta=delta, random_state=0),
    "forest": lambda delta: FairPC(structure="forest", delta=delta, random_state=0),
}


@pytest.mark.parametrize("kind", SCORES)
def test_the_point_is_that_of_the_smallest_delta_that_fits(kind: str, tmp_path: Path) -> None:
    X, y, groups = table(2500)
    little, much = (SCORES[kind](delta) for delta in (0.1, 0.4))
    with pytest.warns(ContradictionWarning, match="differ by 10 points at most"):
        little.fit(X, y, sensitive_features=groups)
    assert gap(little) == pytest.approx(0.1, abs=1e-9)
    assert np.isnan(little.mechanism_range_).all()
    much.fit(X, y, sensitive_features=groups)
    assert 0.1 < gap(much) < 0.35  # and not the .4 that would be allowed
    assert not much.warnings_
    assert np.isfinite(much.mechanism_range_).all()
    assert much.parity_gap()["model"] == pytest.approx(gap(much), abs=1e-9)
    scores = much.predict_proba(X, sensitive_features=groups)[:, 1]
    means = [scores[groups == g].mean() for g in much.groups_]
    np.testing.assert_allclose(means, much.fair_rates_[:, 1], atol=0.03)
    bounds = much.predict_bounds(X, sensitive_features=groups)
    assert ((bounds[:, 0] <= scores) & (scores <= bounds[:, 1])).all()
    much.save(tmp_path / "model")
    again: Any = load(tmp_path / "model")
    assert again.delta == 0.4
    np.testing.assert_array_equal(again.fair_rates_, much.fair_rates_)
    np.testing.assert_array_equal(again.predict_proba(X, sensitive_features=groups)[:, 1], scores)
    np.testing.assert_array_equal(again.mechanism_range_, much.mechanism_range_)


@pytest.mark.parametrize("kind", SCORES)
def test_a_delta_that_labels_do_not_need_moves_no_point(kind: str) -> None:
    X, y, groups = table(2000, rates=(0.5, 0.5))
    without, with_ = (SCORES[kind](d).fit(X, y, sensitive_features=groups) for d in (0.0, 0.1))
    np.testing.assert_allclose(with_.fair_rates_, without.fair_rates_, atol=1e-12)
    np.testing.assert_allclose(with_.bias_mechanism_, without.bias_mechanism_, atol=1e-12)
    widths = [np.ptp(m.mechanism_range_, axis=2) for m in (without, with_)]
    assert (widths[1] >= widths[0] - 1e-12).all()


def test_within_strata_each_has_its_own_rates(tmp_path: Path) -> None:
    X, y, groups = table(2500)
    X = X.with_columns(pl.Series("d", np.where(np.arange(len(X)) % 2, "few", "many")))
    for model in (
        FairPC(structure="forest", given="d", delta=0.1, guard=False, random_state=0),
        LatentDecision(given="d", delta=0.4, random_state=0),
    ):
        model.fit(X, y, sensitive_features=groups)
        assert 0.05 < model.parity_gap()["model"] <= model.delta + 1e-12
        model.save(tmp_path / "model")
        again: Any = load(tmp_path / "model")
        np.testing.assert_array_equal(again.fair_rates_, model.fair_rates_)
        np.testing.assert_array_equal(again.stratum_rate_, model.stratum_rate_)


def test_a_file_whose_rates_are_too_far_apart_is_refused(tmp_path: Path) -> None:
    import json

    from fairpc.models._file import checksum

    model = fitted(FORESTS["forest"], 0.1)
    path = tmp_path / "model"
    model.save(path)
    content = json.loads(path.read_text())
    content["settings"]["delta"] = 0.05
    content["checksum"] = checksum(content)
    path.write_text(json.dumps(content))
    with pytest.raises(FileFormatError, match="differs between groups by more than delta"):
        load(path)


def test_what_is_refused() -> None:
    X, y, groups = table(400)
    X = X.with_columns(pl.Series("d", np.where(np.arange(len(X)) % 2, "few", "many")))

    def fit_to(model: Any, labels: Any = y) -> None:
        model.fit(X, labels, sensitive_features=groups)

    kept = FairPC(structure="chow-liu", max_iter=2, guard=False)
    kept.fit(X, y, sensitive_features=groups)
    by_em: tuple[Any, ...] = (
        LatNB(),
        NLatPC(),
        FairPC(structure="strudel"),
        FairPC(structure="chow-liu"),
        FairPC(structure=kept),
        FairPC(init="random"),
    )
    for model in by_em:
        for settings in ({"given": "d"}, {"delta": 0.1}):
            with pytest.raises(LearningError, match="structure='forest', or LatentDecision"):
                fit_to(copy(model).set_params(**settings))
    for model in (LatNB, FairPC, LatentDecision):
        with pytest.raises(LearningError, match=r"delta is 2: give a difference of rates"):
            fit_to(model(delta=2))
    with pytest.raises(LearningError, match="3 classes, and structure='forest' tells two apart"):
        fit_to(FairPC(structure="forest", delta=0.1), np.arange(400) % 3)


def test_a_structure_is_kept_without_its_delta() -> None:
    X, y, groups = table(600)
    first = FairPC(structure="forest", delta=0.2, guard=False, random_state=0)
    first.fit(X, y, sensitive_features=groups)
    kept = FairPC(structure=first, guard=False, max_iter=3)
    kept.fit(X, y, sensitive_features=groups)
    assert gap(kept) < 1e-12


def undecided(seed: int, n: int = 600) -> Any:
    """A table that a forest circuit and circuits of EM predict about equally well."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    f = (rng.random(n) < np.array([0.35, 0.5])[s]).astype(int)
    d = (rng.random(n) < np.array([[0.1, 0.7], [0.05, 0.9]])[s, f]).astype(int)
    x = [f + rng.normal(0, 0.8, n), rng.normal(0, 1, n), f * rng.normal(0, 1, n) ** 2]
    return np.column_stack(x).round(1), d, s


@pytest.mark.parametrize("seed", [4, 11])
def test_a_larger_delta_narrows_no_range(seed: int) -> None:
    X, y, groups = undecided(seed)
    models = [
        FORESTS["forest"](delta=delta, random_state=0).fit(X, y, sensitive_features=groups)
        for delta in (0.0, 0.1, 0.2)
    ]
    for narrow, wide in pairwise(models):
        low, high = (wide.mechanism_range_ - narrow.mechanism_range_).transpose(2, 0, 1)
        assert (low <= 1e-9).all()
        assert (high >= -1e-9).all()
