"""A tenth of the battery, in which no attack may do harm; `make battery` runs the whole."""

from __future__ import annotations

import os

import pytest

from battery.attacks import Verdict, table
from battery.runner import run, suites

SEED = 1


@pytest.mark.slow
def test_five_hundred_forgeries_of_every_field() -> None:
    """Refused, or another model that is valid and whose exports agree with it."""
    found = run("forgeries", SEED, 500)
    assert not [outcome for outcome in found if outcome.verdict.failed]
    assert {Verdict.REFUSED, Verdict.OTHER} <= {o.verdict for o in found}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["models", "psdd", "tables", "arrays", "kills"])
def test_a_tenth_of_the_attacks(name: str) -> None:
    if name == "kills" and not hasattr(os, "fork"):
        pytest.skip("needs fork")
    found = run(name, SEED, suites()[name].full // 10)
    harm = [outcome for outcome in found if outcome.verdict.failed]
    assert not harm, f"{table(found)}\n{harm[:5]}"
    # A suite whose attacks are all refused, or all change nothing, attacks nothing.
    assert {Verdict.SAME} < {o.verdict for o in found} or name == "kills"


def test_a_few_attacks_of_each_kind() -> None:
    found = run("psdd", SEED, 20)
    assert [outcome.number for outcome in found] == list(range(20))
    assert not [outcome for outcome in found if outcome.verdict.failed]
