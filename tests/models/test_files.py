"""Model files: what 0.2.0 wrote is read, nothing is believed, and only valid models come out."""

from __future__ import annotations

import copy
import json
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import pytest

from fairpc import FairPC, Knowledge, LatentDecision, LatNB, NLatPC, TwoNB, load
from fairpc.circuit import CircuitBuilder, to_dict
from fairpc.errors import FileFormatError, TableWarning
from fairpc.models import TableClassifier
from fairpc.models._file import checksum

FILES = Path(__file__).parent / "files"
UNREAD = ("v1-latnb", "v3-auto", "v5-forest", "v7-latent", "v7-strata", "v7-within")
READ = sorted(path for path in FILES.glob("v*.json") if path.stem not in UNREAD)
ROWS = pl.read_csv(FILES / "applications.csv").drop("approved")[:20]
MEMORY = 64
"""Bytes that reading a file may take for each byte of it, at most."""


def rows_of(path: Path) -> pl.DataFrame:
    """As they were when the model was saved: of the file "written" the ages are text."""
    comma = pl.col("age").cast(pl.String) + ",5"
    return ROWS.with_columns(age=comma) if "written" in path.stem else ROWS


def write_sealed(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content | {"checksum": checksum(content)}))


@pytest.mark.parametrize("path", READ, ids=lambda path: path.stem)
def test_answers_are_those_of_the_code_that_saved_it(path: Path) -> None:
    model, rows = load(path), rows_of(path)
    then = json.loads(path.with_suffix(".answers").read_text())
    found: dict[str, Callable[[], Any]] = {
        "predict_proba": lambda: model.predict_proba(rows),
        "without_group": lambda: model.predict_proba(rows.drop("sex")),
        "mechanism": lambda: model.bias_mechanism_,
        "predict_bounds": lambda: model.predict_bounds(rows),
    }
    assert list(model.predict(rows)) == then.pop("predict")
    assert {"predict_proba", "without_group"} <= set(then)
    if isinstance(model, LatentDecision):
        with pytest.warns(TableWarning, match="group is not known"):
            assert np.isnan(found["without_group"]()).all()
        del then["without_group"]
    for name, value in then.items():
        np.testing.assert_allclose(found[name](), value, rtol=0, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("path", READ, ids=lambda path: path.stem)
def test_a_file_that_is_saved_again_is_the_same_model(path: Path, tmp_path: Path) -> None:
    model, rows = load(path), rows_of(path)
    model.save(tmp_path / "a")
    again = load(tmp_path / "a")
    np.testing.assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))
    again.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("name", UNREAD)
def test_older_files_get_one_sentence(name: str) -> None:
    with pytest.raises(FileFormatError, match="fit the model again") as caught:
        load(FILES / f"{name}.json")
    assert "\n" not in str(caught.value)


MODELS: dict[str, Callable[[], Any]] = {
    "FairPC": lambda: FairPC("sex", structure="chow-liu", max_iter=3, guard=False),
    "NLatPC": lambda: NLatPC("sex", structure="chow-liu"),
    "TwoNB": lambda: TwoNB("sex"),
    "LatNB": lambda: LatNB("sex", max_iter=3, guard=False),
    "forest": lambda: FairPC("sex", structure="forest", max_iter=3, guard=False, random_state=0),
    "strata": lambda: FairPC("sex", structure="forest", given="b", guard=False, random_state=0),
    "scores": lambda: LatentDecision(
        TableClassifier("logistic", random_state=0), sensitive="sex", cv=2, random_state=0
    ),
}


def table() -> tuple[pl.DataFrame, Any]:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({k: rng.choice(["n", "y"], 200) for k in ("sex", "a", "b")})
    return frame, ((frame["a"] == "y").to_numpy() ^ (rng.random(200) < 0.2)).astype(int)


@cache
def saved(name: str) -> str:
    with TemporaryDirectory() as folder:
        MODELS[name]().fit(*table()).save(Path(folder) / "m")
        return (Path(folder) / "m").read_text()


def places(part: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a file: every field, and of every list the first and the last."""
    if path:
        yield path
    if isinstance(part, dict):
        for name, value in part.items():
            yield from places(value, (*path, name))
    elif isinstance(part, list) and part:
        for k in {0, len(part) - 1}:
            yield from places(part[k], (*path, k))


def forged(content: Any, path: tuple[Any, ...], value: Any) -> Any:
    content = copy.deepcopy(content)
    part = content
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return content


def assert_valid(model: Any, frame: pl.DataFrame) -> None:
    """Distributions, thresholds, counts and the groups are what a fit could have given."""
    for rate in (model.group_rate_, model.bias_mechanism_, model.predict_proba(frame)):
        assert (rate >= 0).all()
        np.testing.assert_allclose(rate.sum(axis=-1), 1, atol=1e-6)
    if not isinstance(model, TwoNB):
        np.testing.assert_allclose(model.fair_rate_.sum(), 1, atol=1e-6)
    if not isinstance(model, TwoNB | LatentDecision):
        assert model.distribution_.parity_gap().max() < 1e-6
    assert all(0 <= value <= 1 for value in (*model.threshold_.values, model.threshold_.unknown))
    assert (model.label_counts_ >= 0).all()
    assert model.coding_.sensitive == model.coding_.groups.column_names == ("sex",)


@pytest.mark.filterwarnings("ignore::fairpc.errors.TableWarning")  # rows with levels of no column
@pytest.mark.parametrize("name", MODELS)
def test_a_forged_field_is_refused_or_gives_a_valid_model(name: str, tmp_path: Path) -> None:
    content, frame = json.loads(saved(name)), table()[0]
    path, n_refused = tmp_path / "m", 0
    seen = set()
    for place in places(content):
        kind = tuple(key for key in place if isinstance(key, str)), len(place)
        if place[0] in ("checksum", "format") or (kind in seen and place[0] != "rates"):
            continue
        seen.add(kind)
        for value in (-5, 2.0, "age", None, ["age"]):
            write_sealed(path, forged(content, place, value))
            try:
                model = load(path)
            except FileFormatError:
                n_refused += 1
            else:
                assert_valid(model, frame)
    assert n_refused > 100


FORGED: dict[str, tuple[tuple[Any, ...], Any]] = {
    "a threshold below 0": (("threshold", "values"), [-1.0]),
    "a threshold above 1": (("threshold", "unknown"), 2.0),
    "counts below 0": (("counts", 0, 0), [-5.0, 1.0]),
    "another sensitive column": (("coding", "sensitive"), ["a"]),
    "a setting of another kind": (("settings", "min_cell"), 0),
    "a setting of nobody": (("settings", "structure"), "auto"),
    "a difference above 1": (("settings", "delta"), 1.5),
    "strata of no column": (("settings", "given"), ["wages"]),
    "knowledge that is none": (("settings", "knowledge"), {"fair_rate": 2.0}),
    "prior rows below 0": (("prior_rows",), -1.0),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("case", FORGED)
def test_what_no_fit_gives_is_refused(name: str, case: str, tmp_path: Path) -> None:
    write_sealed(tmp_path / "m", forged(json.loads(saved(name)), *FORGED[case]))
    with pytest.raises(FileFormatError):
        load(tmp_path / "m")


@pytest.mark.parametrize("pi", [[1.0, 0.0], [0.2, 0.4], [0.0, 0.9], [-1.0, 1.0]])
@pytest.mark.parametrize("known", [None, (0.2, 0.9)])
@pytest.mark.parametrize("name", ["forest", "scores"])
def test_ends_are_within_what_settings_say(
    name: str, known: Any, pi: list[float], tmp_path: Path
) -> None:
    model = MODELS[name]().set_params(knowledge=known and Knowledge(fair_rate=known))
    model.set_params(positive=1, **({"guard": True} if name == "forest" else {}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what is known need not fit the labels
        model.fit(*table()).save(tmp_path / "m")
    content = json.loads((tmp_path / "m").read_text())
    load(tmp_path / "m")
    where = ("score_map", "ends", "pi") if name == "scores" else ("ends", "pi")
    write_sealed(tmp_path / "m", forged(content, where, pi))
    with pytest.raises(FileFormatError):
        load(tmp_path / "m")


@pytest.mark.parametrize("name", ["FairPC", "forest", "scores"])
@pytest.mark.parametrize("rate", [[1.0, 1.0], [0.5, 0.5 + 1e-6], [1.5, -0.5]])
def test_rates_of_groups_sum_to_one(name: str, rate: list[float], tmp_path: Path) -> None:
    part = "score_map" if name == "scores" else "rates"
    write_sealed(tmp_path / "m", forged(json.loads(saved(name)), (part, "group_rate"), rate))
    with pytest.raises(FileFormatError):
        load(tmp_path / "m")


def features(
    cells: int, *, tied: bool = False, extra: str = "", weights: list[float] | None = None
) -> dict[str, Any]:
    """Circuits of features a and b, whose sums may tie the two together."""
    b = CircuitBuilder({"a": 2, "b": 2, **({extra: 2} if extra else {})})
    more = [b.categorical(extra, [0.5, 0.5])] if extra else []
    roots = []
    for k in range(cells):
        own = [[b.categorical(x, [p, 1 - p]) for x in "ab"] for p in (0.2, 0.3 + k / 10)]
        products = [b.product(*each, *more) for each in own]
        roots.append(b.sum(products, [0.5, 0.5], tie=k) if tied else products[1])
    return to_dict(b.build(b.sum(roots, weights or [1 / cells] * cells)))


@pytest.mark.parametrize(
    ("name", "circuits", "loads"),
    [
        ("FairPC", features(4), True),
        ("FairPC", features(4, tied=True), True),
        ("TwoNB", features(4), True),
        ("TwoNB", features(4, tied=True), False),
        ("FairPC", features(4, weights=[1.0, 0.0, 0.0, 0.0]), False),
        ("FairPC", features(4, weights=[0.25, 0.25, 0.2, 0.3]), False),
        ("FairPC", features(3), False),
        ("FairPC", features(4, extra="S"), False),
        ("FairPC", features(4, extra="Df"), False),
    ],
)
def test_circuits_are_of_the_features_alone(
    name: str, circuits: dict[str, Any], loads: bool, tmp_path: Path
) -> None:
    write_sealed(tmp_path / "m", json.loads(saved(name)) | {"features": circuits})
    if loads:
        model: Any = load(tmp_path / "m")
        assert name == "TwoNB" or model.distribution_.parity_gap().max() < 1e-12
    else:
        with pytest.raises(FileFormatError):
            load(tmp_path / "m")


def test_an_old_circuit_that_breaks_its_model_is_refused(tmp_path: Path) -> None:
    """A file of 0.2.0 has the whole circuit: here each group has a P(Df) of its own."""
    old = json.loads((FILES / "v4-unguarded.json").read_text())
    variables = old["circuit"]["variables"]
    b = CircuitBuilder(dict(zip(variables["names"], variables["arities"], strict=True)))
    x = b.product(*(b.categorical(name) for name in variables["names"][3:]))
    groups = []
    for s, rate in enumerate(([0.1, 0.9], [0.8, 0.2])):
        cells = [
            b.product(b.indicator("Df", f), b.categorical("D", [0.5, 0.5], tie=(s, f)), x)
            for f in range(2)
        ]
        groups.append(b.product(b.indicator("S", s), b.sum(cells, rate)))
    whole = b.build(b.sum(groups, [0.5, 0.5]))
    write_sealed(tmp_path / "m", old | {"circuit": to_dict(whole)})
    with pytest.raises(FileFormatError, match="not that of a LatNB"):
        load(tmp_path / "m")


@pytest.mark.parametrize("name", MODELS)
def test_reading_takes_a_bounded_multiple_of_the_file(name: str, tmp_path: Path) -> None:
    (tmp_path / "m").write_text(saved(name))
    load(tmp_path / "m")  # what is imported late is not a memory of the file
    tracemalloc.start()
    try:
        load(tmp_path / "m")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MEMORY * len(saved(name)) + 2**21
