"""A table read in parts is encoded as the table in memory is."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

from data import frames
from fairpc.data import (
    Distinct,
    DistinctSum,
    EncodingOptions,
    FrameSource,
    LazySource,
    Packing,
    ReadingProgress,
    Roles,
    RowEncoder,
    Source,
    TableCoding,
    _column_summary as sketches,
    _summary as summary_module,
    add_distinct,
    fit_coding,
    fit_groups,
    fit_labels,
    is_source,
    open_source,
    read_frame,
)
from fairpc.data._column_summary import Numbers, QuantileSketch, add_sketches
from fairpc.data._source import SumTree
from fairpc.data._summary import Summary, add_summaries, listed, summarise
from fairpc.errors import CodesError, FileFormatError, TableError


def table(n: int = 600, seed: int = 0) -> pl.DataFrame:
    """One column of each sort that the encoder knows."""
    rng = np.random.default_rng(seed)
    f = rng.random(n) < 0.4
    age = rng.integers(17, 90, n)
    job = rng.choice(["clerk", "cook", "judge", "none"], n, p=[0.5, 0.3, 0.195, 0.005])
    day = [dt.date(2020, 1, 1) + dt.timedelta(days=int(k)) for k in rng.integers(0, 400, n)]
    return pl.DataFrame(
        {
            "sex": rng.choice(["F", "M"], n),
            "age": age,
            "income": np.exp(rng.normal(10.0 + f, 1.0)),
            "gain": np.where(rng.random(n) < 0.8, 0, rng.integers(1, 99_999, n)),
            "job": job,
            "job_code": np.array([{"clerk": 7, "cook": 1, "judge": 3, "none": 9}[j] for j in job]),
            "married": [None if r < 0.1 else bool(r < 0.5) for r in rng.random(n)],
            "day": day,
            "spoken": rng.choice(["1", "2", "10"], n),
            "city": pl.Series(rng.choice(["a", "b", "?"], n)).cast(pl.Categorical),
            "score": [None if r < 0.2 else round(r, 1) for r in rng.random(n)],
            "person": np.arange(n) * 3,
            "key": rng.integers(0, 3, n) + 2**60,
            "constant": ["x"] * n,
            "empty": pl.Series([None] * n, dtype=pl.String),
            "weight": rng.integers(0, 4, n),
            "label": (f ^ (rng.random(n) < 0.1)).astype(np.int8),
        }
    )


FEATURES = tuple(name for name in table(5).columns if name not in ("sex", "label", "weight"))
PLAIN = Roles("label", ("sex",), FEATURES, missing_values=("?",))
WEIGHTED = replace(PLAIN, weight="weight")


class Cut(Source):
    """A table in memory, cut into batches."""

    def __init__(self, batches: list[pl.DataFrame]) -> None:
        self.batches, self.names = batches, tuple(batches[0].columns)

    @property
    def n_rows(self) -> float:
        return sum(map(len, self.batches))

    def map(self, columns: Any, work: Any, stage: str = "", watch: Any = None) -> Any:
        return (work(read_frame(batch.select(columns))) for batch in self.batches)


def summed(frame: pl.DataFrame, roles: Roles) -> Summary:
    return summarise(read_frame(frame), roles)


def coded(source: Source, roles: Roles, **options: Any) -> TableCoding:
    return fit_coding(source, roles, **options)[0]


def pieces(frame: pl.DataFrame, cuts: list[int]) -> list[pl.DataFrame]:
    bounds = sorted({0, len(frame), *(c % len(frame) for c in cuts)})
    return [frame[a:b] for a, b in pairwise(bounds)]


@given(st.lists(st.integers(0, 599), max_size=6), st.booleans())
def test_batches_give_the_encoding_of_the_whole(cuts: list[int], weighted: bool) -> None:
    frame = table()
    coding = coded(Cut(pieces(frame, cuts)), WEIGHTED if weighted else PLAIN)
    weights = frame["weight"].to_numpy() if weighted else None
    labels = fit_labels(frame["label"], sample_weight=weights, missing_values=("?",))
    groups = fit_groups(frame.select("sex"), sample_weight=weights, missing_values=("?",))
    expected = frames.fit_encoding(
        frame.select("sex", *FEATURES),
        y=labels.transform(frame["label"]),
        drop=["sex"],
        sample_weight=weights,
        missing_values=("?",),
    )
    assert coding.features.columns == expected.columns
    assert coding.labels == labels
    assert coding.groups == groups
    assert coding.features.names_in == tuple(
        n for n in frame.columns if n not in ("label", "weight" if weighted else "")
    )


def test_fractional_weights_scale_as_in_memory() -> None:
    frame = table(617).with_columns(pl.col("weight") * 0.37 + 0.01)
    coding = coded(Cut(pieces(frame, [80, 300])), WEIGHTED)
    weights = frame["weight"].to_numpy()
    y = fit_labels(frame["label"], sample_weight=weights).transform(frame["label"])
    expected = frames.fit_encoding(
        frame.select("sex", *FEATURES),
        y=y,
        sample_weight=weights,
        drop=["sex"],
        missing_values=("?",),
    )
    ours, theirs = (
        [(c.name, c.edges, c.levels, c.merged, c.done) for c in e.columns]
        for e in (coding.features, expected)
    )
    assert ours == theirs


@pytest.mark.parametrize("cuts", [[], [50, 51]])
def test_with_fractional_weights_a_value_that_occurs_twice_is_no_identifier(
    cuts: list[int],
) -> None:
    """Weights add up, and say no longer how many rows there were."""
    n = 100
    frame = pl.DataFrame(
        {
            "sex": ["F", "M"] * (n // 2),
            "label": np.arange(n) // 2 % 2,
            "weight": np.linspace(0.1, 0.9, n),
            "pair": [f"p{k // 2}" for k in range(n)],
            "person": [f"p{k}" for k in range(n)],
            "number": np.arange(n) * 7,
            "twin": np.arange(n) % 50 * 7,
        }
    )
    roles = Roles("label", ("sex",), ("pair", "person", "number", "twin"), "weight")
    found = coded(Cut(pieces(frame, cuts)), roles).features
    reasons = {d.name: d.reason for d in found.dropped}
    assert "identifier" in reasons["person"]
    assert "identifier" in reasons["number"]
    assert "twin" in found.names
    assert "identifier" not in reasons.get("pair", "")


@pytest.fixture
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """QuantileSketch and texts are joined as if a hundred were many."""
    monkeypatch.setattr(sketches, "MOST", 64)
    monkeypatch.setattr(sketches, "RUNS", 32)


@given(
    st.lists(
        st.lists(st.one_of(st.integers(0, 40), st.floats(-1e3, 1e3)), min_size=1, max_size=60),
        min_size=1,
        max_size=5,
    ),
    st.integers(2, 20),
)
def test_joined_points_keep_ranks_within_their_error(parts: list[list[float]], runs: int) -> None:
    everything = np.sort(np.concatenate([np.array(part, float) for part in parts]))
    made = []
    for part in parts:
        values = np.array(part, float)
        counted = QuantileSketch.count(values, np.arange(len(values)) % 2, 2)
        made.append(counted.joined(runs, runs))
    total = add_sketches(made).joined(2 * runs, runs)
    assert total.weights.sum() == len(everything)
    for edge in np.unique(everything):
        below = total.weights[total.values < edge].sum()
        assert abs(below - (everything < edge).sum()) <= total.error + 1e-9


@pytest.mark.usefixtures("small_bounds")
def test_rows_joined_at_once_keep_ranks_and_heavy_values() -> None:
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.normal(size=3000), np.full(1500, 0.25)])
    found = QuantileSketch.count(values, np.zeros(len(values), np.int64), 1)
    assert len(found.values) <= 2 * sketches.RUNS
    assert found.error > 0
    # The heavy value is alone, its weight exact.
    assert found.weights[found.values == 0.25].sum() == 1500
    for edge in rng.normal(size=200):
        below = found.weights[found.values < edge].sum()
        assert abs(below - (values < edge).sum()) <= found.error


def test_bins_of_many_numbers_are_off_by_less_than_a_thousandth_of_rank(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(2)
    n = 400_000
    frame = pl.DataFrame(
        {
            "sex": rng.choice(["F", "M"], n),
            "label": rng.integers(0, 2, n),
            "x": rng.lognormal(3.0, 2.0, n),
            "z": np.round(rng.normal(0.0, 1e6, n)),
        }
    )
    roles = Roles("label", ("sex",), ("x", "z"))
    batches = [frame[start : start + 9_000] for start in range(0, n, 9_000)]
    tree = SumTree(add_summaries)
    for batch in batches:
        tree.push(summed(batch, roles))
    total = tree.total()
    monkeypatch.setattr(summary_module, "FEW_ROWS", 1)
    coding = coded(Cut(batches), roles, options=EncodingOptions(binning="quantile"))
    monkeypatch.undo()
    exact = frames.fit_encoding(frame.select("x", "z"), binning="quantile")
    for name in ("x", "z"):
        found = total.columns[name].content
        assert isinstance(found, Numbers)
        assert 0 < found.sketch.error < 0.0005 * n
        values = np.sort(frame[name].to_numpy())
        ours, theirs = (
            np.searchsorted(values, e.column(name).edges) / n for e in (coding.features, exact)
        )
        assert np.abs(ours - theirs).max() < 0.001


@pytest.mark.usefixtures("small_bounds")
def test_too_many_texts_leave_the_heavy_ones_and_an_open_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fairpc.data._column_summary.MOST", 64)
    monkeypatch.setattr("fairpc.data._column_summary.RUNS", 32)
    monkeypatch.setattr(summary_module, "FEW_ROWS", 1)
    rng = np.random.default_rng(3)
    n = 3000
    town = np.where(rng.random(n) < 0.6, "Rome", [f"t{k}" for k in rng.integers(0, 900, n)])
    frame = pl.DataFrame(
        {
            "sex": rng.choice(["F", "M"], n),
            "label": rng.integers(0, 2, n),
            "town": town,
            "id": [f"p{k}" for k in rng.permutation(n)],
            "number": rng.permutation(n) * 1_000_003,
            "at": [f"2024-01-{1 + k % 28:02} 10:{k % 60:02}:{k % 59:02}" for k in range(n)],
            "many": [f"q{k}" for k in rng.integers(0, 900, n)],
        }
    )
    roles = Roles("label", ("sex",), ("town", "id", "number", "at", "many"))
    encoding = coded(Cut([frame[a : a + 250] for a in range(0, n, 250)]), roles).features
    assert encoding.column("town").levels == ("Rome",)
    assert encoding.column("town").open
    assert encoding.column("at").kind == "date"
    reasons = {d.name: d.reason for d in encoding.dropped}
    assert "identifier" in reasons["id"]
    assert "identifier" in reasons["number"]
    assert "none of its more than" in reasons["many"]
    codes = encoding.transform(frame)[:, encoding.names.index("town")]
    assert np.array_equal(codes == 0, town == "Rome")


@given(
    st.lists(st.integers(1, 30_000), min_size=1, max_size=9),
    st.integers(0, 2**32 - 1),
)
def test_packing_is_undone_and_keeps_order(arities: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(-1, a, 50) for a in arities], axis=1).astype(np.int16)
    packing = Packing(tuple(arities))
    assert np.array_equal(packing.unpack(packing.pack(list(codes.T))), codes)
    found = packing.distinct(list(codes.T))
    expected, counts = np.unique(codes, axis=0, return_counts=True)
    assert np.array_equal(packing.unpack(found.words), expected)
    assert np.array_equal(found.weights, counts)
    again = add_distinct([packing.distinct(list(h.T)) for h in (codes[:20], codes[20:])])
    assert np.array_equal(again.words, found.words)
    assert np.array_equal(again.weights, found.weights)


@given(st.integers(0, 2**32 - 1))
def test_rows_of_fractional_weights_are_counted_apart_by_weight(seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.integers(-1, 2, (60, 3)).astype(np.int16)
    weights = rng.choice([0.25, 1.0, 2.5], 60)
    packing = Packing((2, 2, 2), unit=True)
    halves = [(codes[:25], weights[:25]), (codes[25:], weights[25:])]
    rows = packing.rows(add_distinct([packing.distinct(list(c.T), w) for c, w in halves]))
    keys, counts = np.unique(np.column_stack([codes, weights]), axis=0, return_counts=True)
    assert np.array_equal(rows.codes, keys[:, :3])
    assert np.array_equal(rows.each, counts)
    assert np.array_equal(rows.weights, keys[:, 3] * counts)


def test_a_sum_that_does_not_fit_is_spilled_in_parts() -> None:
    rng = np.random.default_rng(0)
    spilled: list[Distinct] = []
    total = DistinctSum(100, spilled.append)
    packing = Packing((500,))
    everything = rng.integers(0, 500, 2000).astype(np.int16)
    for start in range(0, 2000, 40):
        total.push(packing.distinct([everything[start : start + 40]]))
    assert total.total() is None
    assert max(part.n_rows for part in spilled) <= 140
    assert len(spilled) > 3
    added, expected = add_distinct(spilled), packing.distinct([everything])
    assert np.array_equal(added.words, expected.words)
    assert np.array_equal(added.weights, expected.weights)


def write(frame: pl.DataFrame, folder: Path, kind: str) -> Any:
    plain = frame.drop("day", "married", "score", "city", strict=False)
    if kind == "lazy":
        return frame.lazy()
    if kind == "csv":
        plain.write_csv(folder / "t.csv")
        return folder / "t.csv"
    if kind == "arrow":
        frame.write_ipc(folder / "t.arrow")
        return str(folder / "t.arrow")
    for k, part in enumerate(pieces(frame, [100, 350])):
        part.write_parquet(folder / f"p{k}.parquet")
    return folder if kind == "folder" else str(folder / "p*.parquet")


@pytest.mark.parametrize("kind", ["lazy", "csv", "arrow", "folder", "glob"])
def test_two_passes_over_a_table_merge_its_rows(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairpc.data._source.BATCH_ROWS", 77)
    monkeypatch.setattr("fairpc.data._source.READ_ROWS", 154)
    frame = table()
    source = open_source(write(frame, tmp_path, kind))
    features = tuple(n for n in source.names if n not in ("sex", "label", "weight"))
    roles = Roles("label", ("sex",), features, "weight", missing_values=("?",))
    told: list[ReadingProgress] = []
    coding = coded(source, roles, watch=told.append)
    encoder = RowEncoder(coding, roles)
    found = source.distinct(encoder, watch=told.append)
    assert isinstance(found, Distinct)
    assert found.weights.sum() == frame["weight"].sum()
    whole = read_frame(frame if kind != "csv" else pl.read_csv(tmp_path / "t.csv"))
    expected = encoder(whole)
    assert np.array_equal(found.words, expected.words)
    assert np.array_equal(found.weights, expected.weights)
    assert "job_code" in [d.name for d in coding.features.dropped]
    for stage in ("columns", "rows"):
        seen = [p.done for p in told if p.stage == stage]
        assert seen == sorted(seen)
        last = [p for p in told if p.stage == stage][-1]
        assert (last.done, last.unit) == (
            (600, "rows") if kind == "lazy" else (last.total, "bytes")
        )


@pytest.mark.parametrize("kind", ["csv", "arrow", "folder"])
def test_many_numbers_of_few_rows_are_all_listed(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    n = 2 * sketches.MOST
    frame = pl.DataFrame(
        {
            "sex": rng.choice(["F", "M"], n),
            "label": rng.integers(0, 2, n),
            "x": rng.normal(size=n),
            "z": np.append(rng.permutation(n - 1) * 7, 7),
            "job": rng.choice(["clerk", "cook"], n),
        }
    )
    source = open_source(write(frame, tmp_path, kind))
    coding = coded(source, Roles("label", ("sex",), ("x", "z", "job")))
    read = frame if kind != "csv" else pl.read_csv(tmp_path / "t.csv")
    exact = frames.fit_encoding(read.select("x", "z", "job"), y=read["label"].to_numpy())
    assert [c.edges for c in coding.features.columns] == [c.edges for c in exact.columns]
    assert coding.features.names == exact.names == ("x", "z", "job")


def test_room_is_shared_by_columns_and_taken_by_few_rows_alone() -> None:
    roles = Roles("label", ("sex",), ("x", "z", "told"))
    types = {"x": pl.Float64(), "z": pl.Int64(), "told": pl.Boolean(), "sex": pl.String()}
    empty = pl.LazyFrame(schema=types)
    n = summary_module.FEW_ROWS
    few = LazySource(empty, tuple(types), pieces=((empty, n),))
    assert listed(few, roles) == summary_module.LISTED // 2
    many = LazySource(empty, tuple(types), pieces=((empty, n), (empty, 1)))
    assert listed(many, roles) is None
    assert listed(LazySource(empty, tuple(types)), roles) is None
    wide = {f"x{j}": pl.Float64() for j in range(1000)}
    wide_roles = Roles("label", ("sex",), tuple(wide))
    crowded = LazySource(pl.LazyFrame(schema=wide), tuple(wide), pieces=((empty, 5),))
    assert listed(crowded, wide_roles) == sketches.MOST
    in_memory = FrameSource.of(read_frame(pl.DataFrame({"x0": [1.0]})))
    assert listed(in_memory, wide_roles) == n


def test_columns_with_equal_counts_are_no_copies_unless_row_by_row(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    n = 1000
    one = np.repeat([0, 1, 2, 3], n // 4)
    frame = pl.DataFrame(
        {
            "sex": rng.choice(["F", "M"], n),
            "label": np.tile([0, 1], n // 2),
            "one": one,
            "two": np.roll(one, 100),
            "copy": one[::1] * 10 + 5,
        }
    )
    frame.write_parquet(tmp_path / "t.parquet")
    roles = Roles("label", ("sex",), ("one", "two", "copy"))
    coding = coded(open_source(tmp_path / "t.parquet"), roles)
    assert coding.features.names == ("one", "two")
    assert "copy of column 'one'" in coding.features.dropped[1].message


def test_a_batch_without_weight_is_left_out_and_a_table_without_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairpc.data._source.BATCH_ROWS", 50)
    frame = table(300)
    weight = frame["weight"].to_numpy().copy()
    weight[:50] = weight[100:150] = 0
    frame = frame.with_columns(weight=weight)
    frame.write_parquet(tmp_path / "t.parquet")
    roles = WEIGHTED
    source = open_source(tmp_path / "t.parquet")
    coding = coded(source, roles)
    assert coding.features == coded(Cut([frame]), roles).features
    encoder = RowEncoder(coding, roles)
    found = source.distinct(encoder)
    assert isinstance(found, Distinct)
    assert found.weights.sum() == weight.sum()
    frame.with_columns(weight=0.0).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(CodesError, match="all weights are zero"):
        coded(open_source(tmp_path / "t.parquet"), roles)


def test_what_is_wrong_with_rows_is_said_with_their_file_and_where_they_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairpc.data._source.BATCH_ROWS", 50)
    monkeypatch.setattr("fairpc.data._source.READ_ROWS", 100)
    frame = table(200)
    frame.write_parquet(tmp_path / "0.parquet")
    bad = frame["weight"].to_numpy().copy()
    bad[163] = -1
    frame.with_columns(weight=bad).write_parquet(tmp_path / "1.parquet")
    roles = Roles("label", ("sex",), ("age",), "weight")
    where = r"1\.parquet, rows from 150 on: the weight of row 13 is -1"
    with pytest.raises(CodesError, match=where):
        coded(open_source(tmp_path), roles)
    bad[163], bad[7] = 1, -1
    frame.with_columns(weight=bad).write_parquet(tmp_path / "1.parquet")
    with pytest.raises(CodesError, match=r"1\.parquet: the weight of row 7 is -1"):
        coded(open_source(tmp_path), roles)


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    assert is_source("t.csv")
    assert is_source(pl.LazyFrame({"a": [1]}))
    assert not is_source(pl.DataFrame({"a": [1]}))
    with pytest.raises(FileFormatError, match="there is no file"):
        open_source(tmp_path / "none.csv")
    pl.DataFrame({"a": [1]}).clear().write_parquet(tmp_path / "empty.parquet")
    with pytest.raises(TableError, match="no rows"):
        open_source(tmp_path / "empty.parquet")
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1" + bytes(100))
    with pytest.raises(FileFormatError, match="cannot be read"):
        open_source(broken)
    frame = pl.DataFrame({"label": np.arange(5000) / 7, "sex": ["a", "b"] * 2500, "x": [1] * 5000})
    with pytest.raises(TableError, match="more than 1000 values"):
        summed(frame, Roles("label", ("sex",), ("x",)))
    wide = frame.with_columns(label=pl.lit(1), s=pl.col("label"), t=pl.col("label") * 3)
    with pytest.raises(TableError, match="combinations of values"):
        summed(wide, Roles("label", ("s", "t"), ("x",)))
