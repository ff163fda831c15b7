"""What labels and values mean: the favourable class, and what people call values."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from cli.calls import FIT, answer, called, names, small_table
from fairpc import auditing, load
from fairpc.errors import OptionError


def relabelled(no: str, yes: str) -> str:
    lines = small_table().replace(",yes\n", f",{yes}\n").replace(",no\n", f",{no}\n")
    Path("u.csv").write_text(lines)
    return "u.csv"


@pytest.mark.parametrize(
    ("no", "yes"),
    [
        *(("no", "yes"), ("False", "True"), ("0", "1"), ("0.0", "1.0"), ("-1", "1")),
        *(("rejected", "Approved"), ("withdrawn", "granted"), ("bad", "good"), ("N", "Y")),
    ],
)
def test_a_known_class_is_favourable(
    no: str, yes: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = answer(capsys, "fit", relabelled(no, yes), *FIT, "-o", "n.fairpc")
    assert found["label"]["positive"].removesuffix(".0") == yes.removesuffix(".0")


@pytest.mark.parametrize(("no", "yes"), [("nein", "ja"), ("1", "2"), ("yes", "good")])
def test_a_class_that_nobody_knows_must_be_named(
    no: str, yes: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, before = relabelled(no, yes), [*names(folder), "u.csv"]
    decided = pl.read_csv(table).with_columns(h=pl.col("hired").reverse())
    decided.write_csv("d.csv")
    roles = ("--label", "hired", "--sensitive", "sex")
    for call in (
        ("fit", table, *FIT, "-o", "n.fairpc"),
        ("fit", table, *FIT, "-o", "n.fairpc", "--max-memory", "1GB"),
        ("compare", table, *roles, "--cv", "2", "--method", "Rand"),
        ("audit", "d.csv", *roles, "--decision", "h"),
    ):
        ended = called(capsys, *call)
        assert (ended.code, ended.out) == (2, "")
        assert "label 'hired' has the classes " in ended.err
        assert repr(yes) in ended.err
        assert "--positive " in ended.err
        assert ended.err.count("\n") == 1
    assert names(folder) == sorted({*before, "d.csv"})
    found = answer(capsys, "fit", table, *FIT, "-o", "n.fairpc", "--positive", no)
    assert found["label"]["positive"] == no


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
    assert f"\nNext: fairpc audit n.fairpc t.csv {spelt} -o report.html\n" in ended.out
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
