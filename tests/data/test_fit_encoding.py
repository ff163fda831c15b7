"""Encodings: every library alike, stable there and back, every decision in words."""

from __future__ import annotations

import datetime as dt
import json
import warnings
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

from data import frames
from fairpc import LatNB
from fairpc.data import Column, Encoding
from fairpc.data._binning import bin_labels
from fairpc.data._frame import read_columns
from fairpc.data._values import read_values
from fairpc.errors import CodesError, TableError, TableWarning


def fitted(columns: frames.Columns, **options: Any) -> Encoding:
    return frames.fit_encoding(pl.DataFrame(columns, strict=False), **options)


@given(frames.tables(), st.sampled_from(["label", "quantile"]))
def test_libraries_agree(columns: frames.Columns, binning: Any) -> None:
    y = np.arange(len(columns["first"])) % 2
    found = {}
    for name, make in frames.LIBRARIES.items():
        frame = make(columns)
        encoding = frames.fit_encoding(frame, y=y, binning=binning)
        found[name] = (
            [(c.kind, c.levels, c.merged, c.edges, c.labels) for c in encoding.columns],
            encoding.transform(frame).tolist(),
        )
    for name in found:
        assert found[name] == found["polars"], name


@given(frames.tables())
def test_codes_are_in_range_and_holes_are_missing(columns: frames.Columns) -> None:
    encoding = fitted(columns)
    codes = encoding.transform(pl.DataFrame(columns, strict=False))
    assert codes.dtype == np.int16
    assert codes.flags.f_contiguous
    for j, column in enumerate(encoding.columns):
        assert codes[:, j].max() < column.arity
        assert ((codes[:, j] < 0) == [v is None for v in columns[column.name]]).all()
        share = np.mean([v is None for v in columns[column.name]])
        assert column.missing_share == pytest.approx(share)


@given(frames.tables(), st.sampled_from(["polars", "pandas", "pyarrow"]))
def test_inverse_then_transform_is_the_identity(columns: frames.Columns, library: str) -> None:
    encoding = fitted(columns)
    codes = encoding.transform(pl.DataFrame(columns, strict=False))
    frame = frames.LIBRARIES[library](encoding.inverse(codes))
    assert encoding.transform(frame).tolist() == codes.tolist()


@given(frames.tables(), st.integers(2, 9), st.floats(0, 0.2))
def test_a_file_brings_the_same_encoding_back(
    columns: frames.Columns, n_bins: int, rare: float
) -> None:
    encoding = fitted(columns, n_bins=n_bins, rare=rare, missing_values=("?", -999))
    again = Encoding.from_dict(json.loads(json.dumps(encoding.to_dict(), allow_nan=False)))
    assert again == encoding


def test_a_heavy_value_has_a_bin_of_its_own() -> None:
    gain = [0.0] * 900 + np.linspace(100, 9000, 100).tolist()
    column = fitted({"gain": gain}).columns[0]
    assert column.labels[:2] == ("≤ 0", f"(0, {column.labels[1].split(', ')[1]}")
    assert 7 <= column.arity <= 9
    codes = fitted({"gain": gain}).transform(pl.DataFrame({"gain": [-5.0, 0.0, 1e-9, 1e9]}))
    assert codes[:, 0].tolist() == [0, 0, 1, column.arity - 1]


def test_a_heavy_value_in_the_middle() -> None:
    hours = [40.5] * 500 + np.linspace(1, 40, 250).tolist() + np.linspace(41, 99, 250).tolist()
    column = fitted({"hours": hours}).columns[0]
    assert "40.5" in column.labels
    code = column.labels.index("40.5")
    codes = fitted({"hours": hours}).transform(pl.DataFrame({"hours": [40.49, 40.5, 40.51]}))
    assert codes[:, 0].tolist() == [code - 1, code, code + 1]


def test_bins_with_the_label_find_the_step() -> None:
    x = np.linspace(0, 1, 2000)
    y = (x > 0.93).astype(int)
    with_label = frames.fit_encoding(x[:, None], y=y, n_bins=2)
    assert 0.9 < with_label.columns[0].edges[0] < 0.95
    without = frames.fit_encoding(x[:, None], y=y, n_bins=2, binning="quantile")
    assert without.columns[0].edges == pytest.approx((0.5,), abs=0.01)
    for useless in (np.full(2000, -1), np.zeros(2000, int)):
        assert frames.fit_encoding(x[:, None], y=useless, n_bins=2) == without


def test_quantiles_are_weighted() -> None:
    x = np.arange(1000.0)[:, None] + 0.5
    weight = np.where(np.arange(1000) < 500, 3.0, 1.0)
    edge = frames.fit_encoding(x, sample_weight=weight, n_bins=2).columns[0].edges[0]
    assert edge == pytest.approx(1000 / 3, abs=5)
    assert frames.fit_encoding(x, sample_weight=weight * 1e-6, n_bins=2).columns[0].edges[0] == edge


@given(frames.tables(), st.data())
def test_a_whole_weight_is_a_repeated_row(columns: frames.Columns, data: st.DataObject) -> None:
    n = len(columns["first"])
    times = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    times[:12] = [1] * 12
    y = np.arange(n) // 2 % 2
    frame = pl.DataFrame(columns, strict=False)
    repeated = frame[np.repeat(np.arange(n), times)]
    weighted = frames.fit_encoding(frame, y=y, sample_weight=times)
    again = frames.fit_encoding(repeated, y=np.repeat(y, times))
    assert weighted.names == again.names
    for a, b in zip(weighted.columns, again.columns, strict=True):
        assert (a.levels, a.edges) == (b.levels, b.edges)


def test_rows_of_weight_zero_are_not_there() -> None:
    columns = {"a": ["x", "y"] * 30 + ["z"], "b": [*np.arange(60) % 7, 1000]}
    weight = [1.0] * 60 + [0.0]
    short = {name: values[:-1] for name, values in columns.items()}
    assert fitted(columns, sample_weight=weight) == fitted(short)


def test_a_row_of_weight_zero_hides_no_copy() -> None:
    """Nor is a level of it new: "z" is in no row that counts."""
    columns = {"a": ["x", "y"] * 30 + ["z"], "b": ["one", "two"] * 30 + ["one"]}
    found = frames.fit_encoding(
        pl.DataFrame(columns), y=np.arange(61) // 2 % 2, sample_weight=[1.0] * 60 + [0.0]
    )
    assert found.names == ("a",)


def test_bins_lie_between_edges() -> None:
    start = dt.datetime(1970, 1, 1)
    days = ((dt.datetime(2020, 1, d) - start) / dt.timedelta(microseconds=1) for d in (10, 20))
    age = Column("age", "number", edges=(25.0, 45.0), integral=True)
    day = Column("day", "date", edges=tuple(days))
    encoding = Encoding((age, day), (), ("age", "day"))
    assert age.labels == ("< 25", "[25, 45)", "≥ 45")
    assert day.labels == ("< 2020-01-10", "[2020-01-10, 2020-01-20)", "≥ 2020-01-20")
    codes = encoding.transform(pl.DataFrame({"age": [24, 25, 44, 45], "day": [None] * 4}))
    assert codes[:, 0].tolist() == [0, 1, 1, 2]


def test_rare_levels_merge_and_are_remembered() -> None:
    levels = ["a"] * 600 + ["b"] * 395 + ["c", "d", "e", "e", "e"]
    encoding = fitted({"x": levels})
    column = encoding.columns[0]
    assert (column.levels, column.merged) == (("a", "b"), ("c", "d", "e"))
    assert column.labels == ("a", "b", "other")
    codes = encoding.transform(pl.DataFrame({"x": ["e", "a", "other", None]}))
    assert codes[:, 0].tolist() == [2, 0, 2, -1]


def test_one_rare_level_keeps_its_name() -> None:
    assert fitted({"x": ["a"] * 600 + ["b"] * 399 + ["c"]}).columns[0].levels == ("a", "b", "c")


def test_a_level_called_other_is_not_the_merged_one() -> None:
    encoding = fitted({"x": ["other"] * 500 + ["b"] * 495 + ["p", "q", "r", "s", "t"]})
    assert encoding.columns[0].labels == ("b", "other", "(other)")
    codes = encoding.transform(pl.DataFrame({"x": ["other", "p", "(other)"]}))
    assert codes[:, 0].tolist() == [1, 2, 2]


def test_at_most_max_levels() -> None:
    levels = [f"l{i:02}" for i in range(40) for _ in range(50 + i)]
    column = fitted({"x": levels}).columns[0]
    assert column.arity == 16
    assert column.levels == tuple(f"l{i:02}" for i in range(25, 40))


def test_too_many_merged_levels_are_not_listed() -> None:
    levels = ["yes"] * 1000 + ["no"] * 1000 + [f"text {i}" for i in range(300)]
    encoding = fitted({"x": levels})
    assert encoding.columns[0].open
    assert not encoding.columns[0].merged
    codes = encoding.transform(pl.DataFrame({"x": ["no", "text 5", "never seen", None]}))
    assert codes[:, 0].tolist() == [0, 2, 2, -1]


def test_few_whole_numbers_are_categories_in_numeric_order() -> None:
    column = fitted({"x": [10, 9, 2, 1] * 30}).columns[0]
    assert (column.kind, column.levels) == ("category", (1, 2, 9, 10))


def test_rare_whole_numbers_join_their_neighbours() -> None:
    counts = {0: 900, 1: 50, 2: 40, 3: 4, 5: 3, 9: 3}
    encoding = fitted({"x": [v for v, n in counts.items() for _ in range(n)]})
    assert encoding.columns[0].labels == ("< 1", "1", "2", "≥ 3")
    assert encoding.transform(pl.DataFrame({"x": [4, 100, 2]}))[:, 0].tolist() == [3, 3, 2]


def test_text_that_is_numbers_or_dates() -> None:
    encoding = fitted(
        {
            "n": [str(i % 50) if i % 9 else "?" for i in range(100)],
            "d": [f"2020-0{1 + i % 9}-11 0{i % 7}:00:00" for i in range(100)],
            "code": [f"0{i % 5}" for i in range(100)],
        },
        missing_values=("?",),
    )
    assert [c.kind for c in encoding.columns] == ["number", "date", "category"]
    assert "text read as numbers" in encoding.lines()[0]
    frame = pl.DataFrame({"n": [" 1", "?"], "d": ["2020-01-01", None], "code": ["00", "?"]})
    assert encoding.transform(frame).tolist() == [[0, 0, 0], [-1, -1, -1]]


def test_digits_that_no_number_holds_are_names() -> None:
    """Beyond 2^53 neighbours would fall together; as whole numbers they are keys as well."""
    keys = [str(2**53 + i % 3) for i in range(60)]
    encoding = fitted({"key": keys, "amount": [f"{i % 40}e20" for i in range(60)]})
    assert [c.kind for c in encoding.columns] == ["category", "number"]
    assert encoding.columns[0].levels == tuple(sorted(set(keys)))
    assert fitted({"key": [int(k) for k in keys]}).columns[0].levels == tuple(
        int(k) for k in sorted(set(keys))
    )


KEYS = [2**53 + i % 3 for i in range(60)]


def decimals(keys: list[int]) -> list[Any]:
    """Tables of the keys as decimals, by several libraries."""
    pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    texts = list(map(Decimal, keys))
    return [
        pl.DataFrame({"key": pl.Series(keys).cast(pl.Decimal(30, 2))}),
        pa.table({"key": pa.array(texts, pa.decimal128(38, 4))}),
        pd.DataFrame({"key": texts}),
        np.array(texts, object)[:, None],
    ]


@pytest.mark.parametrize("k", range(4))
def test_decimals_are_whole_numbers_where_they_have_no_fraction(k: int) -> None:
    """So that keys that floats do not hold are the same whoever wrote them."""
    name, table = "x0" if k == 3 else "key", decimals(KEYS)[k]
    whole = fitted({name: KEYS}, categorical=(name,))
    levels = (2**53, 2**53 + 1, 2**53 + 2)
    assert whole.columns[0].levels == levels
    assert whole.transform(table)[:, 0].tolist() == [i % 3 for i in range(60)]
    again = frames.fit_encoding(table, categorical=(name,))
    assert again.columns[0].levels == levels


def test_decimals_with_fractions_stay_numbers() -> None:
    amounts = [Decimal(i) / 4 for i in range(60)]
    for written in (np.array(amounts, object), pl.Series(amounts).cast(pl.Decimal(30, 2))):
        values = read_values("amount", read_columns({"amount": written}, "x").columns[0])
        assert values.data.tolist() == [i / 4 for i in range(60)]


@pytest.mark.parametrize(
    "keys",
    [
        pl.Series(KEYS).cast(pl.Float64),
        pl.Series([*KEYS, None]),
        pl.Series([*KEYS, None]).cast(pl.Decimal(30, 2)),
        np.array([*map(Decimal, KEYS), Decimal("0.5")], object),
    ],
    ids=["floats", "holes", "decimals with holes", "fractions"],
)
def test_floats_that_cannot_hold_keys_are_refused(keys: Any) -> None:
    table = read_columns({"key": keys}, "x")
    said = r"column 'key' has 900719925474099\d as a float, .* 2\^53"
    with pytest.raises(TableError, match=said):
        frames.fit_encoding(table, categorical=("key",))
    for known in (KEYS, list(map(str, KEYS))):
        encoding = fitted({"key": known}, categorical=("key",))
        with pytest.raises(TableError, match=said):
            encoding.transform(table)


def test_large_floats_are_new_levels_where_no_level_is_as_large() -> None:
    encoding = fitted({"key": [i % 3 for i in range(60)]}, categorical=("key",))
    with pytest.warns(TableWarning, match="not seen at fit"):
        assert encoding.transform(pl.DataFrame({"key": [1e17, 2.0]}))[:, 0].tolist() == [-1, 2]


def test_numbers_can_mean_missing() -> None:
    encoding = fitted({"x": [*range(25), *range(25), *[-999] * 50]}, missing_values=(-999,))
    assert encoding.columns[0].missing_share == 0.5
    assert encoding.transform(pl.DataFrame({"x": [-999, 3]}))[:, 0].tolist() == [-1, 0]


def test_the_user_decides_what_a_column_is() -> None:
    ids = list(range(1000, 1100))
    columns: frames.Columns = {
        "zip": [94000 + i % 30 for i in range(100)],
        "id": ids,
        "w": [f"{i}" for i in ids],
    }
    encoding = fitted(columns, categorical=("zip",), numeric=("w",), max_levels=40)
    assert [(c.name, c.kind) for c in encoding.columns] == [("zip", "category"), ("w", "number")]
    assert encoding.columns[0].levels[0] == 94000


def test_what_is_dropped_and_why() -> None:
    n = 60
    encoding = fitted(
        {
            "id": [f"p{i:03}" for i in range(n)],
            "number": list(range(7000, 7000 + n)),
            "one": ["F"] * n,
            "none": [None] * n,
            "keep": [i % 3 for i in range(n)],
            "copy": ["abc"[(i + 1) % 3] for i in range(n)],
            "float": np.linspace(0, 1, n).tolist(),
            "secret": ["a", "b"] * (n // 2),
        },
        drop=("secret",),
    )
    assert encoding.names == ("keep", "float")
    reasons = {d.name: d.reason for d in encoding.dropped}
    assert reasons["id"].startswith("it has a different value in every row, like an identifier")
    assert reasons["number"] == reasons["id"]
    assert reasons["one"] == "it has one value ('F') wherever it is known"
    assert reasons["none"] == "it is missing in every row"
    assert reasons["copy"] == "it is a one-to-one copy of column 'keep'"
    assert reasons["secret"] == "left out on request"
    assert encoding.dropped[0].message.startswith("column 'id' is not used: it has a different")
    assert [record["column"] for record in encoding.describe()] == list(encoding.names_in)
    with pytest.raises(TableError, match="column 'one' is not used: it has one value"):
        encoding.column("one")


def test_measurements_are_no_copies_because_all_values_differ() -> None:
    x = np.random.default_rng(0).normal(size=(60, 3))
    assert not frames.fit_encoding(x).dropped
    scaled = np.column_stack([x[:, 0], 2.54 * x[:, 0]])
    assert [d.name for d in frames.fit_encoding(scaled).dropped] == ["x1"]


def test_a_copy_is_found_where_rare_values_merge() -> None:
    n = 1000
    grade = [1] * 2 + [2] * 3 + [3 + i % 9 for i in range(n - 5)]
    encoding = fitted({"word": [f"grade {g:02}" for g in grade], "grade": grade})
    assert encoding.columns[0].merged == ("grade 01", "grade 02")
    assert encoding.dropped[0].reason == "it is a one-to-one copy of column 'word'"


def test_an_unseen_level_is_missing_and_named() -> None:
    encoding = fitted({"x": ["a", "b"] * 20, "n": [1, 2] * 10 + [3, 3] * 10})
    with pytest.warns(TableWarning, match=r"column 'x' has 'martian', not seen at fit: 2 value"):
        codes = encoding.transform(pl.DataFrame({"x": ["martian", "a", "martian"], "n": [1] * 3}))
    assert codes[:, 0].tolist() == [-1, 0, -1]
    with pytest.warns(TableWarning, match=r"column 'n' has 7, 8, 9 and 1 more, not seen"):
        encoding.transform(pl.DataFrame({"x": ["a"] * 4, "n": [9, 10, 8, 7]}))


def test_absent_and_extra_columns() -> None:
    encoding = fitted({"x": ["a", "b"] * 20, "y": [1, 2, 3, 1] * 10})
    assert encoding.transform(pl.DataFrame({"z": [0], "y": [3], "x": ["b"]})).tolist() == [[1, 2]]
    with pytest.raises(TableError, match=r"column 'y' is absent: .* add it, with empty cells"):
        encoding.transform(pl.DataFrame({"x": ["b"]}))
    absent = encoding.transform(pl.DataFrame({"x": ["b"]}), allow_absent=True)
    assert absent.tolist() == [[1, -1]]


def test_arrays_are_known_by_position() -> None:
    x = np.array([[0, 5], [1, 6], [1, 5], [0, 6]] * 10)
    x[0] = [1, 6]
    encoding = frames.fit_encoding(x)
    assert encoding.names == ("x0", "x1")
    frame = pl.DataFrame(x, schema=["age", "sex"])
    with pytest.warns(TableWarning, match="columns are taken by their position"):
        coded = encoding.transform(frame)
    assert (coded == encoding.transform(x)).all()
    assert (frames.fit_encoding(frame).transform(x) == encoding.transform(x)).all()
    assert frames.fit_encoding(x, drop=(0,)).names == ("x1",)
    with pytest.raises(TableError, match="has 1 columns and had 2 at fit"):
        encoding.transform(x[:, :1])


@pytest.mark.parametrize("dtype", ["int8", "uint64", "float32", "bool", "U5", "datetime64[D]"])
def test_types_of_arrays(dtype: str) -> None:
    x = (np.arange(120) % 3 % 2).reshape(60, 2).astype(dtype)
    encoding = frames.fit_encoding(x[:, :1])
    assert encoding.transform(x[:, :1])[:, 0].tolist() == (np.arange(60) * 2 % 3 % 2).tolist()


def test_pandas_types() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "c": pd.Categorical(["u", "v", None, "v"] * 10),
            "i": pd.Categorical([100, 2, None, 30] * 10),
            "n": pd.array([1, None, 3, 1] * 10, dtype="Int64"),
            "b": pd.array([True, None, False, False] * 10, dtype="boolean"),
            "t": pd.to_datetime(["2020-01-01", None, "2021-01-01", "2022-02-02"] * 10),
            "z": pd.to_datetime(["2020-01-01"] * 30 + ["2021-01-01"] * 10).tz_localize("UTC"),
            "s": ["x", None, float("nan"), "y"] * 10,
        }
    )
    encoding = frames.fit_encoding(frame)
    kinds = ["category", "category", "category", "boolean", "date", "date", "category"]
    assert [c.kind for c in encoding.columns] == kinds
    assert encoding.columns[1].levels == (2, 30, 100)
    codes = encoding.transform(frame)
    assert codes[:4].tolist() == [
        [0, 2, 0, 1, 0, 0, 0],
        [1, 0, -1, -1, -1, 0, -1],
        [-1, -1, 1, 0, 1, 0, -1],
        [1, 1, 0, 0, 2, 0, 1],
    ]
    assert (encoding.transform(pd.DataFrame(encoding.inverse(codes))) == codes).all()


def test_inverse_checks_its_codes() -> None:
    encoding = fitted({"x": ["a", "b"] * 20})
    assert encoding.inverse([[0], [-1]]) == {"x": ["a", None]}
    with pytest.raises(CodesError, match="column 'x' has code 2 in row 0"):
        encoding.inverse([[2]])


def test_huge_integers_keep_their_digits() -> None:
    encoding = fitted({"x": [2**60, 2**60 + 1, 2**60 + 1] * 20})
    assert encoding.columns[0].levels == (2**60, 2**60 + 1)
    assert encoding.transform(pl.DataFrame({"x": [2**60 + 1]})).tolist() == [[1]]


@pytest.mark.parametrize(
    "values",
    [
        [-1e308, 1e308],
        [-1.7976931348623157e308, 0.0, 1.7976931348623157e308],
        [k * 1e307 for k in range(-17, 18)],
        [k * 5e-324 for k in range(9)],
        [10.0**k for k in range(-323, 309)],
    ],
    ids=["two", "largest", "wide", "tiny", "all sizes"],
)
def test_numbers_at_the_ends_of_double_precision(values: list[float]) -> None:
    """Differences of them are infinite, or nothing; codes are in the order of the values."""
    encoding = fitted({"x": values * 20})
    codes = encoding.transform(pl.DataFrame({"x": values}))[:, 0].tolist()
    assert codes == sorted(codes)
    assert len(set(codes)) > 1
    bins, every = encoding.columns[0].intervals, np.arange(encoding.columns[0].arity)
    assert np.isfinite(bins.log_density(1.0)).all()
    drawn = bins.quantiles(every.astype(np.int16), np.full(len(every), 0.5))
    assert encoding.transform(pl.DataFrame({"x": drawn}))[:, 0].tolist() == every.tolist()
    assert bins.between(-np.inf, np.inf).tolist() == [1.0] * len(every)
    assert Encoding.from_dict(json.loads(json.dumps(encoding.to_dict()))) == encoding


def test_many_rows_take_edges_from_joined_points(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(1).normal(size=(20_000, 1))
    exact = frames.fit_encoding(x).columns[0].edges
    monkeypatch.setattr("fairpc.data._summary.FEW_ROWS", 5_000)
    monkeypatch.setattr("fairpc.data._column_summary.MOST", 5_000)
    monkeypatch.setattr("fairpc.data._column_summary.RUNS", 1_000)
    assert frames.fit_encoding(x).columns[0].edges == pytest.approx(exact, abs=0.1)
    ids = np.random.default_rng(0).permutation(20_000)[:, None] * 1000
    with pytest.raises(TableError, match="no column is left to learn from: column 'x0' is not"):
        frames.fit_encoding(ids)


BAD: list[tuple[Any, dict[str, Any], str]] = [
    ({"a": []}, {}, "the table is empty: it has no rows, give at least one"),
    (np.empty((0, 3)), {}, "the table is empty: it has no rows, give at least one"),
    (np.empty((3, 0)), {}, r"0 feature\(s\) \(shape=\(3, 0\)\) while a minimum of 1 is required"),
    (np.zeros((2, 10_000)), {}, "10,000 columns: at most 4,096 can be learned from"),
    (np.zeros(3), {}, "Reshape your data"),
    ({"x": [1.5, np.inf, 2.0]}, {}, "column 'x' has inf in row 1: numbers must be finite"),
    ({"x": ["1", "b", "2"]}, {"numeric": ["x"]}, "column 'x' has 'b' in row 1: it was declared"),
    (np.array([[1j], [2]]), {}, "Complex data not supported: column 'x0'"),
    (np.array([[[1], [2]], [[3], [4]]]), {}, "the table has 3 dimension"),
    ({"x": [[1], [2]]}, {}, r"column 'x' holds List\(Int64\): give text, numbers, booleans"),
    ({"x": [1, 1, 1]}, {}, "no column is left to learn from: column 'x' is not used: it has one"),
    ({"x": [1, 2]}, {"drop": ["z"]}, "column 'z' in drop is not in the table: its columns are 'x'"),
    ({"x": [1, 2]}, {"n_bins": 1}, "n_bins is 1: give a number from 2"),
    ({"x": [1, 2]}, {"max_levels": 1}, "max_levels is 1: give from 2"),
    ({"x": [1, 2]}, {"rare": 1.0}, "rare is 1.0: give a share"),
    ({"x": [1, 2]}, {"binning": "magic"}, "binning is 'magic': use 'label' or 'quantile'"),
    ({"x": [1, 2]}, {"numeric": "x", "categorical": "x"}, "'x' is named numeric and categorical"),
    ("text.csv", {}, "the table is the text 'text.csv': give a frame or an array"),
    ([[1, 2], [3]], {}, "cannot be read as rows × columns"),
]


@pytest.mark.parametrize(("table", "options", "sentence"), BAD)
def test_bad_tables_get_a_sentence(table: Any, options: dict[str, Any], sentence: str) -> None:
    frame = pl.DataFrame(table) if isinstance(table, dict) else table
    with pytest.raises(TableError, match=sentence):
        frames.fit_encoding(frame, **options)


def test_bad_weights_get_a_sentence() -> None:
    with pytest.raises(CodesError, match=r"the weight of row 1 is -1.0: weights are finite and"):
        fitted({"x": [1, 2]}, sample_weight=[1, -1])


def test_duplicate_names_get_a_sentence() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"])
    with pytest.raises(TableError, match=r"column 'a' appears 2 times: column names must differ"):
        frames.fit_encoding(frame)
    mixed = pd.DataFrame([[1, 2], [3, 4]], columns=[1, "1"])
    with pytest.raises(TableError, match="column '1' appears 2 times"):
        frames.fit_encoding(mixed)


def test_frames_that_are_not_tables_yet() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(TableError, match="sparse matrix: give a dense array"):
        frames.fit_encoding(sparse.eye_array(3).tocsr())
    with pytest.raises(TableError, match=r"lazy frame: give its rows, frame.collect\(\)"):
        frames.fit_encoding(pl.LazyFrame({"a": [1]}))


def test_a_column_that_changed_its_type() -> None:
    encoding = fitted(
        {"n": np.linspace(0, 1, 30).tolist(), "d": [dt.date(2020, 1, 1 + i % 7) for i in range(30)]}
    )
    day, number = dt.date(2020, 1, 1), 0.5
    with pytest.raises(TableError, match="column 'n' holds a date and held a number at fit"):
        encoding.transform(pl.DataFrame({"n": [day], "d": [day]}))
    with pytest.raises(TableError, match="column 'd' holds a number and held a date at fit"):
        encoding.transform(pl.DataFrame({"n": [number], "d": [number]}))
    with pytest.raises(TableError, match="column 'd' has 'yesterday': it held dates at fit"):
        encoding.transform(pl.DataFrame({"n": [number], "d": ["yesterday"]}))


@frames.needs_data
def test_adult() -> None:
    table = frames.adult()
    y = (table["target"] == ">50K").to_numpy().astype(np.int64)
    encoding = frames.fit_encoding(table.drop("target"), y=y, missing_values=("?",))
    assert [d.name for d in encoding.dropped] == ["education-num"]
    gain = encoding.column("capital-gain")
    assert gain.labels[0] == "< 1"
    assert 6 <= gain.arity <= 9
    assert encoding.column("workclass").missing_share == pytest.approx(1836 / 32561)
    codes = encoding.transform(table)
    assert (codes[:, encoding.names.index("capital-gain")] == 0).mean() > 0.9
    assert (encoding.transform(pl.DataFrame(encoding.inverse(codes))) == codes).all()
    assert Encoding.from_dict(encoding.to_dict()) == encoding


@frames.needs_data
def test_german_and_compas() -> None:
    german = frames.fit_encoding(frames.german()[:, :20])
    assert not german.dropped
    assert max(german.arities) <= 16
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compas = frames.fit_encoding(frames.compas())
    dropped = {d.name: d.reason for d in compas.dropped}
    assert "identifier" in dropped["id"]
    assert "copy of column 'compas_screening_date'" in dropped["screening_date"]
    assert compas.column("c_jail_in").kind == "date"


@pytest.mark.parametrize("spelt", [("false", "true"), ("False", "True"), ("FALSE", "TRUE")])
def test_booleans_are_found_among_levels_that_spell_them(spelt: tuple[str, str]) -> None:
    truths = [True, False, None, False] * 10
    texts = [None if t is None else spelt[t] for t in truths]
    encoding = frames.fit_encoding(pl.DataFrame({"flag": texts}))
    expected = encoding.transform(pl.DataFrame({"flag": texts}))
    assert np.array_equal(encoding.transform(pl.DataFrame({"flag": truths})), expected)
    assert expected[:, 0].tolist() == [1, 0, -1, 0] * 10


def rates(edges: tuple[float, ...], x: Any, y: Any) -> list[tuple[int, float]]:
    """Rows and rate of the label in each bin."""
    codes = np.searchsorted(edges, x, side="right")
    return [((codes == k).sum(), y[codes == k].mean()) for k in range(len(edges) + 1)]


def labelled(*parts: tuple[float, float, int, float]) -> tuple[Any, Any]:
    """Rows spread evenly from low to high, with a rate of the label, for each part."""
    x = np.concatenate([np.linspace(low, high, n, endpoint=False) for low, high, n, _ in parts])
    y = np.concatenate([np.arange(n) < round(n * rate) for _, _, n, rate in parts]).astype(int)
    order = np.random.default_rng(0).permutation(len(x))
    shuffled = np.concatenate(
        [np.random.default_rng(1).permutation(part) for part in np.split(y, _ends(parts))]
    )
    return x[order], shuffled[order]


def _ends(parts: tuple[tuple[float, float, int, float], ...]) -> Any:
    return np.cumsum([n for _, _, n, _ in parts])[:-1]


def test_a_bin_of_few_rows_is_no_outlier_between_equal_neighbours() -> None:
    """34 rows with a rate of 0 between rates of .15 are chance; 300 are not."""
    for rows, kept in ((34, False), (300, True)):
        x, y = labelled((0, 10, 600, 0.15), (10, 11, rows, 0.0), (11, 20, 600, 0.15))
        column = frames.fit_encoding(pl.DataFrame({"x": x}), y=y).columns[0]
        zero = [n for n, rate in rates(column.edges, x, y) if rate == 0 and n >= 30]
        assert bool(zero) == kept


def test_a_light_bin_at_an_end_stays_if_it_differs() -> None:
    x, y = labelled((0, 10, 900, 0.7), (10, 20, 34, 0.2))
    column = frames.fit_encoding(pl.DataFrame({"x": x}), y=y).columns[0]
    rows, rate = rates(column.edges, x, y)[-1]
    assert rows < 60
    assert rate < 0.4


def test_labels_of_narrow_numbers_are_what_a_person_writes() -> None:
    rng = np.random.default_rng(0)
    values = np.where(rng.random(500) < 0.4, 3.2, np.round(rng.normal(3, 1, 500), 1))
    for dtype in (np.float32, np.float64):
        frame = pl.DataFrame({"x": values.astype(dtype)})
        encoding = frames.fit_encoding(frame)
        column = encoding.columns[0]
        assert "3.2" in column.labels
        assert max(map(len, column.labels)) <= len("(-1.25, 3.25]")
        heavy = column.labels.index("3.2")
        for number in {3.2, float(dtype(3.2))}:
            assert encoding.transform(pl.DataFrame({"x": [number]}))[0, 0] == heavy
        drawn = column.intervals.quantiles(np.array([heavy], np.int16), 0.5)
        assert dtype(drawn[0]) == dtype(3.2)
        assert column.intervals.log_density(1.0)[heavy] == 0  # it is a mass


def test_two_edges_that_are_one_narrow_number_keep_their_digits() -> None:
    labels = bin_labels((3.2, float(np.float32(3.2)), 3.3), integral=False, date=False)
    assert len(set(labels)) == 4
    assert labels[1] == "[3.2, 3.200000047683716)"


@pytest.mark.parametrize(("decimal", "other"), [(".", ","), (",", ".")])
def test_numbers_under_another_mark_are_said(decimal: Any, other: str) -> None:
    """As names they tell little: a table of another country would be learned from badly."""
    rows = pl.DataFrame({"paid": [f"{k % 7}{other}5" for k in range(70)], "sex": ["f", "m"] * 35})
    label = np.arange(70) % 3 == 0
    with pytest.warns(TableWarning, match=f"'paid' holds numbers .* decimal='{other}'"):
        model = LatNB("sex", decimal=decimal, max_iter=2, guard=False).fit(rows, label)
    assert model.coding_.features.columns[0].kind == "category"
    for settings in ({"decimal": other}, {"decimal": decimal, "categorical": ["paid"]}):
        LatNB("sex", max_iter=2, guard=False, **settings).fit(rows, label)
