"""Do sets and bounds within strata hold what they say? Draws from a process with known Df.

    python benchmarks/latent_strata.py 40       how often they hold the truth, and how wide they are

Hours differ between the groups and tell Df, so that plain parity is wrong and parity within hours
right. Features take few values; P(Df | x, s) is known, not estimated. Printed per model: the share
of draws whose set holds P(Df); of rows whose bounds at .95 hold P(Df | x, s), and their mean width,
also without sampling error; the largest error of the mechanism and of P(Df | a); the mean error
of P(Df | x, s); the share of draws in which the fit said that labels contradict the assumptions.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any, Final

import numpy as np
import polars as pl
from scipy.special import expit

from fairpc import LatentDecision
from fairpc.models import TableClassifier

ALTERED: Final = np.array([[0.02, 0.6], [0.1, 0.95]])
HOURS: Final = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
"""P(A = a | S = s)."""
LEVEL_OF: Final = np.array([-2.0, 0.0, 2.0])
SLOPES: Final = np.array([1.5, 1.0, 0.7, 0.7])
"""Log-odds of Df: by hours, and by four features of five values each."""
MODELS: Final[dict[str, dict[str, Any]]] = {
    "strata": {"given": "hours"},
    "without strata": {},
}
FIELDS: Final = ("set", "bounds", "width", "estimated", "mechanism", "rates", "score", "rejected")


def draw(n: int, rng: np.random.Generator) -> tuple[pl.DataFrame, Any, Any, Any]:
    """A table, its labels, P(Df = 1 | x, s) of each row, and strata."""
    s = rng.integers(0, 2, n)
    a = (rng.random(n)[:, None] > HOURS[s].cumsum(axis=1)).sum(axis=1)
    x = rng.integers(-2, 3, (n, len(SLOPES)))
    q = expit(LEVEL_OF[a] + x @ SLOPES)
    d = rng.random(n) < ALTERED[s, 0] + (ALTERED[s, 1] - ALTERED[s, 0]) * q
    columns = {"sex": np.array(["f", "m"])[s], "hours": np.array(["h0", "h1", "h2"])[a]}
    columns |= {f"x{j}": column for j, column in enumerate(x.T)}
    return pl.DataFrame(columns), d.astype(int), q, a


def one_draw(given: dict[str, Any], n: int, seed: int) -> dict[str, float]:
    """What one fit says, against the truth."""
    rng = np.random.default_rng(seed)
    table, labels, _, _ = draw(n, rng)
    fresh, _, q, _ = draw(2000, rng)
    _, _, truth, strata = draw(200_000, np.random.default_rng(0))
    rates = np.array([truth[strata == a].mean() for a in range(3)])
    model = LatentDecision(TableClassifier("hgb"), sensitive="sex", random_state=0, **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(table, labels)
        bounds, estimated = (model.predict_bounds(fresh, level=level) for level in (0.95, None))
    low, high = model.fair_rate_set_
    found = model.stratum_rate_[:, 1] if given else np.full(3, np.nan)
    inside = (bounds[:, 0] <= q) & (q <= bounds[:, 1])
    return {
        "set": float(low <= truth.mean() <= high),
        "bounds": float(inside.mean()),
        "width": float(np.diff(bounds).mean()),
        "estimated": float(np.diff(estimated).mean()),
        "mechanism": float(np.abs(model.stratum_mechanism_[..., 1] - ALTERED[:, None]).max()),
        "rates": float(np.abs(found - rates).max()),
        "score": float(np.abs(model.predict_proba(fresh)[:, 1] - q).mean()),
        "rejected": float(any("contradict" in text for text in model.warnings_)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("draws", type=int, nargs="?", default=20)
    parser.add_argument("--rows", type=int, nargs="+", default=[2000, 8000])
    args = parser.parse_args()
    print(f"{'rows':>6}  {'model':<15}" + "".join(f"{name:>13}" for name in FIELDS))
    for n in args.rows:
        for name, given in MODELS.items():
            found = [one_draw(given, n, seed) for seed in range(args.draws)]
            means = (np.nanmean([each[f] for each in found] or [np.nan]) for f in FIELDS)
            print(f"{n:>6}  {name:<15}" + "".join(f"{mean:>13.3f}" for mean in means), flush=True)


if __name__ == "__main__":
    with warnings.catch_warnings():
        # Without strata there are no rates of theirs, and contradictions leave no bounds.
        warnings.simplefilter("ignore", RuntimeWarning)
        main()
