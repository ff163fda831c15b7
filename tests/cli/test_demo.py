"""The demo: what it says of Adult is what its parts found, and it says what to do then.

What it says of Figure 2 is compared with arithmetic on the joint table.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import fairpc.cli.demo as demo
from cli.calls import called
from fairpc.cli import main
from fairpc.cli.demo import CELLS, P_D, P_DF, P_S, P_X1, P_X2, VARIABLES
from fairpc.cli.screen import Screen
from fairpc.cli.tables import LabelledTable
from fairpc.data.source import Warned
from fairpc.evidence.assumptions import WHAT_TO_DO

ANSI_OR_LINES = re.compile("[\x1b\u2500-\u257f]")


@pytest.fixture(scope="module")
def found() -> demo.Demo:
    """The demo on every eighth row, which is quick."""
    whole = demo._table

    def some(part: str) -> LabelledTable:
        table = whole(part)
        y = table.y.gather_every(8)
        counts = y.to_frame().group_by(y.name).len()
        return replace(table, X=table.X.gather_every(8), y=y, labels=counts)

    with pytest.MonkeyPatch.context() as patch, Warned().watching():
        patch.setattr(demo, "_table", some)
        return demo.demonstrate(0, Screen(quiet=True))


def test_the_gap_of_scores_is_smaller_than_that_of_the_labels(found: demo.Demo) -> None:
    ours, theirs = found.comparison.means()
    assert (ours["method"], theirs["method"]) == ("FairPC", "LR")
    assert ours["discrimination"] < theirs["discrimination"]
    assert ours["accuracy"] < theirs["accuracy"]  # agreement with biased labels has its price
    assert found.audit.parity is not None
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
    for words in ("Positive class: >50K", "P(D | Df, S)", "LR", "strudel", report):
        assert words in ended.out
    assert found.audit.verdict.headline in ended.out
    assert (WHAT_TO_DO[0] in ended.out) == bool(found.audit.verdict.rejected)
    assert Path(report).stat().st_size > 10_000
    facts = json.loads(called(capsys, "demo", "-o", report, "--json").out)
    assert facts["audit"]["verdict"]["headline"] == found.audit.verdict.headline


@pytest.mark.slow
def test_the_assumptions_are_rejected_on_adult(tmp_path: Path) -> None:
    assert demo.demonstrate(0, Screen(quiet=True)).audit.verdict.rejected is True


def joint() -> npt.NDArray[np.float64]:
    """P(s, f, d, x1, x2) as one array, from the numbers the demo states."""
    table = np.zeros((2, 2, 2, 2, 3))
    for s, f in CELLS:
        d, x1, x2 = (1 - P_D[s, f], P_D[s, f]), (1 - P_X1[s, f], P_X1[s, f]), P_X2[s, f]
        table[s, f] = P_S[s] * P_DF[f] * np.einsum("d,a,b->dab", d, x1, x2)
    return table


def select(table: npt.NDArray[np.float64], evidence: dict[str, int]) -> npt.NDArray[np.float64]:
    """The joint table with everything that contradicts the evidence set to zero."""
    kept = np.zeros_like(table)
    where = tuple(evidence.get(v, slice(None)) for v in VARIABLES)
    kept[where] = table[where]
    return kept


@pytest.fixture(scope="module")
def facts() -> dict[str, Any]:
    return demo.circuit_facts(rows=100_000, seed=0)


def test_queries_equal_the_joint_table(facts: dict[str, Any]) -> None:
    for query in facts["queries"]:
        kept = select(joint(), query["evidence"])
        assert query["probability"] == pytest.approx(kept.sum(), abs=1e-12)
        assert query["p_df"] == pytest.approx(kept[:, 1].sum() / kept.sum(), abs=1e-12)


def test_decision_is_independent_of_the_group(facts: dict[str, Any]) -> None:
    by_group = [q["p_df"] for q in facts["queries"] if list(q["evidence"]) == ["S"]]
    assert len(by_group) == 2
    assert by_group[0] == pytest.approx(by_group[1], abs=1e-12)


def test_flows_are_posteriors(facts: dict[str, Any]) -> None:
    # Given S = 1, D = 0, X1 = 1, X2 = 2, and P(Df) even: .2 · .7 · .5 against .9 · .15 · .1.
    red, green = facts["flows"]
    assert red["flow"] == pytest.approx(0.07 / (0.07 + 0.0135), abs=1e-12)
    assert green["flow"] == pytest.approx(1 - red["flow"], abs=1e-12)
    for edge in (red, green):
        assert edge["flow"] == pytest.approx(edge["p_df"], abs=1e-12)


def test_em_recovers_the_mechanism(facts: dict[str, Any]) -> None:
    em = facts["em"]
    assert em["converged"]
    for cell in em["mechanism"]:
        assert cell["true"] == pytest.approx(P_D[cell["s"], cell["df"]], abs=1e-12)
        assert cell["learned"] == pytest.approx(cell["true"], abs=0.02)
    assert max(abs(c["start"] - c["true"]) for c in em["mechanism"]) > 0.1


def test_em_ends_above_the_truth_on_its_own_rows(facts: dict[str, Any]) -> None:
    curve = facts["em"]["log_likelihood"]
    assert curve[-1] > curve[0]
    assert curve[-1] > facts["em"]["true_log_likelihood"]


def test_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["demo", "--circuit", "--json", "--rows", "1000", "--seed", "3"])
    assert ended.value.code == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["circuit", "queries", "flows", "em"]
    assert found["em"]["rows"] == 1000
    assert found["em"]["seed"] == 3
    assert all(found["circuit"]["properties"].values())


def test_text_is_plain_when_it_is_not_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["demo", "--circuit", "--rows", "1000"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert not ANSI_OR_LINES.search(text)
    assert "S = 1, D = 0, X1 = 1, X2 = 2  0.012525           0.838323" in text


def test_same_seed_same_facts() -> None:
    one, two = (demo.circuit_facts(rows=500, seed=1) for _ in range(2))
    assert one["em"].pop("seconds") > 0
    assert two["em"].pop("seconds") > 0
    assert one == two
