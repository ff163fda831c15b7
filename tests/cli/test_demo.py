"""The demos: a bias that was planted is found, and census data that say no."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import fairpc.cli._bundled as demo
from cli.calls import called
from fairpc.cli._labelled import LabelledTable
from fairpc.cli._screen import Screen
from fairpc.cli._tables import N_ROWS
from fairpc.data import Warned
from fairpc.errors import ContradictionWarning


@pytest.fixture(scope="module")
def loans() -> demo.LoansDemo:
    return demo.demonstrate(0, Screen(quiet=True))


@pytest.fixture(scope="module")
def census() -> demo.CensusDemo:
    """On every 24th row, which is quick."""
    whole = demo._census

    def some(part: Any) -> LabelledTable:
        table = whole(part)
        y = table.y.gather_every(24)
        counts = y.to_frame().group_by(y.name).len(N_ROWS)
        return replace(table, X=table.X.gather_every(24), y=y, labels=counts)

    with pytest.MonkeyPatch.context() as patch, Warned().watching():
        patch.setattr(demo, "_census", some)
        with pytest.warns(ContradictionWarning, match="with Male above Female"):
            return demo.demonstrate_census(0, Screen(quiet=True))


def test_the_truth_lies_in_every_range(loans: demo.LoansDemo) -> None:
    truth = {group: 1 - share for group, share in loans.recorded.items()}
    for cell in loans.fit["learned"]["mechanism"]:
        if (cell["decision"], cell["label"]) == ("yes", "no"):
            assert cell["lower"] <= truth[cell["group"]] <= cell["upper"]
    possible = loans.fit["learned"]["positive_rate_set"]
    assert possible["lower"] <= loans.fair_rate <= possible["upper"]
    widths = []
    for review in loans.reviews:
        rates = {r.group: r.interval for r in review.rates if r.name == "mechanism_1"}
        widths.append(rates["F"][1] - rates["F"][0])
    assert rates["F"][0] <= 1 - truth["F"] <= rates["F"][1]
    assert rates["M"][0] <= 1 - truth["M"] <= rates["M"][1]
    assert widths == sorted(widths, reverse=True)
    assert [review.n_drawn for review in loans.reviews] == [100, 200, 300]


def test_the_model_approves_more_deserving_women(loans: demo.LoansDemo) -> None:
    assert loans.decided["F"] > loans.recorded["F"] + 0.15
    assert abs(loans.decided["F"] - loans.decided["M"]) < 0.05


def test_the_story_of_the_loans(
    loans: demo.LoansDemo,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(demo, "demonstrate", lambda *_: loans)
    report = str(tmp_path / "report.html")
    ended = called(capsys, "demo", "-o", report)
    assert ended.code == 0
    assert "\x1b" not in ended.out
    assert 20 <= ended.out.count("\n") <= 48
    assert "The labels are biased" in ended.out
    assert "by convention); truth: 29\n" in ended.out
    assert "After 300 files" in ended.out
    assert f"Report: {report}" in ended.out
    page = Path(report).read_text()
    assert "Loan approvals by sex" in page
    assert "deserved to be approved were recorded refused" in page
    facts = json.loads(called(capsys, "demo", "loans", "-o", report, "--json").out)
    assert facts["truth"]["fair_rate"] == loans.fair_rate
    assert facts["audit"]["verdict"]["headline"] == loans.audit.verdict.headline
    assert called(capsys, "demo", "houses").code == 2


def test_the_census_says_no(
    census: demo.CensusDemo,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(demo, "demonstrate_census", lambda *_: census)
    ended = called(capsys, "demo", "census", "-o", str(tmp_path / "report.html"))
    assert ended.code == 0
    assert ended.out.startswith("When data say no")
    # The labels contradict the assumptions: nothing is said of how they were altered.
    assert "Nothing is said about altered labels. The labels of the fit" in ended.out
    assert "were recorded <=50K" not in ended.out
    assert census.fit["learned"]["sentences"] == []
    assert census.audit.verdict.headline in ended.out


@pytest.mark.slow
def test_the_assumptions_are_rejected_on_adult() -> None:
    with pytest.warns(ContradictionWarning, match="must differ by at least"):
        assert demo.demonstrate_census(0, Screen(quiet=True)).audit.verdict.rejected is True
