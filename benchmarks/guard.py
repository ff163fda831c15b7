"""How the limits of the fit check were found: its numbers on real tables, and on draws from models.

    python benchmarks/guard.py tables       real tables as they are, and with injected bias
    python benchmarks/guard.py draws 100    draws from models, where every warning is a false alarm

A column per check: (a) standard errors by which the model falls short of half of what a plain
classifier knows, (b) how far P(Df) and the mechanism lie outside of what is possible, (c) the
difference of P(D | S). Tables that are not bundled: see ``injected_bias.py``.
"""

from __future__ import annotations

import sys
import warnings
from time import process_time
from typing import Any

import numpy as np

from fairpc.datasets import load_compas, load_german, make_synthetic
from fairpc.models import FairPC, LatNB, rows_in_order
from fairpc.models._guard import Findings, findings
from fairpc.models._soft_cells import DistinctRows
from injected_bias import FAVOURED, Rows, inject, read


def found(model: Any, X: Any, y: Any, s: Any) -> tuple[Findings | None, float, float]:
    """What the fit check finds, and the seconds of CPU of the fit and of the check."""
    began = process_time()
    model.fit(X, y, sensitive_features=s)
    fitted = process_time()
    rows = DistinctRows.of(rows_in_order(model.coding_, X, y, s)).rows
    result = findings(model.distribution_, rows, model.coding_, model._em_options())
    return result, fitted - began, process_time() - fitted


def numbers(of: Findings) -> tuple[float, float, float, float]:
    """One number per check, two for the second."""
    labels = np.nan if of.labels is None else of.labels.shortfall
    excess = of.rate_excess(), of.mechanism_excess(), of.label_excess()
    rate, mechanism, label = (float(each.max()) for each in excess)
    return labels, rate, mechanism, label


def tables() -> None:
    """Real tables; altered ones are called by their mechanism."""
    names = ["german", "compas", "adult", "credit"]
    altered = [(n, m) for m in ("strong", "paper") for n in ("credit", "law", "dutch", "adult")]
    german, compas = load_german(), load_compas()
    whole = {"german": german, "compas": compas}
    for name, bias in [*((n, "") for n in names), *altered]:
        if name in whole:
            table = whole[name].X, whole[name].y, whole[name].sensitive
        else:
            rows: Rows = inject(name, bias) if bias else read(name)
            table = rows.x, rows.d, np.where(rows.s == FAVOURED, "favoured", "other")
        for structure in ("strudel", "auto", "forest", "LatNB"):
            model: Any = LatNB(guard=False)
            if structure != "LatNB":
                model = FairPC(random_state=0, guard=False).set_params(structure=structure)
            of, fit, guard = found(model, *table)
            if of is not None:
                a, rate, mechanism, label = numbers(of)
                said = "rejected" if of.bounds.empty else f"{rate:+.3f} {mechanism:+.3f}"
                n_said = len(list(of.sentences()))
                print(
                    f"{name:8}{bias:8}{structure:9}(a) {a:+6.2f}  (b) {said:14}  (c) "
                    f"{label:.3f}  warnings {n_said}  seconds {fit:.1f} + {guard:.1f}",
                    flush=True,
                )


def draws(n_draws: int) -> None:
    """Rows drawn from synthetic distributions and from fitted models."""
    sources: dict[str, Any] = {"synthetic": None}
    for name, data in (("german", load_german()), ("compas", load_compas())):
        model = FairPC(structure="strudel", random_state=0, guard=False)
        sources[name] = model.fit(data.X, data.y, sensitive_features=data.sensitive)
    for name, truth in sources.items():
        for n_rows in (400, 2000, 8000):
            for structure in ("strudel", "chow-liu"):
                every = []
                for seed in range(n_draws):
                    if truth is None:
                        drawn = make_synthetic(10, n_rows, seed)
                        rows: Any = drawn.X, drawn.y, drawn.sensitive
                    else:
                        frame = truth.sample(n_rows, seed)
                        rows = frame.drop("S", "D", "Df"), frame["D"], frame["S"]
                    model = FairPC(random_state=0, guard=False).set_params(structure=structure)
                    of, _, _ = found(model, *rows)
                    if of is not None:
                        every.append((*numbers(of), len(list(of.sentences())) > 0))
                top = np.max(every, axis=0)
                print(
                    f"{name:10}{n_rows:6} {structure:9}false alarms {int(np.sum(every, axis=0)[4])}"
                    f" of {len(every)}; largest (a) {top[0]:+.2f} (b) {top[1]:+.3f} {top[2]:+.3f} "
                    f"(c) {top[3]:.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1:2] == ["draws"]:
        draws(int(sys.argv[2]))
    else:
        tables()
