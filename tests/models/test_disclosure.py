"""Nothing that stands for a few people is in a file, a page, a card or an export."""

from __future__ import annotations

import datetime as dt
import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fairpc import FairPC, LatentDecision, LatNB, audit, load
from fairpc.core import Fewer, without_few
from fairpc.errors import DroppedWarning, GroupWarning, TableWarning
from fairpc.evidence import WithinBounds
from fairpc.exporting import export
from fairpc.models import disclosure

N = 1200
SECRETS = {
    "a group of one": b"zx-group",
    "a level of one": b"zx-level",
    "a name": b"Zxsecretname",
    "an extreme salary": b"98765431",
    "the cut above it": b"98765432",
    "a rare date": b"1907-03-14",
    "the same as microseconds": str(
        int(dt.datetime(1907, 3, 14, tzinfo=dt.UTC).timestamp()) * 1_000_000
    ).encode(),
    "a free text": b"zx free text",
    "an id": b"86753097",
    "a stratum of two": b"zx-stratum",
    "a leaf of one": b"zx-leaf",
    "a cell of a cross table": b"zx-cell",
}


def planted() -> tuple[pl.DataFrame, list[str]]:
    """A table of people, with what only one or two of them have."""
    rng = np.random.default_rng(0)
    salary = np.round(rng.normal(50_000, 9000, N)).astype(int)
    columns: dict[str, list[Any]] = {
        "sex": rng.choice(["F", "M"], N).tolist(),
        "race": rng.choice(["A", "B"], N).tolist(),
        "job": rng.choice(["clerk", "nurse", "driver", "cook"], N, p=[0.4, 0.3, 0.2, 0.1]).tolist(),
        "salary": salary.tolist(),
        "hired": [dt.date(2020, 1, 1) + dt.timedelta(int(k)) for k in rng.integers(0, 900, N)],
        "name": [f"Name{rng.integers(400)} Family{i // 3}" for i in range(N)],
        "note": rng.choice(["ok", "late", "call back"], N).tolist(),
        "id": (rng.permutation(N) + 7_000_000).tolist(),
        "region": rng.choice(["north", "south", "west"], N).tolist(),
        "tool": rng.choice(["hammer", "saw"], N).tolist(),
    }
    columns["sex"][17] = "zx-group"
    columns["job"][18] = "zx-level"
    columns["name"][19] = "Zxsecretname Smith"
    columns["salary"][20] = 98_765_431
    columns["hired"][21] = dt.date(1907, 3, 14)
    columns["note"][22] = "zx free text of somebody"
    columns["id"][23] = 86_753_097
    columns["region"][24:26] = ["zx-stratum"] * 2
    columns["tool"][27] = "zx-leaf"
    columns["race"][28:31] = ["zx-cell"] * 3
    columns["sex"][28:31] = ["F", "F", "M"]
    y = np.where((salary > 50_000) ^ (rng.random(N) < 0.2), "yes", "no").tolist()
    return pl.DataFrame(columns), y


X, Y = planted()
FITS: dict[str, Any] = {
    "circuits": lambda: FairPC(["sex", "race"], structure="chow-liu", max_iter=20, random_state=0),
    "forest circuit": lambda: FairPC(
        ["sex", "race"], structure="forest", given="region", random_state=0
    ),
    "scores": lambda: LatentDecision(sensitive=["sex", "race"], given="region", random_state=0),
}


@pytest.fixture(scope="module", params=FITS)
def fitted(request: pytest.FixtureRequest) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return FITS[request.param]().fit(X, Y)


def found_in(data: bytes) -> list[str]:
    """Secrets that are there; digits within a longer number are another number."""
    alone = {what: rb"(?<!\d)" + re.escape(secret) + rb"(?!\d)" for what, secret in SECRETS.items()}
    return [what for what, secret in alone.items() if re.search(secret, data)]


def test_the_search_finds_what_is_kept() -> None:
    """Without the rule, a group and a level of one are there: the search can fail."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LatNB("sex", min_cell=1, rare=0.0, max_iter=2, min_iter=1, guard=False).fit(X, Y)
    assert {"a group of one", "a level of one"} <= set(found_in(str(model.coding_).encode()))


def test_no_secret_is_in_a_file(fitted: Any, tmp_path: Path) -> None:
    fitted.save(tmp_path / "m.fairpc")
    assert not found_in((tmp_path / "m.fairpc").read_bytes())
    again = load(tmp_path / "m.fairpc")
    assert not found_in(json.dumps(disclosure(again).to_dict()).encode())
    assert min(again.coding_.groups.rows) >= 5


def test_no_secret_is_in_an_export(fitted: Any, tmp_path: Path) -> None:
    if isinstance(fitted, LatentDecision):
        pytest.skip("a LatentDecision is not exported")
    export(fitted, tmp_path / "m.onnx")
    assert not found_in((tmp_path / "m.onnx").read_bytes())


PEOPLE = ("n", "n_rows", "n_selected", "rows", "weight")


def small_numbers(facts: Any, name: str = "") -> Iterator[str]:
    """Names of numbers of people from 1 to 4; weights are numbers of people here."""
    if isinstance(facts, dict):
        for key, own in facts.items():
            yield from small_numbers(own, key)
    elif isinstance(facts, list):
        for own in facts:
            yield from small_numbers(own, name)
    elif type(facts) in (int, float) and 0 < facts < 5 and name in PEOPLE:
        yield name


def test_no_secret_is_in_an_audit_a_page_or_a_card(fitted: Any, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        facts = audit(fitted, X, Y, n_seeds=1)
    text = facts.to_json()
    assert not found_in(text.encode())
    assert list(small_numbers(facts.to_dict())) == []
    facts.save(tmp_path / "report.html")
    assert not found_in((tmp_path / "report.html").read_bytes())
    card = facts.card()
    assert not found_in(card.encode())
    assert "What the model file discloses" in card


def test_rows_of_a_small_group_count_as_of_unknown_group() -> None:
    said = (
        r"fewer than 5 labelled rows \(sex=zx-group\): 1 row counts as of unknown group; min_cell=1"
    )
    model = LatNB("sex", max_iter=2, min_iter=1, guard=False)
    with pytest.warns(GroupWarning, match=said):
        model.fit(X.drop("name", "id"), Y)
    assert list(model.groups_) == ["F", "M"]
    hidden = model.predict_proba(X.drop("name", "id"))[17]
    unknown = X.drop("name", "id").with_columns(sex=pl.lit(None, pl.String))
    np.testing.assert_array_equal(hidden, model.predict_proba(unknown)[17])


def test_two_groups_stay_and_that_is_said() -> None:
    groups = np.where(np.arange(N) < 3, "few", "many")
    model = LatNB(max_iter=2, min_iter=1, guard=False)
    with pytest.warns(GroupWarning, match="they stay, for a model needs two groups"):
        model.fit(X.select("job", "salary"), Y, sensitive_features=groups)
    assert list(model.groups_) == ["few", "many"]


def test_levels_of_few_people_are_one_level_together() -> None:
    """Seven people with a level each are "other", which then takes values that nobody had."""
    few = X.select("salary").with_columns(
        job=pl.Series([f"zx{i}" if i < 7 else "ab"[i % 2] for i in range(N)])
    )
    model = LatNB(max_iter=2, min_iter=1, guard=False)
    model.fit(few, Y, sensitive_features=X["race"].replace("zx-cell", "A"))
    column = model.coding_.features.column("job")
    assert (column.levels, column.merged, column.open) == (("a", "b"), (), True)
    row = pl.DataFrame({"salary": [50_000], "job": ["zx3"]})
    new = row.with_columns(job=pl.lit("nobody"))
    np.testing.assert_array_equal(model.predict_proba(row), model.predict_proba(new))


def test_bins_and_numbers_of_few_people_are_merged() -> None:
    frame = pl.DataFrame({"x": [0] * 600 + [1] * 597 + [7] * 3, "y": [0] * 1197 + [1] * 3})
    frame = frame.with_columns(z=pl.Series(np.arange(N) % 2))
    model = LatNB(max_iter=2, min_iter=1, guard=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(frame, Y, sensitive_features=X["job"].replace("zx-level", "cook"))
    assert model.coding_.features.column("x").edges == (1.0,)
    assert [d.name for d in model.coding_.features.dropped] == ["y"]


@pytest.mark.parametrize("min_cell", [0, -1, 2.5, "5", None])
def test_a_limit_that_is_none_is_refused(min_cell: Any) -> None:
    with pytest.raises(ValueError, match="min_cell is .*: give a number of people from 1 on"):
        LatNB("sex", min_cell=min_cell).fit(X, Y)


def test_numbers_of_few_people_are_told_as_fewer() -> None:
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Part:
        name: str
        n: int
        rate: float | None

    @dataclass(frozen=True)
    class Whole:
        n_rows: int
        n_unknown: int
        categories: tuple[Part, ...]

    parts = (Part("a", 3, 0.3), Part("b", 40, 0.5), Part("c", 20, 0.6))
    found = without_few(Whole(63, 2, parts), 5)
    assert (found.n_rows, str(found.n_unknown)) == (63, "fewer than 5")
    few, kept, smallest = found.categories
    assert (str(few.n), f"{few.n:,}", kept) == ("fewer than 5", "fewer than 5", parts[1])
    assert str(few.rate) == str(smallest.rate) == "nan"
    # 63 − 40 − 20 would give the first away.
    assert str(smallest.n) == "not shown"
    assert without_few(Whole(63, 2, parts), 1) == Whole(63, 2, parts)
    assert Fewer.than(5) < 5


def test_a_copy_is_known_although_its_rare_values_are_merged_otherwise() -> None:
    """A name that counts as missing, and its number, which joins a neighbour."""
    number = np.arange(N) % 7
    number[:3] = 9
    frame = pl.DataFrame({"word": [f"w{k}" for k in number], "number": number, "x": X["salary"]})
    model = LatNB(max_iter=2, min_iter=1, guard=False)
    with pytest.warns(DroppedWarning, match="'number' .it is a one-to-one copy of column 'word'"):
        model.fit(frame, Y, sensitive_features=X["race"].replace("zx-cell", "A"))


def test_ends_do_not_depend_on_extremes() -> None:
    """Whether the four highest earn a million or ten, the file is the same."""
    pay = np.random.default_rng(1).lognormal(10, 0.5, N).round(2)
    held = []
    for most in (1e6, 1e7):
        pay[:4] = most, most + 1.25, 2 * most, 3 * most
        model = LatNB(max_iter=2, min_iter=1, guard=False)
        model.fit(pl.DataFrame({"pay": pay}), Y, sensitive_features=np.arange(N) % 2)
        held.append(model.coding_.features.column("pay").ends)
    assert held[0] == held[1]
    assert not set(map(float, pay)) & {*held[0]}


def test_missing_values_of_few_people_are_not_counted() -> None:
    holes = [None if i < 3 else "ab"[i // 2 % 2] for i in range(N)]
    frame = pl.DataFrame({"pay": X["salary"], "job": holes})
    groups = np.array(["F", "M"])[np.arange(N) % 2]
    model = LatNB(max_iter=2, min_iter=1, guard=False).fit(frame, Y, sensitive_features=groups)
    assert model.coding_.features.column("job").missing_share == 0.0
    more = frame.with_columns(
        job=pl.when((pl.int_range(N) < 40) & (pl.int_range(N) % 2 == 1)).then(None).otherwise("job")
    )
    facts = audit(model, more, Y, sensitive_features=groups, n_seeds=1)
    job = next(column for column in facts.data.missing if column.column == "job")
    # Two of the first group and 20 of the second lack it.
    assert job.by_group == (0.0, 20 / (N / 2))
    assert job.share == 20 / N


def test_two_parts_of_one_person_each_are_not_given_away_by_their_sum() -> None:
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Part:
        n: int

    @dataclass(frozen=True)
    class Whole:
        strata: tuple[Part, ...]

    few = without_few(Whole((Part(1), Part(1), Part(30), Part(20))), 5)
    assert [str(p.n) for p in few.strata] == ["fewer than 5"] * 2 + ["30", "not shown"]
    enough = without_few(Whole((Part(3), Part(2), Part(30))), 5)
    assert [str(p.n) for p in enough.strata] == ["fewer than 5"] * 2 + ["30"]


def test_no_threshold_is_the_number_of_a_person(tmp_path: Path) -> None:
    """Trees of a LatentDecision ask for round numbers between those of the table."""
    rng = np.random.default_rng(2)
    pay = rng.lognormal(10, 0.5, N).round(2)
    label = np.where((pay > 22_000) ^ (rng.random(N) < 0.2), "yes", "no")
    model = LatentDecision(positive="yes", random_state=0)
    model.fit(pl.DataFrame({"pay": pay}), label, sensitive_features=np.arange(N) % 2)
    model.save(tmp_path / "m.fairpc")
    numbers = set(re.findall(r"\d+\.\d+", (tmp_path / "m.fairpc").read_text()))
    assert not numbers & set(map(str, pay.tolist()))


def test_nothing_tells_of_few_people_with_a_label() -> None:
    """Of 40 people of a group 3 are hired, or 1 of 8 in a stratum; no top set leaves out one."""
    rng = np.random.default_rng(0)
    s = np.repeat(["A", "B", "C"], [700, 760, 40])
    where = rng.choice(["n", "s"], 1500)
    where[:8] = "w"
    y = np.where(rng.random(1500) < 0.4, "yes", "no")
    y[:8], y[1460:], y[1497:] = "no", "no", "yes"
    y[0] = "yes"
    frame = pl.DataFrame({"x": rng.normal(size=1500).round(1), "where": where})
    options: dict[str, Any] = {"given": ["where"], "structure": "forest", "positive": "yes"}
    with pytest.warns(TableWarning, match="under 30 rows"):
        model = FairPC(random_state=0, **options).fit(frame, y, sensitive_features=s)
    bounds = model.label_ends_
    assert isinstance(bounds, WithinBounds)
    inside = [group for part in bounds.strata if part is not None for group in part.groups]
    assert len(inside) > len(bounds.groups)
    for group in (*bounds.groups, *inside):
        for own in (group.positive, group.negative):
            assert own.n - own.n_top == 0 or own.n - own.n_top >= 5
    found = audit(model, frame, y, sensitive_features=s, n_seeds=1)
    assert found.parity is not None
    assert found.strata is not None
    change, own_strata = found.parity.change, found.strata
    assert change is not None
    assert own_strata is not None
    assert np.isnan([*change.label_rates, change.change]).any()
    assert "fewer than 5 or all but fewer than 5 of 40 people in group C" in change.sentence
    assert "3 of 40" not in " ".join(found.verdict.sentences)
    west = next(one for one in own_strata.strata if one.stratum.endswith("=w"))
    assert west.label_rates[0] is None
    assert change.sentence in found.verdict.sentences


def strata_of(few: int, seed: int) -> tuple[pl.DataFrame, list[str], list[str]]:
    """Features, labels and groups; of group C so many people are in the west."""
    rng = np.random.default_rng(seed)
    s = np.repeat(["A", "B", "C"], [300, 300, 100])
    where = rng.choice(["n", "s", "w"], 700)
    where[600:] = np.repeat(["w", "s", "n"], [few, 30, 70 - few])
    x = rng.normal(size=700).round(1)
    y = np.where((x > 0) ^ (rng.random(700) < 0.2), "yes", "no")
    return pl.DataFrame({"x": x, "where": where}), y.tolist(), s.tolist()


def test_few_people_of_a_group_in_a_stratum_are_not_told_by_the_others() -> None:
    """100 people of C less 68 and 30 are two; neither a number nor a reason says it."""
    frame, y, s = strata_of(20, 0)
    model = FairPC(given=["where"], structure="forest", positive="yes", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(frame, y, sensitive_features=s)
        frame, y, s = strata_of(2, 1)
        facts = audit(model, frame, y, sensitive_features=s, n_seeds=1)
    assert facts.strata is not None
    own = facts.strata.strata
    assert [str(part.n[2]) for part in own] == ["68", "not shown", "fewer than 5"]
    assert [part.label_rates[2] is None for part in own] == [False, True, True]
    identified = facts.decidable.identified
    assert identified is not None
    assert not any("n" in row for row in identified.groups if "stratum" in row)
    assert not [why for why in facts.left_out.values() if re.search(r"group \d|has \d+ rows?", why)]
    assert "need 10 rows and both labels" in facts.left_out["error_rates"]


def test_a_stratum_that_cannot_be_tested_is_not_told_by_codes() -> None:
    """Where no stratum is large enough, the reason names no group by its number."""
    frame, y, s = (part[::12] for part in strata_of(20, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = FairPC(given=["where"], structure="forest", random_state=0)
        model.fit(frame, y, sensitive_features=s)
        facts = audit(model, frame, y, sensitive_features=s, n_seeds=1)
    assert facts.left_out["strata.test"] == (
        "no stratum has 30 rows and every label of each group: merge strata or groups"
    )


def test_few_people_with_a_label_are_not_told_by_numbers_of_others() -> None:
    """Of 30 people in C three are hired: 27 are not, and of all the hired A and B have the rest."""
    rng = np.random.default_rng(3)
    s = np.repeat(["A", "B", "C"], [200, 190, 30])
    score = rng.random(420).round(3)
    y = np.where((score > 0.5) ^ (rng.random(420) < 0.2), "yes", "no")
    y[390:], y[[391, 400, 410]] = "no", "yes"
    decided = np.where(score > 0.5, "yes", "no")
    frame = pl.DataFrame({"x": rng.normal(size=420).round(1)})
    given: dict[str, Any] = {"scores": score, "positive": "yes", "sensitive_features": s}
    facts = audit(decided, frame, y, n_seeds=1, **given)
    assert facts.group_metrics is not None
    shown = [
        (str(own.true_positive_rate.n), str(own.false_positive_rate.n), str(own.precision.n))
        for own in facts.group_metrics.groups
    ]
    assert {"27", "fewer than 5"} & {n for own in shown for n in own} == {"fewer than 5"}
    assert [own[:2] for own in shown[:3]] == [("not shown", "not shown")] * 3
    assert all(own[2].isdigit() for own in shown)
    assert facts.error_rates is not None
    bins = facts.error_rates.rates.calibration
    assert bins
    for one in bins:
        hits = one.n * one.recorded
        assert all(n < 0.5 or n > 4.5 for n in (hits, one.n - hits))
