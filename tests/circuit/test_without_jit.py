"""The kernels' logic without the compiler: 20 random circuits in an interpreter of its own.

Run by itself (``NUMBA_DISABLE_JIT=1 python test_without_jit.py``) this file does the work; under
pytest it starts itself that way.
"""

from __future__ import annotations

import os

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings

import oracle
from strategies import Case, cases
from uncompiled import run_uncompiled

QUIET = settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # without the compiler, shrinking would take an hour
    suppress_health_check=list(HealthCheck),
)


def check_queries(case: Case) -> None:
    """Likelihood, marginals, conditionals and samples against the oracle."""
    c, codes = case.circuit, case.codes
    oracle.agree(c.log_marginal(codes), np.log(oracle.marginals(c, codes)))
    soft = {j: np.linspace(0.0, 1.0, int(a)) for j, a in enumerate(c.arities)}
    oracle.agree(np.exp(c.log_weighted(soft)), oracle.weighted(c, soft))
    rows = c.sample(300, 1)
    truth = oracle.likelihood(c, rows)
    assert (truth > 0).all()
    oracle.agree(c.log_likelihood(rows), np.log(truth))
    for table, expected in zip(c.conditionals(codes), oracle.conditionals(c, codes), strict=True):
        oracle.agree(table, expected)
    completed = c.sample_given(codes, 2)
    assert ((completed == codes) | (codes < 0)).all()
    assert (oracle.likelihood(c, completed) > 0).all()
    # The first variable of the samples, within five standard errors of its marginal.
    p = np.minimum(oracle.conditionals(c, np.full((1, codes.shape[1]), -1))[0][0], 1.0)
    share = np.bincount(rows[:, 0], minlength=len(p)) / len(rows)
    assert (np.abs(share - p) <= 5 * np.sqrt(p * (1 - p) / len(rows)) + 1e-12).all()


def check_flows(case: Case) -> None:
    """Expected flows, plans by both paths and MPE of a deterministic circuit."""
    from fairpc.circuit import prepare
    from fairpc.circuit._expected_flows import row_flows
    from fairpc.data import Table

    c, codes = case.circuit, case.codes
    truth = oracle.expected_flows(c, codes)
    oracle.agree(row_flows(c, codes), truth)
    oracle.agree(c.mpe(codes)[1], np.log(oracle.mpe_values(c, codes)))
    table = Table.of(codes, case.weights, arities=c.arities)
    total = oracle.by_parameter(c.graph, case.weights @ truth)
    for path in ("general", "active"):
        plan = prepare(c.graph, table, path=path)
        oracle.agree(plan(c.parameters)[1], total)


def main() -> None:
    if os.environ.get("NUMBA_DISABLE_JIT") != "1":
        raise SystemExit("set NUMBA_DISABLE_JIT=1")
    QUIET(given(cases(max_states=256, max_nodes=40))(check_queries))()
    QUIET(given(cases(deterministic=True, max_states=256, max_nodes=40))(check_flows))()


def test_kernels_without_jit() -> None:
    run_uncompiled(__file__)


if __name__ == "__main__":
    main()
