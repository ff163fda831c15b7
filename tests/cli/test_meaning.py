"""What labels and values mean: the favourable class, and what people call values."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from cli.calls import FIT, answer, called, names, small_table
from fairpc import auditing, load
from fairpc.errors import OptionError

UNSAID = (*FIT[:2], *FIT[4:])
"""A fit that does not say which class is favourable."""


def relabelled(no: str, yes: str) -> str:
    lines = small_table().replace(",yes\n", f",{yes}\n").replace(",no\n", f",{no}\n")
    Path("u.csv").write_text(lines)
    return "u.csv"


@pytest.mark.parametrize(
    ("no", "yes"),
    [
        *(("rejected", "Approved"), ("withdrawn", "granted"), ("bad", "good"), ("0", "PAID")),
        *(
            ("fail", "pass"),
            ("no", "hired"),
            ("deny", "admit"),
            ("unpaid", "paid"),
            ("n", "accept"),
        ),
    ],
)
def test_a_class_whose_word_says_so_is_favourable(
    no: str, yes: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = answer(capsys, "fit", relabelled(no, yes), *UNSAID, "-o", "n.fairpc")
    assert found["label"]["positive"] == yes


@pytest.mark.parametrize(
    ("no", "yes"),
    [
        *(("no", "yes"), ("False", "True"), ("0", "1"), ("0.0", "1.0"), ("-1", "1"), ("N", "Y")),
        *(("nein", "ja"), ("1", "2"), ("paid", "good"), ("negative", "positive")),
    ],
)
def test_a_class_that_nobody_knows_must_be_named(
    no: str, yes: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, before = relabelled(no, yes), [*names(folder), "u.csv"]
    decided = pl.read_csv(table).with_columns(h=pl.col("hired").reverse())
    decided.write_csv("d.csv")
    roles = ("--label", "hired", "--sensitive", "sex")
    for call in (
        ("fit", table, *UNSAID, "-o", "n.fairpc"),
        ("fit", table, *UNSAID, "-o", "n.fairpc", "--max-memory", "1GB"),
        ("audit", "d.csv", *roles, "--decision", "h"),
    ):
        ended = called(capsys, *call)
        assert (ended.code, ended.out) == (2, "")
        assert "label 'hired' has the classes " in ended.err
        assert ended.err.count("--positive ") == 2
        assert ended.err.count("\n") == 1
        [again] = re.findall("`fairpc (.*)`", ended.err)
        assert shlex.split(again)[: len(call)] == [*call]
    assert names(folder) == sorted({*before, "d.csv"})
    ended = called(capsys, "fit", table, *UNSAID, "-o", "n.fairpc")
    [again] = re.findall("`fairpc (.*)`", ended.err)
    found = answer(capsys, *shlex.split(again))
    assert again.endswith(f"--positive {found['label']['positive']}")


def test_names_of_a_group_are_not_those_of_the_label(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("g.csv").write_text(small_table().replace(",F,", ",yes,").replace(",M,", ",no,"))
    given = ("g.csv", *FIT, "--name", "sex=yes:Black", "--name", "sex=no:white", "--name")
    ended = called(capsys, "fit", *given, "hired=yes:granted", "-o", "n.fairpc")
    assert (ended.code, ended.err) == (0, "")
    assert load("n.fairpc").names_["sex"] == {"yes": "Black", "no": "white"}
    lines = ended.out.splitlines()
    assert [line.split(":")[0].strip() for line in lines[1:3]] == ["white", "Black"]
    of_label = [line for line in lines if "'hired'" in line or "deserved" in line]
    assert of_label
    for line in of_label:
        assert "deserved Black" not in line
        assert "recorded white" not in line
        assert "favourable: 'Black'" not in line
    audited = answer(capsys, "audit", "n.fairpc", "g.csv")
    assert audited["mechanism"]["groups"] == ["white", "Black"]
    assert sorted(audited["mechanism"]["classes"]) == ["granted", "no"]
    audited = answer(capsys, "audit", "n.fairpc", "g.csv", "--name", "sex=yes:all others")
    assert audited["mechanism"]["groups"] == ["white", "all others"]
    assert "yes (granted)" in called(capsys, "predict", "n.fairpc", "g.csv", "-o", "p.csv").err
    drawn = called(capsys, "review", "n.fairpc", "g.csv", "-n", "20", "-o", "r.csv").out
    assert " white " in drawn
    assert " sex=no " not in drawn


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("more", [(), ("--max-memory", "1GB"), ("--model", "latent")])
def test_blanks_at_the_ends_are_no_part_of_a_class_or_group(
    kind: str, more: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = pl.read_csv("t.csv")
    blanks = pl.Series(["", " ", "  "] * (rows.height // 3))
    odd = rows.with_columns(sex=blanks + pl.col("sex"), hired=pl.col("hired") + blanks)
    (odd.write_csv if kind == "csv" else odd.write_parquet)(f"o.{kind}")
    how = (*FIT[:6], *(more or ("--structure", "chow-liu")))
    if "--max-memory" in more:
        how = (*how, "--structure", "chow-liu")
    found = [
        answer(capsys, "fit", table, *how, "-o", f"{table}.fairpc")
        for table in ("t.csv", f"o.{kind}")
    ]
    for part in ("label", "groups"):
        assert found[0][part] == found[1][part]
    for table in ("t.csv", f"o.{kind}"):
        assert called(capsys, "predict", "t.csv.fairpc", table, "-o", f"{table}.p.csv").code == 0
    scores = [pl.read_csv(f"{table}.p.csv")["p_df_yes"] for table in ("t.csv", f"o.{kind}")]
    assert scores[0].equals(scores[1])
    assert called(capsys, "review", "t.csv.fairpc", f"o.{kind}", "-n", "9", "-o", "r.csv").code == 0


@pytest.mark.parametrize("column", ["hired", "sex"])
def test_values_that_differ_by_case_alone_are_refused(
    column: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = pl.read_csv("t.csv").with_row_index("i")
    text = pl.col(column)
    other = text.str.to_titlecase() if column == "hired" else text.str.to_lowercase()
    rows = rows.with_columns(pl.when(pl.col("i") < 60).then(text).otherwise(other)).drop("i")
    rows.write_csv("c.csv")
    one, two = ("No", "no") if column == "hired" else ("F", "f")
    for more in ((), ("--max-memory", "1GB"), ("--model", "latent")):
        ended = called(capsys, "fit", "c.csv", *FIT[:6], *more, "-o", "n.fairpc")
        assert (ended.code, ended.err.count("\n")) == (2, 1)
        assert all(repr(word) in ended.err for word in (column, one, two))
        [named] = re.findall(r"(--name \S+)", ended.err)
    assert not Path("n.fairpc").exists()
    names_of = [f"{column}={value}:{value} as typed" for value in (one, *other_of(column))]
    words = [word for name in names_of for word in ("--name", name)]
    assert called(capsys, "fit", "c.csv", *FIT, *words, "-o", "n.fairpc").code == 0
    assert named.startswith(f"--name {column}=")


def other_of(column: str) -> tuple[str, ...]:
    """What else must be named, of the values in two cases."""
    return ("Yes",) if column == "hired" else ("M",)


def test_values_have_names_that_people_say(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spelt = "--name 'hired=yes:a job' --name hired=no:refused --name hired=:Offers "
    spelt += "--name sex=F:women"
    said = shlex.split(spelt)
    ended = called(capsys, "fit", "t.csv", *FIT, *said, "-o", "n.fairpc")
    assert "\n  women: of those who deserved a job, " in ended.out
    assert " of 100 were recorded refused" in ended.out
    assert "\n  M: of those" in ended.out
    assert "\nNext: fairpc audit n.fairpc t.csv -o report.html\n" in ended.out
    assert load("n.fairpc").names_["sex"] == {"F": "women"}
    handed: list[Any] = []

    def audit(*_: Any, names: Any = None, **__: Any) -> None:
        handed.append(names)
        raise OptionError("that is all")

    monkeypatch.setattr(auditing, "audit", audit)
    assert called(capsys, "audit", "n.fairpc", "t.csv", *said).code == 2
    assert handed == [
        {"hired": {"yes": "a job", "no": "refused", "": "Offers"}, "sex": {"F": "women"}}
    ]


@pytest.mark.parametrize("name", ["deny", "deny=yes", "=yes:x", "hired:x", "hired=yes:"])
def test_a_name_needs_column_value_and_words(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = called(capsys, "fit", "t.csv", *FIT, "-o", "n.fairpc", "--name", name)
    assert ended.code == 2
    assert "--name deny=yes:refused" in ended.err
    ended = called(capsys, "fit", "t.csv", *FIT, "-o", "n.fairpc", "--name", "hierd=yes:x")
    assert "'hierd' (--name): did you mean 'hired'?" in ended.err


def test_labels_of_many_classes_have_a_line_per_group(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    roles = ("--label", "job", "--positive", "cook", "--sensitive", "sex", "--model", "LatNB")
    shown = called(capsys, "fit", "t.csv", *roles, "-o", "n.fairpc").out.splitlines()
    model = load("n.fairpc")
    kept = np.trace(model.label_counts_, axis1=1, axis2=2) / model.label_counts_.sum(axis=(1, 2))
    lines = [
        f"  {group}: {100 * share:.0f} of 100 labels are the fair decision"
        for group, share in zip("FM", kept, strict=True)
    ]
    assert shown[1:3] == lines
