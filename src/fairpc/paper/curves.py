"""Figure "Training curves and ROC curves of FairPC" (Appendix): a line a fold."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fairpc.errors.arrays import Codes, Floats, Ints
from fairpc.metrics import auc
from fairpc.paper.exhibit import Claim, Exhibit, Grid, Record, number
from fairpc.paper.figures import Figure, panels
from fairpc.paper.outcome import Outcome
from fairpc.paper.sources import TITLES, PaperTable
from fairpc.paper.study import Study

NAME: Final = "curves"
ENTRIES: Final = {(1, 1): "-", (1, 0): "--", (0, 1): "-.", (0, 0): ":"}
"""P(D = 1 | Df = f, S = s), by (f, s), and how its lines are drawn."""
COLOURS: Final = {(1, 1): "#0072B2", (1, 0): "#009E73", (0, 1): "#D55E00", (0, 0): "#882255"}


def exhibit(study: Study) -> Exhibit:
    """Likelihood and mechanism per EM iteration, and ROC curves."""
    tables, absent = study.real_world
    runs = study.run(tables, ["FairPC"], "FairPC on real-world tables")
    records = tuple(
        _record(table, k, o) for table in tables for k, o in enumerate(runs[table.name, "FairPC"])
    )
    names = [t.name for t in tables]
    return Exhibit(
        name=NAME,
        title="Learning curves and ROC curves of FairPC",
        records=records,
        grids=(_grid(records, names),),
        notes=(
            "Held-out likelihood per EM iteration, after structure learning; a line a fold. The "
            "grid shows means over folds ± standard deviation at the last iteration.",
            *absent,
        ),
        claims=tuple(_claims(records, names)),
        draw=lambda: _draw(tables, {n: runs[n, "FairPC"] for n in names}),
    )


def _record(table: PaperTable, fold: int, outcome: Outcome) -> Record:
    labels = table.rows.d[table.folds[fold].test]
    return {
        "dataset": table.name,
        "fold": fold,
        **{f"p_d1_given_df{f}_s{s}": float(outcome.mechanism[s, f, 1]) for f, s in ENTRIES},
        "auc": auc(labels, outcome.scores),
        "iteration": (steps := _steps(len(outcome.curve))).tolist(),
        "log_likelihood": outcome.curve[steps].round(6).tolist(),
        "mechanism": outcome.mechanism_curve[steps, :, :, 1].round(6).tolist(),
    }


def _steps(n: int) -> Ints:
    """Iterations that are written down: all of the first twenty, then every twentieth."""
    return np.unique([*range(min(n, 20)), *range(0, n, 20), n - 1])


def _grid(records: tuple[Record, ...], names: list[str]) -> Grid:
    keys = [f"p_d1_given_df{f}_s{s}" for f, s in ENTRIES]
    head = ("data set", *(f"P(D=1 | {f}, {s})" for f, s in ENTRIES), "AUC")
    lines = []
    for name in names:
        some = [r for r in records if r["dataset"] == name]
        values = [[r[k] for r in some] for k in (*keys, "auc")]
        lines.append((TITLES[name], *(spread(v) for v in values)))
    return Grid(head, tuple(lines), "P(D = 1 | Df, S) and AUC")


def spread(values: list[float]) -> str:
    """Mean ± standard deviation."""
    return f"{number(float(np.mean(values)))} ± {number(float(np.std(values, ddof=1)))}"


def _claims(records: tuple[Record, ...], names: list[str]) -> list[Claim]:
    claims = []
    for name, key, flip, target, words in (
        ("compas", "p_d1_given_df0_s0", False, 0.4, "P(D = 1 | Df = 0, S = 0) ≈ .4"),
        ("adult", "p_d1_given_df1_s1", True, 0.6, "P(D = 0 | Df = 1, S = 1) ≈ .6"),
    ):
        if name in names:
            values = np.array([r[key] for r in records if r["dataset"] == name])
            mean = float((1 - values if flip else values).mean())
            claims.append(Claim(f"{TITLES[name]}: {words}", abs(mean - target) < 0.1, number(mean)))
    settled = [n for n in names if n != "german"]
    if settled:
        widths = {n: _mechanism_spread([r for r in records if r["dataset"] == n]) for n in settled}
        claims.append(
            Claim(
                "on COMPAS and Adult the mechanism is fairly consistent across folds (± .05)",
                max(widths.values()) < 0.05,
                "largest standard deviation: "
                + "; ".join(f"{TITLES[n]} {number(v)}" for n, v in widths.items()),
            )
        )
    if "german" in names and len(names) > 1:
        sizes = {n: _variation([r for r in records if r["dataset"] == n]) for n in names}
        claims.append(
            Claim(
                "German varies most between folds",
                max(sizes, key=lambda n: sizes[n]) == "german",
                "; ".join(f"{TITLES[n]} ± {number(v)}" for n, v in sizes.items())
                + " nats at the last iteration",
            )
        )
    return claims


def _mechanism_spread(records: list[Record]) -> float:
    """Largest standard deviation over folds of an entry of the mechanism."""
    keys = [f"p_d1_given_df{f}_s{s}" for f, s in ENTRIES]
    return max(float(np.std([r[k] for r in records], ddof=1)) for k in keys)


def _variation(records: list[Record]) -> float:
    return float(np.std([r["log_likelihood"][-1] for r in records], ddof=1))


def _draw(tables: tuple[PaperTable, ...], runs: dict[str, list[Outcome]]) -> Figure:
    figure, axes = panels(len(tables), 3, 3.3, 2.6)
    for row, table in enumerate(tables):
        left, middle, right = axes[row]
        for outcome in runs[table.name]:
            left.plot(outcome.curve, color="#444444", linewidth=0.8)
        left.set(title=table.title, xlabel="EM iteration", ylabel="held-out log-likelihood")
        draw_mechanism(middle, [o.mechanism_curve for o in runs[table.name]])
        middle.set(title=table.title)
        for k, outcome in enumerate(runs[table.name]):
            right.plot(
                *roc(table.rows.d[table.folds[k].test], outcome.scores),
                color="#444444",
                linewidth=0.8,
            )
        right.plot([0, 1], [0, 1], color="#999999", linestyle=":", linewidth=1)
        right.set(title=table.title, xlabel="false positive rate", ylabel="true positive rate")
    handles, labels = axes[0][1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, title="P(D = 1 | Df, S)")
    return figure


def draw_mechanism(axes: Any, curves: list[Floats]) -> None:
    """P(D = 1 | Df, S) per iteration, one dash per entry, one line per run."""
    for (f, s), dash in ENTRIES.items():
        for k, curve in enumerate(curves):
            axes.plot(
                curve[:, s, f, 1], linestyle=dash, linewidth=1, color=COLOURS[f, s],
                label=f"Df = {f}, S = {s}" if k == 0 else None,
            )  # fmt: skip
    axes.set(ylim=(-0.02, 1.02), xlabel="EM iteration", ylabel="P(D = 1 | Df, S)")


def roc(labels: Codes, scores: Floats) -> tuple[Floats, Floats]:
    """False and true positive rate at every threshold."""
    from sklearn.metrics import roc_curve

    fpr, tpr, _ = roc_curve(labels, scores)
    return np.asarray(fpr, np.float64), np.asarray(tpr, np.float64)
