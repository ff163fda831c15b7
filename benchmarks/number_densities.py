"""Densities of numbers: held-out likelihood, cost, bins of few rows, intervals in queries.

    python benchmarks/number_densities.py [densities] [cost] [bins] [queries]

``densities``: each numeric column of the bundled tables, half of its rows against the other
half, in nats a row: ours in 8 and in 32 bins, flat in the same 8 bins, one normal distribution,
and a mixture of up to 8 by BIC. Values that hold 3 % of the rows are left out; whole numbers have
the mass of an interval of length 1 around them. ``cost``: CPU of a fit with densities ÷ without.
``bins``: the label of held-out rows with and without joining light bins. ``queries``: CPU of one
pass ÷ a sum over all combinations of codes.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

from clock import run_parts
from fairpc import LatNB, TwoNB
from fairpc.data import _binning as binning
from fairpc.data._binning import Atoms, choose_edges
from fairpc.data._density import ColumnDensity
from fairpc.data._fit_density import HEAVY, fit_density
from fairpc.datasets import load_adult, load_german
from fairpc.errors import TableWarning

FOLDS = 5
ROWS = 8000


def tables() -> Iterator[tuple[str, pl.DataFrame, Any, Any]]:
    """Name, features, label and group; at most ``ROWS`` rows, drawn at random."""
    for name, load in (("adult", load_adult), ("german", load_german)):
        data: Any = load()
        frame = pl.DataFrame(
            {str(n): np.asarray(data.X[n]).tolist() for n in data.X.columns}, strict=False
        )
        some = np.random.default_rng(0).permutation(len(frame))[:ROWS]
        yield name, frame[some], np.asarray(data.y)[some], np.asarray(data.sensitive)[some]


def columns() -> Iterator[tuple[str, Any, bool]]:
    """Name, values and whether they are whole, of columns with many values; points left out."""
    for table, frame, _, _ in tables():
        for name in frame.columns:
            if not frame[name].dtype.is_numeric() or frame[name].n_unique() <= 16:
                continue
            values = frame[name].drop_nulls().to_numpy().astype(np.float64)
            distinct, counts = np.unique(values, return_counts=True)
            light = values[~np.isin(values, distinct[counts >= HEAVY * len(values)])]
            if len(light) >= 200:
                yield f"{table} {name}", light, bool((light == np.floor(light)).all())


def flat(density: ColumnDensity) -> ColumnDensity:
    """The same bins with one even piece in each closed one; the open ones stay."""
    first, last = (np.searchsorted(density.cuts, density.edges[k]) for k in (0, -1))
    head, tail = slice(None, int(first) + 1), slice(int(last) + 1, None)
    inner = [1.0] * (len(density.edges) - 1)
    return ColumnDensity(
        density.edges,
        (*density.cuts[:first], *density.edges, *density.cuts[last + 1 :]),
        (*density.weights[head], *inner, *density.weights[tail]),
        (*density.rates[head], *(0.0 for _ in inner), *density.rates[tail]),
        (0.0,) * (len(density.edges) + int(first) + len(density.cuts) - int(last) - 1),
        density.step,
    )


def binned(values: Any, test: Any, n_bins: int, whole: bool) -> tuple[float, float]:
    """Held-out nats a row of our density, and of a flat one in the same bins."""
    distinct, counts = np.unique(values, return_counts=True)
    atoms = Atoms(distinct, counts.astype(np.float64), integral=whole)
    density = fit_density(choose_edges(atoms, n_bins, 0.005), atoms)
    if density is None:
        return np.nan, np.nan
    codes, at = (np.searchsorted(density.edges, x, side="right") for x in (values, test))
    share = (np.bincount(codes, minlength=len(density.edges) + 1) + 1 / n_bins) / (len(values) + 1)
    ours, even = (
        float(np.mean(np.log(share)[at] + d.log_density(test)))
        for d in (density, flat(density) if not any(density.masses) else density)
    )
    return ours, even


def normal(values: Any, test: Any, n_components: int, whole: bool) -> float:
    """Held-out nats a row of a mixture of normals; the number of components by BIC."""
    from sklearn.mixture import GaussianMixture

    scale = values.std()
    x = ((values - values.mean()) / scale)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = [GaussianMixture(k, random_state=0).fit(x) for k in range(1, n_components + 1)]
    best = min(fits, key=lambda m: m.bic(x))
    half = 0.5 / scale if whole else 0.0
    at = (test - values.mean()) / scale
    total = np.zeros(len(test))
    for w, mean, var in zip(
        best.weights_, best.means_[:, 0], best.covariances_[:, 0, 0], strict=True
    ):
        one = stats.norm(mean, np.sqrt(var))
        total += w * (one.cdf(at + half) - one.cdf(at - half) if whole else one.pdf(at) / scale)
    return float(np.mean(np.log(np.maximum(total, 1e-300))))


def densities() -> None:
    print(f"{'column':24}{'32 bins':>9}{'8 bins':>9}{'flat 8':>9}{'normal':>9}{'mixture':>9}")
    sums = np.zeros(5)
    n = 0
    for name, values, whole in columns():
        order = np.random.default_rng(1).permutation(len(values))
        train, test = values[order[::2]], values[order[1::2]]
        (fine, _), (ours, even) = (binned(train, test, k, whole) for k in (32, 8))
        found = [fine, ours, even, *(normal(train, test, k, whole) for k in (1, 8))]
        print(f"{name:24}" + "".join(f"{v:9.3f}" for v in found))
        sums, n = sums + found, n + 1
    print(f"{'mean':24}" + "".join(f"{v:9.3f}" for v in sums / n))


def spent(work: Any) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def cost() -> None:
    for name, frame, y, s in tables():
        times = {}
        for numbers in ("bins", "density", "bins", "density"):
            fit = partial(LatNB(numbers=numbers, guard=False).fit, sensitive_features=s)
            times[numbers] = spent(partial(fit, frame, y))
        seconds = times["density"] - times["bins"]
        ratio = times["density"] / times["bins"]
        print(f"{name:24}LatNB: {ratio:.2f} of the CPU of a fit with bins alone (+{seconds:.3f} s)")


def rates_by_bin(frame: pl.DataFrame, y: Any, s: Any) -> str:
    """Rows and rate of the label in each bin of German's amounts, all rows taken."""
    model = TwoNB(guard=False).fit(frame, y, sensitive_features=s)
    features, positive = model.coding_.features, y == model.classes_[1]
    code = features.transform(frame)[:, features.names.index("credit_amount")]
    return "; ".join(
        f"{label} {(code == k).sum()} rows {positive[code == k].mean():.2f}"
        for k, label in enumerate(features.column("credit_amount").labels)
    )


def bins() -> None:
    """Mean log-loss of D and its AUC, over folds, with and without joining light bins."""
    from sklearn.metrics import log_loss, roc_auc_score

    usual = binning._LIGHT
    for name, frame, y, s in tables():
        fold = np.random.default_rng(2).integers(0, FOLDS, len(frame))
        for words, light in (("joined", usual), ("as before", 0.0)):
            binning._LIGHT = light  # type: ignore[misc]
            found = []
            for k in range(FOLDS):
                train, test = fold != k, fold == k
                model = TwoNB(guard=False)
                model.fit(frame.filter(train), y[train], sensitive_features=s[train])
                p = model.predict_proba(frame.filter(test), sensitive_features=s[test])
                positive = y[test] == model.classes_[1]
                found.append((log_loss(positive, p[:, 1]), roc_auc_score(positive, p[:, 1])))
            n_bins = sum(c.arity for c in model.coding_.features.columns if c.binned)
            loss, area = np.mean(found, axis=0)
            line = f"{n_bins:4} bins, log-loss {loss:.4f}, AUC {area:.4f}"
            print(f"{name:24}light bins {words:10}{line}")
            if name == "german":
                print(f"    credit_amount: {rates_by_bin(frame, y, s)}")
    binning._LIGHT = usual  # type: ignore[misc]


def queries() -> None:
    name, frame, y, s = next(tables())
    model = LatNB(guard=False).fit(frame, y, sensitive_features=s)
    circuit, at, features = model.circuit_, model.distribution_.layout.x, model.coding_.features
    wide = [j for j, c in enumerate(features.columns) if c.binned]
    for n in range(2, len(wide) + 1):
        sets = {at[j]: range(1, features.columns[j].arity) for j in wide[:n]}
        weights = {v: np.isin(np.arange(circuit.arities[v]), codes) for v, codes in sets.items()}
        combined = np.array(list(product(*sets.values())))
        rows = np.full((len(combined), len(circuit.names)), -1, np.int16)
        rows[:, list(sets)] = combined
        one = min(spent(partial(circuit.log_weighted, weights)) for _ in range(5))
        many = min(spent(partial(circuit.log_marginal, rows)) for _ in range(5))
        found = circuit.log_weighted(weights)[0], np.logaddexp.reduce(circuit.log_marginal(rows))
        print(
            f"{name} with {n} intervals: one pass takes {one / many:.3f} of the CPU of a sum over "
            f"{len(rows):,} rows; logarithms differ by {abs(found[0] - found[1]):.1e}"
        )


PARTS = {"densities": densities, "cost": cost, "bins": bins, "queries": queries}

if __name__ == "__main__":
    warnings.simplefilter("ignore", TableWarning)  # levels that a fold has not seen
    run_parts(PARTS)
