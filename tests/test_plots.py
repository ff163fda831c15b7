"""Pictures: what they show is what the model holds, in shapes as well as in colours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fairpc.errors import PlotError
from fairpc.evidence import (
    ParityMonitor,
    equal_rates,
    identified_set,
    parity,
    parity_curve,
    test_assumptions,
)
from fairpc.models import draw, joint_set

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def _no_window() -> Iterator[None]:
    matplotlib.use("Agg")
    yield
    from matplotlib import pyplot as plt

    plt.close("all")


def test_joint_sets_are_drawn_by_their_outlines() -> None:
    rng = np.random.default_rng(0)
    s, a = rng.integers(0, 2, 2000), rng.integers(0, 3, 2000)
    f = (rng.random(2000) < np.array([0.2, 0.5, 0.8])[a]).astype(int)
    d = (rng.random(2000) < np.array([[0.2, 0.8], [0.0, 1.0]])[s, f]).astype(int)
    x = rng.normal(size=(2000, 1)) + 2 * f[:, None]
    test = test_assumptions(x, d, s, given=a, classifier="logistic", n_seeds=1)
    ax = joint_set(test)
    plain, within = ax.patches
    assert plain.get_hatch() != within.get_hatch()
    for patch, corners in zip((within, plain), test.outlines().values(), strict=True):
        drawn = np.asarray(patch.get_path().vertices)[: len(corners)]
        np.testing.assert_allclose(drawn, np.array(corners))
    labels = ax.get_legend_handles_labels()[1]
    assert labels[1] == f"within 3 strata: area {test.area:.4f}"
    assert "S = " in ax.get_xlabel()


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


def test_a_monitor_is_drawn_over_the_rows_it_saw() -> None:
    monitor = ParityMonitor(["a", "b"], tolerance=0.02)
    with pytest.raises(PlotError, match="seen no rows: call update first"):
        draw(monitor)
    rng = np.random.default_rng(0)
    for _ in range(5):
        groups = rng.integers(0, 2, 200)
        monitor.update(rng.random(200) < 0.3 + 0.4 * groups, np.array(["a", "b"])[groups])
    ax = draw(monitor)
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [200, 400, 600, 800, 1000])
    assert np.asarray(ax.lines[0].get_ydata())[-1] == monitor.gaps()[0].difference
    again = draw(ParityMonitor.from_dict(monitor.to_dict()))
    np.testing.assert_array_equal(again.lines[0].get_ydata(), ax.lines[0].get_ydata())
    assert monitor.alarm
    assert any("alarm at" in str(line.get_label()) for line in ax.lines)


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
