"""Pictures: what they show is what the model holds, in shapes as well as in colours."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from auditing.tables import fitted, table
from fairpc.baselines import LR, Rand
from fairpc.comparison import compare
from fairpc.errors import MissingExtraError, PlotError
from fairpc.evidence import (
    equal_rates,
    identified_set,
    parity,
    parity_curve,
)
from fairpc.models import FairPC, LatNB
from fairpc.plots import draw, trade_off

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def _no_window() -> Iterator[None]:
    matplotlib.use("Agg")
    yield
    from matplotlib import pyplot as plt

    plt.close("all")


def test_mechanism_bars_are_the_probabilities() -> None:
    model = fitted(n_classes=3)
    ax = model.plot.mechanism()
    widths = np.array([[bar.get_width() for bar in part] for part in ax.containers])
    positive = model.coding_.labels.positive
    order = [positive, *(k for k in range(3) if k != positive)]
    expected = model.bias_mechanism_.reshape(-1, 3).T[order]
    np.testing.assert_allclose(widths, expected)
    hatches = [part[0].get_hatch() for part in ax.containers]
    assert len(set(hatches)) == 3
    assert next(t.get_text() for t in ax.get_yticklabels()) == "S = g0, Df = no"


def test_curves_are_the_history() -> None:
    model = fitted()
    likelihood, mechanism = model.plot.curves()
    lines = {line.get_label(): line for line in likelihood.lines}
    drawn = np.asarray(lines["log likelihood"].get_ydata())
    np.testing.assert_array_equal(drawn, model.history_["log_likelihood"])
    assert len(mechanism.lines) == 4
    assert len({(ln.get_linestyle(), ln.get_marker()) for ln in mechanism.lines}) == 4
    assert len(fitted("TwoNB").plot.curves()) == 1


def test_trade_off_has_a_shape_per_method() -> None:
    X, y, s = table()
    models = {"NB": LatNB(), "LR": LR(), "Rand": Rand(random_state=0)}
    found = compare(models, X, y, sensitive_features=s, cv=2)
    ax = found.plot()
    marks = [part.lines[0] for part in ax.containers]
    assert len({mark.get_marker() for mark in marks}) == 3
    at = [(float(m.get_xdata()[0]), float(m.get_ydata()[0])) for m in marks]
    means = [(row["discrimination"], row["accuracy"]) for row in found.means()]
    np.testing.assert_allclose(at, means)
    assert any("may be biased" in " ".join(t.get_text().split()) for t in ax.texts)


def test_a_model_is_compared_and_marked() -> None:
    X, y, s = table()
    ax = fitted("LatNB").plot.tradeoff(X, y, sensitive_features=s, cv=2)
    first, second = (getattr(ax.containers[i], "lines")[0] for i in (0, 1))  # noqa: B009
    assert ax.containers[0].get_label() == "LatNB"
    assert first.get_markersize() > second.get_markersize()


def test_without_rows_they_are_drawn_and_it_says_so() -> None:
    ax = fitted("LatNB").plot.tradeoff(cv=2)
    assert any("drawn from the model itself" in " ".join(t.get_text().split()) for t in ax.texts)


def test_given_axes_are_used() -> None:
    from matplotlib.figure import Figure

    axes = Figure().subplots(1, 2)
    assert fitted().plot.mechanism(ax=axes[0]) is axes[0]
    assert fitted().plot.curves(axes=list(axes))[1] is axes[1]


def test_what_cannot_be_drawn_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.exceptions import NotFittedError

    X, _, _ = table()
    with pytest.raises(PlotError, match="TwoNB has no latent fair decision"):
        fitted("TwoNB").plot.mechanism()
    with pytest.raises(PlotError, match="X was given without y"):
        fitted().plot.tradeoff(X)
    with pytest.raises(PlotError, match="1 axes were given"):
        fitted().plot.curves(axes=[None])  # type: ignore[list-item]
    with pytest.raises(NotFittedError):
        _ = FairPC().plot
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match="fairpc\\[plots\\]"):
        fitted().plot.mechanism()


def test_a_parity_is_drawn_pair_by_pair() -> None:
    groups = np.repeat(["a", "b", "c"], 40)
    scores = np.repeat([0.0, 1.0, 1.0], 40) * (np.arange(120) % 3 > 0)
    found = parity(scores, groups)
    ax = draw(found)
    parts: list[Any] = ax.containers
    at = [float(part.lines[0].get_xdata()[0]) for part in parts]
    assert at == sorted((p.difference for p in found.pairs), key=lambda d: -abs(d))
    assert ax.get_yticklabels()[0].get_text() == f"{found.largest.last} − {found.largest.first}"
    (stem,) = parts[0].lines[2]
    np.testing.assert_allclose(stem.get_segments()[0][:, 0], found.largest.difference_interval)


def test_a_curve_over_thresholds_has_a_line_per_group() -> None:
    rng = np.random.default_rng(0)
    found = parity_curve(rng.random(200), rng.integers(0, 2, 200), [0.2, 0.5, 0.8])
    ax = draw(found)
    for g, line in enumerate(ax.lines):
        np.testing.assert_array_equal(line.get_xdata(), [0.2, 0.5, 0.8])
        np.testing.assert_array_equal(line.get_ydata(), [one.groups[g].mean for one in found])


def test_other_records_are_drawn_as_they_are() -> None:
    rng = np.random.default_rng(0)
    groups, scores = rng.integers(0, 2, 300), rng.random(300)
    equal = equal_rates(scores, groups)
    heights = [[bar.get_height() for bar in part] for part in draw(equal).containers]
    assert heights == [[g.rate_before for g in equal.groups], [g.rate for g in equal.groups]]
    found = identified_set(scores, groups)
    ax = draw(found)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["0", "1", "all groups"]
    with pytest.raises(PlotError, match="a dict was given: there are pictures of AssumptionTest"):
        draw({})


def test_guessing_does_not_stretch_the_trade_off() -> None:
    accuracies = {"A": 0.90, "B": 0.91, "Rand": 0.5}
    methods = [
        {"method": m, "accuracy": a, "discrimination": 0.1, "accuracy_sd": 0.01}
        | {"discrimination_sd": 0.01}
        for m, a in accuracies.items()
    ]
    ax = trade_off(methods)
    low, high = ax.get_ylim()
    assert low > 0.85
    assert high < 0.95
    assert any("accuracy 0.500" in note.get_text() for note in ax.texts)
