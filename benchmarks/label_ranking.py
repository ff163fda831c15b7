"""How well P(D | x, s) ranks the recorded labels of raw tables, five folds, against boosting.

    python benchmarks/label_ranking.py                       every table and method
    python benchmarks/label_ranking.py adult german --methods fairpc hgb --folds 0 1
    python benchmarks/label_ranking.py --markdown            the means as a table in Markdown

Tables are those of ``injected_bias.py`` with their own labels, which nobody altered. A method sees
X, S and D of four folds; AUC is that of the labels of the fifth, of all rows and within the groups
(mean weighted by rows). "hgb" is scikit-learn's gradient boosting with its defaults and S as a
feature. Differences to it are paired by fold. Seconds are of processor time, a fit.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import numpy.typing as npt
from sklearn.metrics import roc_auc_score

from fairpc.comparison._runner import Run
from injected_bias import FAVOURED, N_FOLDS, OTHER, READ, Rows, find_folder, folds, generator, read
from label_bias import METHODS as EVERY, runs

Floats = npt.NDArray[np.float64]

TABLES = ("adult", "german", "compas", "credit", "income")
MOST_ROWS = 50_000
"""Rows of a table; ACS income alone has more."""


METHODS = {name: EVERY[name] for name in ("hgb", "fairpc", "forest", "strudel")}


def some(table: str, n_rows: int) -> Rows:
    """Rows of a table in an order of chance, with its own label as D."""
    rows = read(table)
    return rows.take(generator(0, table, "ranking").permutation(len(rows))[:n_rows])


def measure(run: Run, test: Rows) -> tuple[float, ...]:
    """AUC of all rows, mean AUC of the groups, seconds of the fit."""
    scores, model = np.asarray(run.decided.scores), run.fitted.model
    if hasattr(model, "predict_observed_proba"):
        scores = model.predict_observed_proba(test.x, sensitive_features=test.s)[:, 1]
    groups = [test.s == name for name in (FAVOURED, OTHER)]
    within = [float(roc_auc_score(test.d[here], scores[here])) for here in groups]
    mean = float(np.average(within, weights=[here.sum() for here in groups]))
    return float(roc_auc_score(test.d, scores)), mean, run.cpu


def measured(given: argparse.Namespace, table: str) -> dict[str, Floats]:
    """Of each method what was measured in each fold, folds × numbers; printed as it comes."""
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in given.methods}
    rows = some(table, given.rows)
    print(f"{table}: {len(rows)} rows, {rows.x.width} features", flush=True)
    chosen = [pair for k, pair in enumerate(folds(rows, table, "ranking")) if k in given.folds]
    for name, run, test in runs({name: METHODS[name] for name in given.methods}, chosen):
        found[name].append(measure(run, test))
        line = "AUC {:.4f}   in groups {:.4f}   {:6.1f} s".format(*found[name][-1])
        print(f"    {line}   {name}", flush=True)
    return {name: np.array(values) for name, values in found.items()}


def summary(table: str, found: dict[str, Floats], markdown: bool) -> list[str]:
    """A line for each method: means, and paired differences to hgb with their standard errors."""
    lines = []
    for name, values in found.items():
        auc, within, seconds = values.mean(axis=0)
        cells = [table, name, f"{auc:.4f}", "", f"{within:.4f}", "", f"{seconds:.1f}"]
        if name != "hgb" and "hgb" in found:
            apart = values[:, :2] - found["hgb"][:, :2]
            error = (
                apart.std(axis=0, ddof=1) / np.sqrt(len(apart)) if len(apart) > 1 else (0.0,) * 2
            )
            for at, mean, spread in zip((3, 5), apart.mean(axis=0), error, strict=True):
                cells[at] = f"{mean:+.4f} ± {spread:.4f}".replace("-", "−")
        texts = cells if markdown else [f"{cell:>16}" for cell in cells]
        lines.append("| " + " | ".join(texts) + " |")
    return lines


HEAD = ("table", "method", "AUC", "− hgb", "in groups", "− hgb", "CPU s")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tables", nargs="*", default=list(TABLES))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--folds", nargs="+", type=int, default=list(range(N_FOLDS)))
    parser.add_argument("--rows", type=int, default=MOST_ROWS, help="of a table, at most")
    parser.add_argument("--markdown", action="store_true", help="the means in Markdown")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if find_folder() is None:
        print("The bundled tables only: FAIRPC_BIAS_DATA names no folder with the others.")
        given.tables = [name for name in given.tables if name not in READ]
    german = some("german", 1000)
    for name in given.methods:
        METHODS[name](german, 0)  # compiles
    lines = [line for t in given.tables for line in summary(t, measured(given, t), given.markdown)]
    texts = HEAD if given.markdown else [f"{word:>16}" for word in HEAD]
    print("| " + " | ".join(texts) + " |")
    if given.markdown:
        print("|" + "---|" * len(HEAD))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
