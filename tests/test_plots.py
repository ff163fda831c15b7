"""Pictures: what they show is what the record holds, in shapes as well as in colours."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from auditing.tables import fitted, table
from fairpc.errors import MissingExtraError, PlotError
from fairpc.evidence import identified_set, parity
from fairpc.models import LatentDecision, draw

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def _no_window() -> Iterator[None]:
    matplotlib.use("Agg")
    yield
    from matplotlib import pyplot as plt

    plt.close("all")


def names(ax: Any) -> list[str]:
    return [label.get_text() for label in ax.get_yticklabels()]


def test_altered_labels_are_drawn_as_ranges_with_their_point() -> None:
    X, y, s = table()
    model = LatentDecision(random_state=0).fit(X, y, sensitive_features=s)
    account = model.explain_bias()
    ax = draw(account)
    cells = [(g, f) for g in range(2) for f in range(2)]
    (points,) = (line for line in ax.lines if line.get_label() == "point by convention")
    wanted = [account.mechanism[g, f, 1 - f] for g, f in cells]
    np.testing.assert_array_equal(points.get_xdata(), wanted)
    assert account.ranges is not None
    bars = [bar for part in ax.containers for bar in part]
    ends = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars]
    np.testing.assert_allclose(ends, [account.ranges[g, f, 1 - f] for g, f in cells])
    assert len({bar.get_hatch() for bar in bars}) == 4
    groups, (no, yes) = account.groups, account.classes
    assert names(ax)[:2] == [
        f"{groups[0]}: {no}, recorded {yes}",
        f"{groups[0]}: {yes}, recorded {no}",
    ]
    rejected = draw(replace(account, ranges=np.full_like(account.ranges, np.nan)))
    assert [text.get_text() for text in rejected.texts] == ["nothing is possible"] * 4
    with pytest.raises(PlotError, match="has no ranges"):
        draw(replace(account, ranges=None))


def test_given_axes_are_used() -> None:
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    assert draw(identified_set([0.2, 0.7, 0.4, 0.9], [0, 0, 1, 1]), ax=axes) is axes


def test_what_cannot_be_drawn_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    found = parity([0.0, 1.0, 1.0, 1.0], [0, 0, 1, 1])
    others: list[Any] = [{}, fitted()]
    for other in others:
        kind = type(other).__name__
        with pytest.raises(PlotError, match=f"a {kind} was given: there are pictures of Assump"):
            draw(other)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match="fairpc\\[plots\\]"):
        draw(found)


def test_a_parity_is_drawn_pair_by_pair() -> None:
    groups = np.repeat(["a", "b", "c"], 40)
    scores = np.repeat([0.0, 1.0, 1.0], 40) * (np.arange(120) % 3 > 0)
    found = parity(scores, groups)
    ax = draw(found)
    parts: list[Any] = ax.containers
    at = [float(part.lines[0].get_xdata()[0]) for part in parts]
    assert at == sorted((p.difference for p in found.pairs), key=lambda d: -abs(d))
    assert names(ax)[0] == f"{found.largest.last} − {found.largest.first}"
    (stem,) = parts[0].lines[2]
    np.testing.assert_allclose(stem.get_segments()[0][:, 0], found.largest.difference_interval)


def test_the_fair_rates_of_each_group_and_of_all() -> None:
    rng = np.random.default_rng(0)
    groups, scores = rng.integers(0, 2, 300), rng.random(300)
    found = identified_set(0.3 + 0.4 * scores, groups)
    ax = draw(found)
    assert names(ax) == ["0", "1", "all groups"]
    bars = [bar for part in ax.containers for bar in part]
    wanted = [*((g.lower, g.upper) for g in found.groups), (found.lower, found.upper)]
    np.testing.assert_allclose([(b.get_x(), b.get_x() + b.get_width()) for b in bars], wanted)
    clash = draw(identified_set(scores, groups))  # nearly certain scores of unequal means
    assert len([bar for part in clash.containers for bar in part]) == 2
    assert [text.get_text() for text in clash.texts] == ["nothing is possible"]
