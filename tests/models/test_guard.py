"""The guard speaks where Df describes the features, and is silent where it is about the label."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fairpc.datasets import load_compas, load_german, make_synthetic
from fairpc.errors import (
    ContradictionWarning,
    DriftWarning,
    DroppedWarning,
    GroupWarning,
    InterruptedWarning,
    LeakWarning,
    SameAsLabelWarning,
)
from fairpc.models import (
    FairPC,
    ForestDistribution,
    LatNB,
    NLatPC,
    TwoNB,
    _circuit_fit as circuit_fit,
    _guard as module,
    load,
)
from fairpc.models._knowledge import Knowledge
from models.drifting import STRONG, drifting

CARDS = Path(
    os.environ.get("FAIRPC_BIAS_DATA", Path(__file__).resolve().parents[3] / "shared/data/bias")
)


def warned(model: Any, *rows: Any, contradicts: bool = False, **given: Any) -> list[str]:
    """What a fit says of Df; columns, groups and leaks have warnings of their own.

    So have labels that contradict the assumptions, which they must do if ``contradicts``.
    """
    X, y, s = rows
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for category in (DroppedWarning, GroupWarning, LeakWarning, SameAsLabelWarning):
            warnings.simplefilter("ignore", category)
        model.fit(X, y, sensitive_features=s, **given)
    categories = {w.category for w in found}
    assert categories <= {DriftWarning, ContradictionWarning}
    assert (ContradictionWarning in categories) == contradicts
    assert all(w.filename == __file__ for w in found)
    assert getattr(model, "warnings_", ()) == tuple(str(w.message) for w in found)
    return [str(w.message) for w in found if w.category is DriftWarning]


def test_a_fit_says_that_df_has_drifted() -> None:
    model = LatNB()
    said = warned(model, *drifting())
    assert model.warnings_ == tuple(said)
    labels, outside = said
    assert "mean log P(d | x, s) is -0.6" in labels
    assert "plain classifier" in labels
    assert "structure='forest'" in outside
    rate = f"{model.fair_rate_[1]:.3f}"
    assert f"P(Df = 1) is {rate}" in outside or "P(D = " in outside


def test_df_that_is_about_the_label_is_not_warned_of() -> None:
    X, d, s = drifting()
    model = LatNB()
    assert warned(model, X.select("x0", "x1"), d, s) == []
    assert model.warnings_ == ()


def test_without_the_guard_nothing_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(module, "findings", never)
    rows = drifting()
    model = LatNB(guard=False)
    assert warned(model, *rows) == []
    assert model.warnings_ == ()
    for other in (NLatPC(structure="chow-liu"), TwoNB()):
        assert warned(other, *rows) == []
        assert other.warnings_ == ()


@pytest.mark.parametrize("kind", [np.random.default_rng, np.random.RandomState])
def test_the_guard_takes_no_random_numbers_of_the_fit(kind: Any) -> None:
    """Two fits in a row from one generator: the second shows what the first has taken."""
    X, d, s = drifting(800)
    found = []
    for guarded in (True, False):
        state = kind(0)
        for _ in range(2):
            model = FairPC(structure="strudel", init="random", max_iter=5, max_splits=5)
            model.set_params(guard=guarded, random_state=state)
            warned(model, X, d, s)
        found.append(model.circuit_.parameters)
    np.testing.assert_array_equal(found[0], found[1])


def test_few_rows_say_nothing() -> None:
    assert warned(LatNB(), *drifting(module.MIN_ROWS - 1)) == []
    X, d, s = drifting(2 * module.MIN_ROWS)
    # As many rows, of which a few weigh as much as all others.
    weights = np.where(np.arange(len(d)) < 30, 1000.5, 0.5)
    assert warned(LatNB(), X, d, s, sample_weight=weights) == []


def test_weights_without_a_bound() -> None:
    """Whole weights count rows, here more than can be drawn without putting them back.

    So many copies of each row leave nothing to chance: its features tell its label, in each group.
    """
    weights = np.full(3000, 1e20)
    said = warned(LatNB(), *drifting(), contradicts=True, sample_weight=weights)
    assert "mean log P" in said[0]


def test_rows_on_disk_are_sampled(tmp_path: Path) -> None:
    X, d, s = drifting(6000)
    path = tmp_path / "table.parquet"
    noise = np.random.default_rng(0).integers(0, 8, 6000)
    X.with_columns(label=pl.Series(d), sex=pl.Series(s), noise=noise).write_parquet(path)
    said = warned(LatNB("sex"), path, "label", None, max_memory="1MB")
    assert "plain classifier" in said[0]


def test_a_rejection_of_the_assumptions_is_not_the_guards() -> None:
    """Groups that no P(Df) fits: that is said, and not that the model does not fit either."""
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, 2000)
    d = (rng.random(2000) < np.where(s == 1, 0.2, 0.8)).astype(int)
    X = pl.DataFrame({"x": d, "z": rng.integers(0, 2, 2000)})
    model = LatNB()
    assert warned(model, X, d, s, contradicts=True) == []
    (sentence,) = model.warnings_
    assert "the fair rates of 1 must differ by at least 5" in sentence
    assert model.explain_bias().sentences == (f"Nothing is said about altered labels. {sentence}",)


def test_rates_of_labels_that_are_not_those_of_the_rows() -> None:
    """P(Df) and mechanism that are held far from the data give other rates than these have."""
    X, d, s = drifting()
    known = Knowledge(fair_rate=0.2)
    said = warned(LatNB(knowledge=known), X.select("x0", "x1"), d, s, contradicts=True)
    assert "Under the model P(D = 1 | S = " in said[-1]


def test_more_classes_than_two_are_not_checked() -> None:
    X, d, s = drifting()
    third = np.where(np.arange(3000) % 5 == 0, 2, d)
    early = LatNB(init="random", max_iter=2, random_state=0)
    assert warned(early, X, third, s) == []
    assert early.label_ends_ is None


def test_rows_that_a_refit_excludes_leave_the_other_checks() -> None:
    """Without smoothing, a level that one row alone has may be held out."""
    X, d, s = drifting()
    rare = np.where(np.arange(3000) % 100 == 0, np.arange(3000), -1)
    X = X.with_columns(rare=pl.Series(rare.astype(str)))
    model = LatNB(smoothing=0.0, rare=0.0)
    said = warned(model, X, d, s)
    assert any("confidence" in sentence for sentence in said)


def test_unknown_groups_and_labels_are_left_out() -> None:
    X, d, s = drifting()
    holes = np.random.default_rng(0).random((2, 3000)) < 0.1
    labels, groups = (
        pl.Series(values.astype(str)).set(pl.Series(hole), None)
        for hole, values in zip(holes, (d, s), strict=True)
    )
    assert "plain classifier" in warned(LatNB(), X, labels, groups)[0]


def test_an_interrupt_keeps_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "findings", stop)
    X, d, s = drifting(500)
    model = LatNB()
    with pytest.warns(InterruptedWarning, match="whether Df has drifted is not known"):
        model.fit(X, d, sensitive_features=s)
    assert model.warnings_ == ()
    assert model.predict(X, sensitive_features=s).shape == (500,)


def test_a_file_keeps_what_was_said(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    model = LatNB()
    assert warned(model, *drifting())
    model.save(path)
    assert load(path).warnings_ == model.warnings_
    assert load(path).label_ends_ == model.label_ends_
    silent = LatNB(guard=False)
    warned(silent, *drifting())
    silent.save(path)
    again = load(path)
    assert again.warnings_ == ()
    assert again.label_ends_ is None
    X, d, s = drifting(200)
    silent = LatNB()
    warned(silent, X, d, s)
    silent.save(path)
    assert load(path).warnings_ == ()
    assert load(path).guard is True


@pytest.mark.parametrize(
    ("name", "structure"),
    [
        ("german", "auto"),
        ("german", "strudel"),
        pytest.param("compas", "auto", marks=pytest.mark.slow),
    ],
)
def test_bundled_tables_are_not_warned_of(name: str, structure: Any) -> None:
    data = load_german() if name == "german" else load_compas()
    model = FairPC(structure=structure, random_state=0)
    assert warned(model, data.X, data.y, data.sensitive) == []


def credit_cards(bend: bool) -> tuple[pl.DataFrame, np.ndarray, np.ndarray]:
    """Clients by whether they paid; if ``bend``, made independent of sex, then labels bent."""
    path = CARDS / "credit_card.csv"
    if not path.is_file():
        pytest.skip("the table is absent: set FAIRPC_BIAS_DATA to its folder")
    frame = pl.read_csv(path)
    paid, sex = 1 - frame["default payment"].to_numpy(), frame["SEX"].to_numpy()
    X = frame.drop("default payment", "SEX")
    if not bend:
        return X, paid, sex
    rng = np.random.default_rng(0)
    group = (sex != 1).astype(int)
    rates = [paid[group == s].mean() for s in (0, 1)]
    low = int(np.argmin(rates))
    wanted = int(paid[group == low].sum() * (1 - max(rates)) / max(rates))
    drop = rng.permutation(np.flatnonzero((group == low) & (paid == 0)))[wanted:]
    kept = rng.permutation(np.setdiff1d(np.arange(len(paid)), drop))[:16_000]
    d = rng.random(len(kept)) < STRONG[group[kept], paid[kept]]
    return X[kept], d.astype(int), sex[kept]


@pytest.mark.slow
@pytest.mark.parametrize("bend", [True, False])
def test_credit_cards_are_warned_of(bend: bool) -> None:
    model = FairPC(structure="strudel", random_state=0)
    said = warned(model, *credit_cards(bend))
    assert said
    if bend:
        # By what the labels leave possible: half of what a classifier tells of them, it tells too.
        assert any("confidence" in sentence for sentence in said)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("structure", "n_rows", "n_draws"),
    [("strudel", 400, 100), ("strudel", 6000, 100), ("auto", 1500, 20)],
)
def test_draws_from_a_model_are_not_warned_of(structure: Any, n_rows: int, n_draws: int) -> None:
    """At most one draw in twenty: half of synthetic distributions, half of a model of COMPAS."""
    data = load_compas()
    truth = FairPC(structure="strudel", random_state=0, guard=False)
    truth.fit(data.X, data.y, sensitive_features=data.sensitive)
    alarms = 0
    for seed in range(n_draws // 2):
        drawn = make_synthetic(10, n_rows, seed)
        model = FairPC(structure=structure, random_state=0)
        alarms += bool(warned(model, drawn.X, drawn.y, drawn.sensitive))
        rows = truth.sample(n_rows, seed)
        alarms += bool(warned(model, rows.drop("S", "D", "Df"), rows["D"], rows["S"]))
    assert alarms <= n_draws / 20


def test_auto_takes_a_forest_where_its_circuits_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    frame, labels, groups = drifting(1000)

    def warned(distribution: Any, *_: Any) -> module.Checked:
        drifted = not isinstance(distribution, ForestDistribution)
        return module.Checked(("Df drifted.",) if drifted else ())

    monkeypatch.setattr(circuit_fit, "check_fit", warned)
    model = FairPC(random_state=0).fit(frame, labels, sensitive_features=groups)
    assert isinstance(model.distribution_, ForestDistribution)
    assert model.warnings_ == ()
    assert model.choices_ is not None
    assert "failed the fit check" in str(model.choices_)
    asked = FairPC(structure="chow-liu", random_state=0)
    with pytest.warns(DriftWarning, match="Df drifted"):
        asked.fit(frame, labels, sensitive_features=groups)
    assert not isinstance(asked.distribution_, ForestDistribution)
