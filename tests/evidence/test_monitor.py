"""The monitor: coverage at all looks together, alarms, saving, merging, bad input."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binomtest

from fairpc.errors import FileFormatError, MetricError
from fairpc.evidence import ParityMonitor
from fairpc.evidence._monitor import GRID, MonitorMethod, bets, difference_region, log_growth

STEPS = 10_000
METHODS: tuple[MonitorMethod, ...] = ("mixture", "betting")


def stream(seed: int, n: int, rates: tuple[float, float] = (0.3, 0.3)) -> Any:
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 2, n)
    return (rng.random(n) < np.array(rates)[groups]).astype(float), groups


def always_covers(seed: int, method: MonitorMethod, rates: tuple[float, float], step: int) -> bool:
    scores, groups = stream(seed, STEPS, rates)
    monitor = ParityMonitor([0, 1], method=method)
    truth = rates[1] - rates[0]
    for i in range(0, STEPS, step):
        (gap,) = monitor.update(scores[i : i + step], groups[i : i + step])
        if not gap.interval[0] <= truth <= gap.interval[1]:
            return False
    return True


def welch_always_covers(seed: int) -> bool:
    """The usual interval, looked at after every row from the 100th on."""
    scores, groups = stream(seed, STEPS)
    means, variances = [], []
    for g in (0, 1):
        n = np.maximum(np.cumsum(groups == g), 1)
        mean = np.cumsum(scores * (groups == g)) / n
        means.append(mean)
        variances.append(mean * (1 - mean) / np.maximum(n - 1, 1))
    half = 1.96 * np.sqrt(variances[0] + variances[1])
    inside = np.abs(means[1] - means[0]) <= half
    return bool(inside[100:].all())


@pytest.mark.parametrize("method", METHODS)
def test_covers_at_all_looks(method: MonitorMethod) -> None:
    assert all(always_covers(seed, method, (0.3, 0.3), 500) for seed in range(10))


@pytest.mark.slow
@pytest.mark.parametrize("rates", [(0.3, 0.3), (0.02, 0.02), (0.9, 0.5)])
@pytest.mark.parametrize(("method", "step"), [("mixture", 1), ("betting", 10)])
def test_time_uniform_coverage(
    method: MonitorMethod, step: int, rates: tuple[float, float]
) -> None:
    """200 streams of 10,000 rows, seen after every row, or after every tenth."""
    covered = sum(always_covers(seed, method, rates, step) for seed in range(200))
    assert binomtest(covered, 200, 0.95, "less").pvalue > 0.01


def test_the_usual_interval_does_not() -> None:
    share = np.mean([welch_always_covers(seed) for seed in range(200)])
    assert 0.45 < share < 0.75


@pytest.mark.parametrize("method", METHODS)
def test_alarm(method: MonitorMethod) -> None:
    scores, groups = stream(0, 4_000, (0.6, 0.3))
    monitor = ParityMonitor([0, 1], method=method, tolerance=0.05)
    for i in range(0, 4_000, 250):
        monitor.update(scores[i : i + 250], groups[i : i + 250])
    assert monitor.alarm
    assert monitor.alarmed_at is not None
    assert monitor.alarmed_at % 250 == 0
    assert f"alarm raised after {monitor.alarmed_at} rows" in monitor.summary()
    (gap,) = monitor.gaps()
    assert gap.interval[0] <= gap.difference <= gap.interval[1] < -0.05
    quiet = ParityMonitor([0, 1], method=method, tolerance=0.5)
    quiet.update(scores, groups)
    assert not quiet.alarm
    assert "no alarm so far" in quiet.summary()


def test_an_alarm_stays() -> None:
    monitor = ParityMonitor(["a", "b"])
    monitor.update([1.0] * 200 + [0.0] * 200, np.repeat(["a", "b"], 200))
    at = monitor.alarmed_at
    monitor.update([0.0] * 300 + [1.0] * 300, np.repeat(["a", "b"], 300))
    assert at == monitor.alarmed_at == 400


@pytest.mark.parametrize("method", METHODS)
def test_batches_do_not_matter(method: MonitorMethod) -> None:
    scores, groups = stream(1, 1_000)
    whole, pieces = (ParityMonitor([0, 1], method=method) for _ in range(2))
    whole.update(scores, groups)
    for i in range(0, 1_000, 7):
        pieces.update(scores[i : i + 7], groups[i : i + 7])
    assert whole.gaps()[0].interval == pytest.approx(pieces.gaps()[0].interval, abs=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_state_survives_json(method: MonitorMethod) -> None:
    scores, groups = stream(2, 600)
    monitor = ParityMonitor(np.array([0, 1]), method=method, level=0.9)  # type: ignore[arg-type]
    monitor.update(scores[:300], groups[:300])
    again = ParityMonitor.from_dict(json.loads(json.dumps(monitor.to_dict())))
    assert again.update(scores[300:], groups[300:]) == monitor.update(scores[300:], groups[300:])
    assert again.level == 0.9


@pytest.mark.parametrize("method", METHODS)
def test_merge(method: MonitorMethod) -> None:
    scores, groups = stream(3, 800)
    left, right, whole = (ParityMonitor([0, 1], method=method) for _ in range(3))
    left.update(scores[:300], groups[:300])
    right.update(scores[300:], groups[300:])
    whole.update(scores, groups)
    merged = left.merge(right)
    assert merged.n == 800
    assert (left.n, right.n) == (300, 500)
    assert merged.gaps()[0].difference == pytest.approx(whole.gaps()[0].difference)
    if method == "mixture":
        assert merged.gaps()[0].interval == pytest.approx(whole.gaps()[0].interval)
    with pytest.raises(MetricError, match="merge monitors that were made alike"):
        left.merge(ParityMonitor([0, 1], method=method, level=0.9))


def test_merge_keeps_an_alarm() -> None:
    alarmed, calm = ParityMonitor([0, 1]), ParityMonitor([0, 1])
    alarmed.update([1.0] * 100 + [0.0] * 100, np.repeat([0, 1], 100))
    calm.update([0.0] * 900 + [1.0] * 900, np.repeat([0, 1], 900))
    assert alarmed.merge(ParityMonitor([0, 1])).alarm
    assert alarmed.merge(calm).alarm


@pytest.mark.parametrize("method", METHODS)
def test_crossed_groups(method: MonitorMethod) -> None:
    names = [("f", "old"), ("f", "young"), ("m", "old")]
    monitor = ParityMonitor(names, method=method)
    table = np.array([["f", "old"], ["m", "old"], ["f", "old"]])
    gaps = monitor.update([0.2, 0.9, 0.4], table)
    assert [(g.n_first, g.n_last) for g in gaps] == [(2, 0), (2, 1), (0, 1)]
    again = ParityMonitor.from_dict(json.loads(json.dumps(monitor.to_dict())))
    assert again.groups == tuple(names)
    assert again.update([0.5], [["f", "young"]]) == monitor.update([0.5], [["f", "young"]])
    with pytest.raises(MetricError, match=r"group .'m', 'young'. is not watched"):
        monitor.update([0.5], [["m", "young"]])


def test_three_groups() -> None:
    monitor = ParityMonitor(["a", "b", "c"])
    gaps = monitor.update([0.1, 0.2], ["a", "b"])
    assert [(g.first, g.last) for g in gaps] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert math.isnan(gaps[1].difference)
    assert gaps[1].interval == (-1.0, 1.0)
    assert "no two groups" in ParityMonitor(["a", "b"]).summary()


def test_wealth_is_a_fair_game() -> None:
    """Enumerated: at the true mean the expected wealth after each of five coins is 1."""
    truth, at = 0.25, 64
    assert GRID[at] == truth
    expected: npt.NDArray[np.float64] = np.zeros(2)
    for coins in range(2**5):
        x = np.array([(coins >> k) & 1 for k in range(5)], float)
        chance = np.prod(np.where(x == 1, truth, 1 - truth))
        growth = log_growth(x, bets(x, 0, 0.0, 0.0, math.log(40)))
        expected += chance * np.exp([growth[0][at], growth[1][at]])
    assert expected == pytest.approx([1.0, 1.0], abs=1e-12)


def dense_region(first: Any, last: Any, alpha: float) -> tuple[float, float]:
    """Every pair of cells looked at by itself."""
    kept = []
    for i in range(len(GRID) - 1):
        for j in range(len(GRID) - 1):
            corners = [
                max(first[0][i + a], first[1][i + a]) + max(last[0][j + b], last[1][j + b])
                for a in (0, 1)
                for b in (0, 1)
            ]
            kept.append(
                (min(corners) - 2 * math.log(2), GRID[j] - GRID[i + 1], GRID[j + 1] - GRID[i])
            )
    limit = max(math.log(1 / alpha), min(kept)[0] + 1e-9)
    inside = [(low, high) for evidence, low, high in kept if evidence < limit]
    return min(low for low, _ in inside), max(high for _, high in inside)


@pytest.mark.parametrize(("n", "alpha"), [(1, 0.05), (40, 0.05), (2_000, 0.01), (300, 0.999)])
def test_region_against_every_pair_of_cells(n: int, alpha: float) -> None:
    rng = np.random.default_rng(n)
    groups = []
    for rate in (0.2, 0.7):
        x = (rng.random(n) < rate).astype(float)
        groups.append(log_growth(x, bets(x, 0, 0.0, 0.0, math.log(40))))
    assert difference_region(groups[0], groups[1], alpha) == pytest.approx(
        dense_region(groups[0], groups[1], alpha), abs=1e-12
    )


def test_region_names_the_best_pair_where_nothing_is_left() -> None:
    """Wealth against every mean, least at points 10 and 200: the cells on either side of them."""
    points = np.arange(len(GRID))
    first, last = (50.0 + np.abs(points - at) for at in (10, 200))
    found = difference_region((first, first), (last, last), 0.05)
    assert found == pytest.approx((GRID[199] - GRID[11], GRID[201] - GRID[9]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": ["a"]}, "at least two different names"),
        ({"groups": ["a", "a"]}, "at least two different names"),
        ({"groups": "ab"}, "groups is 'ab': give a list"),
        ({"groups": [["a"], ["b"]]}, "a crossed group is a tuple"),
        ({"tolerance": None}, "tolerance is None: give one number"),
        ({"method": "welch"}, "method is 'welch'"),
        ({"tolerance": -0.1}, "tolerance is -0.1"),
        ({"tuned_for": 0}, "tuned_for is 0"),
        ({"level": 0.05}, "level is 0.05"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(MetricError, match=message):
        ParityMonitor(**({"groups": ["a", "b"]} | options))


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (([1.5], ["a"]), "scores is 1.5 in row 0"),
        (([math.nan], ["a"]), "scores is nan in row 0"),
        (([0.5], ["c"]), "group 'c' is not watched"),
        (([0.5, 0.5], ["a"]), "groups has 1 rows"),
    ],
)
def test_bad_batches_change_nothing(batch: tuple[Any, Any], message: str) -> None:
    monitor = ParityMonitor(["a", "b"])
    with pytest.raises(MetricError, match=message):
        monitor.update(*batch)
    assert monitor.n == 0


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"version": 2},
        {"streams": []},
        {"streams": [{"n": 1, "total": 5.0, "squares": 1.0}] * 2},
        {"streams": [{"n": 1, "total": "x", "squares": 1.0}] * 2},
        {"groups": ["a"]},
    ],
)
def test_damaged_states(change: dict[str, Any]) -> None:
    state = ParityMonitor(["a", "b"]).to_dict() | change
    with pytest.raises(FileFormatError, match="ParityMonitor"):
        ParityMonitor.from_dict(state)


def test_no_state_at_all() -> None:
    with pytest.raises(FileFormatError, match="give what to_dict returned"):
        ParityMonitor.from_dict("state.json")


def test_damaged_wealth() -> None:
    state = ParityMonitor(["a", "b"], method="betting").to_dict()
    state["streams"][0]["up"][3] = math.inf
    with pytest.raises(FileFormatError, match="not finite"):
        ParityMonitor.from_dict(state)


def test_looks_are_kept_within_limits_and_travel_with_the_state() -> None:
    monitor = ParityMonitor(["a", "b"])
    rng = np.random.default_rng(0)
    for _ in range(2100):
        monitor.update(rng.random(4), np.array(["a", "b", "a", "b"]))
    looks = monitor.looks
    assert len(looks) <= 2000
    assert looks[-1].n == monitor.n
    assert looks[-1].differences == (monitor.gaps()[0].difference,)
    assert [look.n for look in looks] == sorted({look.n for look in looks})
    state = json.loads(json.dumps(monitor.to_dict(), allow_nan=False))
    assert ParityMonitor.from_dict(state).looks == looks
    without = {name: value for name, value in state.items() if name != "looks"}
    assert ParityMonitor.from_dict(without).looks == ()
    for wrong in ([{"n": 1}], [{"n": 1, "differences": [0.1, 0.2], "intervals": [[0, 1]] * 2}]):
        with pytest.raises(FileFormatError):
            ParityMonitor.from_dict(state | {"looks": wrong})


def test_a_merged_monitor_begins_its_looks_anew() -> None:
    both = [ParityMonitor(["a", "b"]) for _ in range(2)]
    for monitor in both:
        monitor.update([0.1, 0.9], ["a", "b"])
    merged = both[0].merge(both[1])
    assert [look.n for look in merged.looks] == [4]
