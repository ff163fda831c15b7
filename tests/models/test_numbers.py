"""Numbers as numbers: every query with continuous, whole, date and category columns mixed."""

from __future__ import annotations

import datetime as dt
import math
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from fairpc import FairPC, LatNB, NLatPC, TwoNB, load
from fairpc.data import Column, read_values
from fairpc.errors import EvidenceError, QueryError, TableWarning
from fairpc.models import CircuitClassifier, parse

CLOSE = 1e-9
FIRST_DAY = dt.date(2020, 1, 1)


def people(n: int = 600, seed: int = 0) -> tuple[pl.DataFrame, pl.Series]:
    """Columns of every kind, with holes; the label goes with amount and age."""
    rng = np.random.default_rng(seed)
    f = rng.integers(0, 2, n)
    amount = np.where(rng.random(n) < 0.3, 0.0, np.exp(rng.normal(7.0 + f, 1.0)))
    height = rng.normal(170.0, 10.0, n).astype(np.float32)
    frame = pl.DataFrame(
        {
            "amount": np.where(rng.random(n) < 0.1, np.nan, np.round(amount, 2)),
            "age": rng.integers(18, 75, n) + 8 * f,
            "height": height,
            "day": [FIRST_DAY + dt.timedelta(days=int(k)) for k in rng.integers(0, 900, n)],
            "job": rng.choice(["clerk", "cook"], n).tolist(),
            "sex": rng.choice(["F", "M"], n).tolist(),
        }
    ).with_columns(pl.col("amount").fill_nan(None))
    return frame, pl.Series("y", np.where(rng.random(n) < 0.15 + 0.7 * f, "yes", "no"))


SETTINGS: dict[str, dict[str, Any]] = {
    "circuit": {"structure": "chow-liu", "n_bins": 4},
    "forest": {"structure": "forest", "n_bins": 6, "rare": 0.2},
    "strata": {"structure": "forest", "n_bins": 4, "given": "age"},
}


@pytest.fixture(scope="module", params=sorted(SETTINGS))
def model(request: pytest.FixtureRequest) -> FairPC:
    X, y = people()
    settings = {"random_state": 0, "guard": False, "max_iter": 60} | SETTINGS[request.param]
    return fitted(FairPC("sex", numeric=["age"], **settings), X, y)


def fitted(model: FairPC, X: pl.DataFrame, y: pl.Series) -> FairPC:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)  # of strata with few rows
        return model.fit(X, y)


def columns(model: CircuitClassifier) -> dict[str, Column]:
    return {column.name: column for column in model.coding_.features.columns}


def bins_of(model: CircuitClassifier, name: str) -> list[tuple[float, float]]:
    edges = columns(model)[name].edges
    return list(pairwise([-math.inf, *edges, math.inf]))


def numbers_of(frame: pl.DataFrame, column: Column) -> Any:
    return column.exact_numbers(read_values(column.name, frame[column.name].to_numpy()))


def test_scores_are_masses_of_bins_over_their_widths(model: FairPC) -> None:
    """P(x) of a row with one known number is P(its bin) over the width of the bin."""
    X, _ = people()
    for name in ("amount", "age", "height"):
        column = columns(model)[name]
        known = X[name].drop_nulls()[:30]
        rows = pl.DataFrame({name: known}).with_columns(**nothing(model, name))
        masses = [model.probability({name: ends}) for ends in bins_of(model, name)]
        of_one = float(column.integral)
        low, high = column.ends
        ends = [low, *column.edges, high + of_one]
        widths = np.diff(ends)
        codes = np.searchsorted(
            column.edges, numbers_of(X, column)[X[name].is_not_null()][:30], "right"
        )
        single = widths < 1e-9
        expected = np.array(masses) / np.where(single, 1.0, widths)
        assert np.exp(model.score_samples(rows)) == pytest.approx(expected[codes], rel=1e-9)
    assert columns(model)["amount"].intervals.widths.min() == 0  # that of 0


def nothing(model: FairPC, but: str = "height") -> dict[str, Any]:
    return {name: pl.lit(None) for name in columns(model) if name != but}


def test_draws_have_the_types_and_the_spread_of_the_columns(model: FairPC) -> None:
    X, _ = people()
    drawn = model.sample(4000, 0)
    kinds = {"amount": pl.Float64, "age": pl.Int64, "height": pl.Float64, "day": pl.Date}
    assert {name: drawn.schema[name] for name in kinds} == kinds
    assert drawn.equals(model.sample(4000, 0))
    for name in ("amount", "height", "age"):
        known = X[name].drop_nulls().to_numpy()
        assert known.min() <= drawn[name].min()
        assert drawn[name].max() <= known.max() * 1.1
        assert stats.ks_2samp(drawn[name].to_numpy(), known).statistic < 0.25  # two bins at least
    share = (drawn["amount"] == 0).mean()
    assert share == pytest.approx(model.probability({"amount": 0}), abs=0.03)
    assert np.isfinite(model.score_samples(drawn.select(X.columns[:-1]))).all()


def test_what_is_known_stays_and_the_rest_is_the_middle_of_a_bin(model: FairPC) -> None:
    X, y = people()
    rows = X[:40].with_columns(
        pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.col("height")).alias("height")
    )
    done = model.complete(rows, y[:40])
    for name in ("amount", "age", "day", "height"):
        column = columns(model)[name]
        every = np.arange(column.arity, dtype=np.int16)
        medians = set(column.intervals.quantiles(every, 0.5).tolist())
        given = rows[name].to_list()
        for value, found in zip(given, done[name].to_list(), strict=True):
            if value is None:
                assert float(found) in medians
            else:
                assert found == value
    assert done["y" if "y" in done.columns else "D"].to_list() == y[:40].to_list()


def test_intervals_equal_sums_of_fine_bins(model: FairPC) -> None:
    """P(Df, a <= x < b) is the sum over bins of P(Df, bin) times the share of the bin."""
    rng = np.random.default_rng(3)
    for name in ("amount", "age", "height"):
        column = columns(model)[name]
        for _ in range(5):
            known = numbers_of(people()[0], column)
            low, high = np.sort(rng.choice(known[~np.isnan(known)], 2, replace=False))
            if low == high:
                continue
            given = {name: (float(low), float(high)), "job": "cook"}
            found = model.probability({"Df": "yes"}, given)
            fine = np.unique([low, high, *rng.uniform(low, high, 12)])
            parts = {}
            for decision in ({"Df": "yes"}, {}):
                parts[len(decision)] = math.fsum(
                    model.probability({name: (float(a), float(b)), "job": "cook"} | decision)
                    for a, b in pairwise(fine)
                )
            if parts[0] > 1e-12:
                assert found == pytest.approx(parts[1] / parts[0], abs=CLOSE)
            by_bins = math.fsum(
                model.probability({name: (a, b), "job": "cook", "Df": "yes"})
                * column.intervals.between(float(low), float(high))[k]
                for k, (a, b) in enumerate(bins_of(model, name))
            )
            assert parts[1] == pytest.approx(by_bins, abs=CLOSE)


@pytest.mark.parametrize(
    ("text", "event", "given_"),
    [
        ("Df=yes | age > 37", {"Df": "yes"}, {"age": (38, None)}),
        ("Df=yes | age >= 37.5, job=cook", {"Df": "yes"}, {"age": (38, None), "job": "cook"}),
        (
            "Df=yes | age > 37, 1000 <= amount < 5000",
            {"Df": "yes"},
            {"age": (38, None), "amount": (1000, 5000)},
        ),
        ("5000 > amount >= 1000", {"amount": (1000, 5000)}, {}),
        ("amount > 0 | sex=F", {"amount": (5e-324, None)}, {"S": "F"}),
        ("amount = 0 | D=no", {"amount": 0}, {"D": "no"}),
        ("age = 40 | Df=no", {"age": 40}, {"Df": "no"}),
        ("age = 40 | Df=no", {"age": (40, 41)}, {"Df": "no"}),
        ("height < 171.3, height > 160", {"height": (np.nextafter(160, 161), 171.3)}, {}),
        ("day <= 2021-03-04 | job!=cook", {"day": (None, "2021-03-05")}, {"job": "clerk"}),
        ("day = 2021-03-04", {"day": (dt.date(2021, 3, 4), dt.date(2021, 3, 5))}, {}),
    ],
)
def test_words_and_python_agree(model: FairPC, text: str, event: Any, given_: Any) -> None:
    (_, found), *more = model._words().answer(parse(text)).rows
    assert not more
    assert found == pytest.approx(model.probability(event, given_), abs=1e-12)
    assert 0 < found < 1


def test_terms_on_one_column_meet(model: FairPC) -> None:
    """Two shares of a bin are not independent events: intervals are cut, not multiplied."""
    words = model._words()

    def p(text: str) -> float:
        return words.answer(parse(text)).rows[0][1]

    assert p("amount > 900, amount < 1000") == pytest.approx(p("900 < amount < 1000"), abs=1e-15)
    assert p("amount < 900 | amount > 1000") == 0.0
    assert p("age != 40") == pytest.approx(1 - p("age = 40"), abs=1e-12)
    assert p("amount != 0") == pytest.approx(1 - p("amount = 0"), abs=1e-12)
    with pytest.raises(EvidenceError, match="has probability zero"):
        p("Df=yes | amount < 900, amount > 1000")
    with pytest.raises(EvidenceError, match="has probability zero"):
        model.probability({"Df": "yes"}, {"amount": (5.0, 5.0)})


def test_a_number_without_a_mass_is_read_as_its_bin(model: FairPC) -> None:
    column = columns(model)["height"]
    words = model._words()
    (reading,) = words.answer(parse("Df | height=171.25")).readings
    code = int(np.searchsorted(column.edges, 171.25, side="right"))
    assert reading.values == (column.labels[code],)
    cut = model._words().answer(parse("Df | height > 171.25")).readings[0].values
    assert cut[0] == f"part of {column.labels[code]}"
    assert cut[1:] == column.labels[code + 1 :]
    with pytest.raises(QueryError, match="is one of several values"):
        words.answer(parse("height != 171.25"))


@pytest.mark.parametrize(
    ("event", "says"),
    [
        ({"job": (1, 2)}, "'job' has no order"),
        ({"age": (1, 2, 3)}, "an interval of 'age' has 3 ends"),
        ({"age": ("old", None)}, "'old' is not a number"),
        ({"age": (math.nan, None)}, "nan is not a number"),
        ({"day": ("soon", None)}, "'soon' is not a date"),
    ],
)
def test_bad_intervals_get_a_sentence(model: FairPC, event: Any, says: str) -> None:
    with pytest.raises(QueryError, match=says):
        model.probability(event)


@pytest.mark.parametrize("text", ["3 < amount = 4", "3 < amount > 4", "9 > age > "])
def test_bad_chains_get_a_sentence(model: FairPC, text: str) -> None:
    with pytest.raises(QueryError):
        model._words().answer(parse(text))


@pytest.mark.parametrize("kind", [FairPC, NLatPC, LatNB, TwoNB])
def test_a_file_holds_how_far_bins_reach(kind: Any, tmp_path: Path) -> None:
    X, y = people(300)
    chosen = {"structure": "chow-liu"} if kind in (FairPC, NLatPC) else {}
    model = kind("sex", max_iter=5, guard=False, **chosen).fit(X, y)
    model.save(tmp_path / "m.fairpc")
    again = load(tmp_path / "m.fairpc")
    assert again.coding_.features == model.coding_.features
    assert np.array_equal(again.score_samples(X, y), model.score_samples(X, y))
    assert again.sample(50, 1).equals(model.sample(50, 1))


def test_files_of_rows_give_the_same_columns(tmp_path: Path) -> None:
    X, y = people(500)
    frame = X.with_columns(y)
    frame[:200].write_parquet(tmp_path / "a.parquet")
    frame[200:].write_parquet(tmp_path / "b.parquet")
    settings: dict[str, Any] = {"max_iter": 5, "guard": False}
    memory = LatNB("sex", **settings).fit(X, y)
    streamed = LatNB("sex", **settings).fit(str(tmp_path), "y")
    assert streamed.coding_.features.columns == memory.coding_.features.columns
    expected = memory.score_samples(X, y)
    assert np.array_equal(streamed.score_samples(str(tmp_path), "y"), expected)
