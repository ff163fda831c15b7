"""What benchmarks/figure_two.py says is compared with arithmetic on the joint table."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from scripts import script

figure_two = script("figure_two")
CELLS, VARIABLES = figure_two.CELLS, figure_two.VARIABLES
P_D, P_DF, P_S = figure_two.P_D, figure_two.P_DF, figure_two.P_S
P_X1, P_X2 = figure_two.P_X1, figure_two.P_X2

ANSI_OR_LINES = re.compile("[\x1b\u2500-\u257f]")


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
    found: dict[str, Any] = figure_two.circuit_facts(rows=100_000, seed=0)
    return found


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
    figure_two.main(["--json", "--rows", "1000", "--seed", "3"])
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["circuit", "queries", "flows", "em"]
    assert found["em"]["rows"] == 1000
    assert found["em"]["seed"] == 3
    assert all(found["circuit"]["properties"].values())


def test_text_is_plain_when_it_is_not_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    figure_two.main(["--rows", "1000"])
    text = capsys.readouterr().out
    assert not ANSI_OR_LINES.search(text)
    assert "S = 1, D = 0, X1 = 1, X2 = 2  0.012525           0.838323" in text


def test_same_seed_same_facts() -> None:
    one, two = (figure_two.circuit_facts(rows=500, seed=1) for _ in range(2))
    assert one["em"].pop("seconds") > 0
    assert two["em"].pop("seconds") > 0
    assert one == two
