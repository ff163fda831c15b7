"""Of fewer than ``min_cell`` labelled people of a group no label is in a file, JSON or a page."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from fairpc import FairPC, LatentDecision, LatNB, audit, load
from fairpc.auditing import Audit
from fairpc.errors import GroupWarning, LearningError
from fairpc.models import disclosure

FITS: dict[str, Any] = {
    "forest circuit": lambda: FairPC("g", structure="forest", positive="yes", random_state=0),
    "circuits": lambda: FairPC(
        "g", structure="chow-liu", positive="yes", max_iter=5, random_state=0
    ),
    "scores": lambda: LatentDecision(sensitive="g", positive="yes", random_state=0),
    "naive Bayes": lambda: LatNB("g", positive="yes", max_iter=5, min_iter=1),
}
OPTIONS: dict[str, Any] = {"n_seeds": 1}


def table(sizes: dict[str | None, tuple[int, int]], seed: int) -> pl.DataFrame:
    """Rows of each group, and how many of these are labelled; salaries are of single people."""
    rng = np.random.default_rng(seed)
    groups = [g for g, (n, _) in sizes.items() for _ in range(n)]
    labelled = [i < k for n, k in sizes.values() for i in range(n)]
    pay = rng.normal(50.0, 10.0, len(groups)).round(2)
    hired = (pay > 50.0) ^ (rng.random(len(groups)) < 0.2)
    y = [("yes" if h else "no") if k else None for h, k in zip(hired, labelled, strict=True)]
    job = rng.choice(["cook", "clerk", "nurse"], len(groups))
    return pl.DataFrame({"g": groups, "pay": pay, "job": job, "y": y}).sample(
        fraction=1.0, shuffle=True, seed=seed
    )


def flipped(frame: pl.DataFrame, group: str | None, label: str | None) -> pl.DataFrame:
    """The table with another label of the first labelled person of a group."""
    own = frame["g"].is_null() if group is None else frame["g"] == group
    row = int((own.fill_null(value=False) & frame["y"].is_not_null()).arg_max() or 0)
    now = frame["y"][row]
    changed = {"yes": "no", "no": "yes"}[now] if label else None
    return frame.with_columns(
        y=pl.when(pl.int_range(len(frame)) == row).then(pl.lit(changed)).otherwise("y")
    )


def outputs(fit: Any, frame: pl.DataFrame, fresh: pl.DataFrame, folder: Path) -> list[str]:
    """What is written and shown of a fit, and of audits of its rows and of others."""
    X, y = frame.drop("y"), frame["y"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fit().fit(X, y)
        model.save(folder / "m.fairpc")
        content = json.loads((folder / "m.fairpc").read_text())
        for key in ("checksum", "provenance"):
            content.pop(key, None)
        shown = [json.dumps(content), json.dumps(disclosure(model).to_dict())]
        loaded = load(folder / "m.fairpc")
        for own, rows in ((model, frame), (loaded, fresh)):
            facts = _timeless(audit(own, rows.drop("y"), rows["y"], **OPTIONS))
            facts.save(folder / "page.html")
            shown += [facts.to_json(), (folder / "page.html").read_text()]
    return shown


def _timeless(facts: Audit) -> Audit:
    """An audit without when it was made and how long that took."""
    own = facts.provenance
    own = replace(own, date="2000-01-01T00:00:00+00:00", seconds=dict.fromkeys(own.seconds, 0.0))
    return replace(facts, provenance=own)


@pytest.mark.parametrize(("fit", "n"), [*zip(FITS, [1, 2, 3, 4], strict=True)])
def test_the_label_of_one_of_few_labelled_people_is_nowhere(
    fit: str, n: int, tmp_path: Path
) -> None:
    """The group has eight rows, enough for a group; its other label, or none, changes nothing."""
    frame = table({"a": (150, 150), "b": (160, 160), "c": (8, n)}, 0)
    fresh = table({"a": (70, 70), "b": (60, 60), "c": (9, 3)}, 1)
    first = outputs(FITS[fit], frame, fresh, tmp_path)
    again = outputs(FITS[fit], flipped(frame, "c", "other"), flipped(fresh, "c", "other"), tmp_path)
    assert first == again
    assert first == outputs(
        FITS[fit], flipped(frame, "c", None), flipped(fresh, "c", None), tmp_path
    )


def test_the_label_of_a_person_among_many_is_somewhere(tmp_path: Path) -> None:
    """The comparison can fail."""
    frame = table({"a": (150, 150), "b": (160, 160), "c": (8, 8)}, 0)
    first, *_ = outputs(FITS["circuits"], frame, frame, tmp_path)
    second, *_ = outputs(FITS["circuits"], flipped(frame, "c", "other"), frame, tmp_path)
    assert first != second


@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_tables_that_differ_in_one_label_of_few_are_shown_alike(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Totals less the groups that are shown say nothing: small groups, several of them, people of
    unknown group, and one of only two groups."""
    names: list[str | None] = ["a", "b", "c", "d", None]
    sizes: dict[str | None, tuple[int, int]] = {"a": (data.draw(st.integers(50, 90)),) * 2}
    for name in data.draw(st.lists(st.sampled_from(names[1:]), min_size=1, unique=True)):
        rows = data.draw(st.integers(1, 40))
        sizes[name] = rows, data.draw(st.integers(0, min(rows, 12)))
    few = [g for g, (_, k) in sizes.items() if 0 < k < 5]
    if not few or len({*sizes} - {None}) < 2:
        return
    who = data.draw(st.sampled_from(few))
    fit = data.draw(st.sampled_from(["circuits", "naive Bayes"]))
    frame = table(sizes, data.draw(st.integers(0, 99)))
    folder = tmp_path_factory.mktemp("few")
    label = data.draw(st.sampled_from(["other", None]))
    changed = flipped(frame, who, label)
    assert outputs(FITS[fit], frame, frame, folder) == outputs(FITS[fit], changed, changed, folder)


def test_files_and_frames_hide_the_same_labels(tmp_path: Path) -> None:
    """A table that is read in batches tells no more, in the fit and in the audit."""
    frame = table({"a": (150, 150), "b": (160, 160), "c": (8, 3), None: (9, 2)}, 3)
    names = []
    for k, rows in enumerate((frame, flipped(frame, "c", "other"), flipped(frame, None, "other"))):
        rows.write_parquet(tmp_path / f"{k}.parquet")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = FITS["naive Bayes"]().fit(tmp_path / f"{k}.parquet", "y")
            in_memory = FITS["naive Bayes"]().fit(rows.drop("y"), rows["y"])
            facts = audit(model, tmp_path / f"{k}.parquet", "y", **OPTIONS)
        assert model.data_fingerprint_ == in_memory.data_fingerprint_
        names.append((model.data_fingerprint_, _timeless(facts).to_json()))
    assert names[0] == names[1] == names[2]


def test_a_group_of_two_that_stays_loses_its_labels_and_that_is_said() -> None:
    frame = table({"a": (150, 150), "c": (8, 1)}, 0)
    with pytest.warns(GroupWarning, match=r"fewer than 5 labelled rows \(c\)"):
        model = FITS["circuits"]().fit(frame.drop("y"), frame["y"])
    assert list(model.groups_) == ["a", "c"]
    assert model.label_counts_[1].sum() == 0
    with pytest.warns(GroupWarning), pytest.raises(LearningError, match="too few labelled rows"):
        FITS["scores"]().fit(frame.drop("y"), frame["y"])


def test_what_is_kept_of_few_labelled_people_is_said() -> None:
    """Without the rule the smallest group is told by its labels, not by its rows."""
    frame = table({"a": (150, 150), "b": (160, 160), "c": (8, 1)}, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LatNB("g", positive="yes", max_iter=2, min_iter=1, min_cell=1)
        model.fit(frame.drop("y"), frame["y"])
    assert disclosure(model).smallest_labelled == pytest.approx(1)


def test_labels_of_few_in_a_stratum_are_not_the_group_less_its_other_strata(
    tmp_path: Path,
) -> None:
    """Three people of a group are in the west; two of them have a label."""
    frame = table({"a": (200, 200), "b": (150, 150)}, 2)
    own = (frame["g"] == "b").cum_sum()
    west = (frame["g"] == "b") & (own <= 8)
    where = pl.Series(np.random.default_rng(0).choice(["n", "s"], len(frame)))
    frame = frame.with_columns(
        where=pl.when(west | ((frame["g"] == "a") & (frame["pay"] > 55)))
        .then(pl.lit("w"))
        .otherwise(where),
        y=pl.when(west & (own > 2)).then(None).otherwise("y"),
    )
    model = FairPC("g", structure="forest", positive="yes", given=["where"], random_state=0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(frame.drop("y"), frame["y"])
    assert any("fewer than 5 labelled rows in a stratum" in str(w.message) for w in said)
    assert model.label_counts_[1].sum() == pytest.approx(142, abs=1)
