"""The demo: what it says of Adult is what its parts found, and it says what to do then."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import fairpc.cli._bundled as demo
from cli.calls import called
from fairpc.cli._labelled import LabelledTable
from fairpc.cli._screen import Screen
from fairpc.cli._tables import N_ROWS
from fairpc.data import Warned
from fairpc.errors import ContradictionWarning
from fairpc.evidence._test_records import WHAT_TO_DO


@pytest.fixture(scope="module")
def found() -> demo.Demo:
    """The demo on every 24th row, which is quick."""
    whole = demo._table

    def some(part: str) -> LabelledTable:
        table = whole(part)
        y = table.y.gather_every(24)
        counts = y.to_frame().group_by(y.name).len(N_ROWS)
        return replace(table, X=table.X.gather_every(24), y=y, labels=counts)

    with pytest.MonkeyPatch.context() as patch, Warned().watching():
        patch.setattr(demo, "_table", some)
        with pytest.warns(ContradictionWarning, match="with Male above Female"):
            return demo.demonstrate(0, Screen(quiet=True))


def test_the_gap_of_scores_is_smaller_than_that_of_the_labels(found: demo.Demo) -> None:
    ours, theirs = found.comparison.means()
    assert (ours["method"], theirs["method"]) == ("FairPC", "LR")
    assert ours["discrimination"] < theirs["discrimination"]
    assert ours["accuracy"] < theirs["accuracy"]  # agreement with biased labels has its price
    assert found.audit.parity is not None
    assert found.audit.parity.model_gap is not None
    assert found.audit.parity.model_gap < 1e-9


def test_it_prints_all_of_it(
    found: demo.Demo,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(demo, "demonstrate", lambda *_: found)
    report = str(tmp_path / "report.html")
    ended = called(capsys, "demo", "-o", report)
    assert ended.code == 0
    assert "\x1b" not in ended.out
    for words in ("P(Df = >50K) = ", "LR", demo.STRUCTURE, report):
        assert words in ended.out
    # The labels contradict the assumptions: nothing is said of how they were altered.
    assert "Nothing is said about altered labels. The labels contradict" in ended.out
    assert "labels)" not in ended.out.partition("Compared with")[0]
    assert found.fit["learned"]["sentences"] == []
    assert found.audit.verdict.headline in ended.out
    assert (WHAT_TO_DO[0] in ended.out) == bool(found.audit.verdict.rejected)
    assert Path(report).stat().st_size > 10_000
    facts = json.loads(called(capsys, "demo", "-o", report, "--json").out)
    assert facts["audit"]["verdict"]["headline"] == found.audit.verdict.headline


@pytest.mark.slow
def test_the_assumptions_are_rejected_on_adult(tmp_path: Path) -> None:
    with pytest.warns(ContradictionWarning, match="must differ by at least"):
        assert demo.demonstrate(0, Screen(quiet=True)).audit.verdict.rejected is True
