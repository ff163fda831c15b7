"""Do ranges of error rates against Df hold the truth, and how wide are they?

    python benchmarks/error_rates.py draws 300     eight processes with known Df, each table anew
    python benchmarks/error_rates.py tables        real tables whose truth is known for every row
    python benchmarks/error_rates.py adult         boosting of the label: what is sure, and seconds
    python benchmarks/error_rates.py training      models on other rows, and on their training rows

Draws: a rule of features and group that was learned on other rows decides, and the truth is that of
400,000 rows. Strata are given; their mechanisms are the same, or not. Tables:
``FAIRPC_DUAL_DATA`` names their folder (hypertension.csv, diabetes.csv, referees.csv); a model
learns the recorded label on one half, and its decisions of the other half are judged.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from checkout import data_folder
from fairpc.datasets import load_adult
from fairpc.errors import MetricError
from fairpc.evidence import ErrorRates, error_rates
from fairpc.evidence._decision_rows import DecisionRows

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

RATES: Final = ("tpr", "fpr", "accuracy", "precision")
N_TRUTH: Final = 400_000


@dataclass(frozen=True, eq=False)
class Rows:
    x: Floats
    s: Ints
    a: Ints
    fair: Bools
    label: Bools

    def where(self, rows: Any) -> Rows:
        each = (self.x, self.s, self.a, self.fair, self.label)
        return Rows(*(values[rows] for values in each))


@dataclass(frozen=True)
class Process:
    """P(s), P(Df = 1) by group and stratum, and P(D = 1 | Df = f) by group and stratum."""

    name: str
    n: int
    shares: tuple[float, ...]
    pi: Any  # [s, a] or [s]
    mechanism: Any  # [s, f] or [s, a, f]
    parity: bool  # whether fair rates are equal, within strata where these are given
    strata: bool = False  # whether they are given

    def draw(self, n: int, rng: np.random.Generator) -> Rows:
        k = len(self.shares)
        pi, mechanism = np.array(self.pi), np.array(self.mechanism)
        pi = pi[:, None] + np.zeros((k, 2)) if pi.ndim == 1 else pi
        if mechanism.ndim == 2:
            mechanism = mechanism[:, None] + np.zeros((k, pi.shape[1], 2))
        s = rng.choice(k, n, p=self.shares)
        # Groups have strata unequally often.
        a = rng.binomial(pi.shape[1] - 1, np.linspace(0.35, 0.65, k)[s])
        fair = rng.random(n) < pi[s, a]
        label = rng.random(n) < mechanism[s, a, fair.astype(int)]
        x = rng.normal(size=(n, 4)) + (fair - 0.5)[:, None] * np.array([1.8, 1.4, 1.0, 0.0])
        x[:, 1] += 0.4 * s
        return Rows(np.column_stack([x, a]), s, a, fair, label)


TWO: Final = ((0.05, 0.9), (0.15, 0.7))
PROCESSES: Final = (
    Process("parity true", 4000, (0.5, 0.5), (0.45, 0.45), TWO, True),
    Process("parity off by .2", 4000, (0.5, 0.5), (0.55, 0.35), TWO, False),
    Process("one-sided", 4000, (0.5, 0.5), (0.45, 0.45), ((0.0, 1.0), (0.0, 0.6)), True),
    Process("rare", 12000, (0.5, 0.5), (0.06, 0.06), ((0.005, 0.9), (0.01, 0.6)), True),
    Process("9:1 groups", 6000, (0.9, 0.1), (0.45, 0.45), TWO, True),
    Process("three groups", 6000, (0.4, 0.3, 0.3), (0.4,) * 3, (*TWO, (0.02, 0.8)), True),
    Process("strata, one mechanism", 8000, (0.5, 0.5), ((0.3, 0.6),) * 2, TWO, True, strata=True),
    Process(
        "strata, two mechanisms",
        8000,
        (0.5, 0.5),
        ((0.3, 0.6),) * 2,
        (((0.05, 0.9), (0.02, 0.8)), ((0.15, 0.7), (0.05, 0.95))),
        True,
        strata=True,
    ),
)


def features(rows: Rows) -> Floats:
    """What a rule sees: features, and the group with its own slope of the first."""
    groups = (rows.s[:, None] == np.arange(1, rows.s.max() + 1)).astype(np.float64)
    return np.column_stack([rows.x, groups])


def truth(decided: Bools, fair: Bools) -> dict[str, float]:
    return {
        "tpr": float(decided[fair].mean()),
        "fpr": float(decided[~fair].mean()),
        "accuracy": float((decided == fair).mean()),
        "precision": float(fair[decided].mean()),
    }


Counts = dict[tuple[str, str], list[float]]


def judge(found: ErrorRates, true: dict[Any, dict[str, float]], into: Counts, kind: str) -> None:
    """Whether each range holds, by rate and by group or pair; and the widths of rates."""
    for rate in RATES:
        for name, group in found.groups.items():
            own = getattr(group, rate)
            into[f"{kind} {rate}", str(name)].append(own.low <= true[name][rate] <= own.high)
            into[f"{kind} width {rate}", ""].append(own.width)
            into[f"{kind} open {rate}", ""].append(own.identified[1] - own.identified[0])
        for pair in found.differences:
            own, gap = getattr(pair, rate), true[pair.last][rate] - true[pair.first][rate]
            into[f"{kind} gap {rate}", f"{pair.first} {pair.last}"].append(
                own.low <= gap <= own.high
            )
            into[f"{kind} gap width {rate}", ""].append(own.width)


def simulate(process: Process, n_draws: int) -> Counts:
    counts: Counts = defaultdict(list)
    rng = np.random.default_rng(1)
    first, whole = process.draw(3000, rng), process.draw(N_TRUTH, rng)
    rule = LogisticRegression().fit(features(first), first.label)
    threshold = float(np.quantile(rule.predict_proba(features(first))[:, 1], 0.6))
    folds = StratifiedKFold(5, shuffle=True, random_state=0)

    def decided(rows: Rows) -> Bools:
        return np.asarray(rule.predict_proba(features(rows))[:, 1] >= threshold)

    h = decided(whole)
    each = (whole.s == g for g in range(len(process.shares)))
    true = {g: truth(h[own], whole.fair[own]) for g, own in enumerate(each)}
    for seed in range(n_draws):
        rows = process.draw(process.n, np.random.default_rng(1000 + seed))
        model = LogisticRegression(solver="newton-cholesky")
        seen = np.column_stack([features(rows), rows.s[:, None] * rows.x, rows.x * rows.a[:, None]])
        found = cross_val_predict(model, seen, rows.label, cv=folds, method="predict_proba")
        for kind, delta in (("free", 1.0), ("parity", 0.0)):
            if kind == "parity" and not process.parity:
                continue
            options: dict[str, Any] = {"label_scores": found[:, 1], "delta": delta}
            if process.strata:
                options |= {"given": rows.a}
            given = decided(rows).astype(int), rows.label.astype(int), rows.s
            try:
                rates = error_rates(*given, **options)
            except MetricError:
                counts[f"{kind} refused", ""].append(1)
                continue
            counts[f"{kind} rejected", ""].append(rates.rejected)
            judge(rates, true, counts, kind)
    return counts


def draws(n_draws: int, names: list[str] | None) -> None:
    least = 0.95 - 2 * (0.95 * 0.05 / n_draws) ** 0.5
    print(
        f"{n_draws} draws; the least coverage over groups (pairs), wanted {least:.3f}, and mean "
        "widths"
    )
    heads = [*RATES, *(f"Δ {rate}" for rate in RATES), "width TPR, FPR", "Δ TPR, Δ FPR"]
    print(f"| process | delta | {' | '.join([*heads, 'share of labels', 'refused, rejected'])} |")
    print("|---" * (len(heads) + 4) + "|")
    for process in PROCESSES:
        if names and process.name not in names:
            continue
        counts = simulate(process, n_draws)
        for kind in ("free", "parity"):
            if not counts.get((f"{kind} rejected", "")):
                continue
            shown = [
                min(np.mean(v) for (name, _), v in counts.items() if name == f"{kind} {what}{rate}")
                for what in ("", "gap ")
                for rate in RATES
            ]
            widths = [
                [np.nanmean(counts[f"{kind} {what} {r}", ""]) for r in ("tpr", "fpr")]
                for what in ("width", "gap width")
            ]
            cells = [f"{value:.3f}" for value in shown]
            cells += [f"{a:.2f}, {b:.2f}" for a, b in widths]
            still = [np.nanmean(counts[f"{kind} open {r}", ""]) for r in ("tpr", "fpr")]
            cells.append(f"{np.mean(still) / np.mean(widths[0]):.2f}")
            refused = len(counts.get((f"{kind} refused", ""), []))
            cells.append(f"{refused}, {int(np.sum(counts[f'{kind} rejected', '']))}")
            delta = {"free": 1, "parity": 0}[kind]
            print(f"| {process.name} | {delta} | {' | '.join(cells)} |", flush=True)


MODELS: Final[dict[str, Callable[[], Any]]] = {
    "logistic regression": lambda: make_pipeline(
        StandardScaler(), LogisticRegression(max_iter=500)
    ),
    "boosting": lambda: HistGradientBoostingClassifier(max_iter=100, random_state=0),
    "random forest": lambda: RandomForestClassifier(
        200, min_samples_leaf=5, n_jobs=1, random_state=0
    ),
}


def read(folder: Path, name: str) -> tuple[Floats, Any, Any, Any]:
    """Features with the group, groups, recorded labels and the truth."""
    table = pd.read_csv(folder / f"{name}.csv")
    s, y, t = (table.pop(column).to_numpy() for column in ("group", "recorded", "truth"))
    table = pd.get_dummies(table, dummy_na=False, dtype=float)
    x = np.column_stack([table.fillna(table.median()).to_numpy(), s == np.unique(s)[0]])
    return x, s, y, t


def label_scores(x: Floats, y: Any) -> Floats:
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    model = MODELS["boosting"]()
    found = cross_val_predict(model, x, y, cv=folds, method="predict_proba")
    return np.asarray(found[:, 1], np.float64)


def training(folder: Path) -> None:
    print("Odds ratio of decision and label among rows that are scored alike, its lower limit, and")
    print("what is said: of 4,000 other rows, and of the 4,000 that trained the model")
    print("| table | model | other rows | | training rows | |")
    print("|---|---|---|---|---|---|")
    makers = MODELS | {"tree of depth 8": lambda: DecisionTreeClassifier(max_depth=8)}
    for name in ("hypertension", "diabetes"):
        x, s, y, _ = read(folder, name)
        some = np.random.default_rng(0).permutation(len(y))[:8000]
        parts = some[: len(some) // 2], some[len(some) // 2 :]
        held = [label_scores(x[rows], y[rows]) for rows in parts]
        for kind, make in makers.items():
            model = make().fit(x[parts[1]], y[parts[1]])
            cells = []
            for rows, scores in zip(parts, held, strict=True):
                given = model.predict(x[rows]).astype(int), y[rows], s[rows]
                about: Any = dict.fromkeys(("positive", "clusters", "sample_weight", "given"))
                checked = DecisionRows.of(*given, **about)
                odds, least = checked.odds_ratio(scores)
                try:
                    doubt = error_rates(*given, label_scores=scores).doubt
                except MetricError:
                    doubt = "refused"
                said = "check first" if doubt.startswith("Check") else doubt or "–"
                cells += [f"{odds:.1f} ({least:.1f})", said]
            print(f"| {name} | {kind} | {' | '.join(cells)} |", flush=True)


def tables(folder: Path) -> None:
    print("| table | model | rates inside | of differences | widths TPR | misses |")
    print("|---|---|---|---|---|---|")
    for name in ("hypertension", "diabetes", "referees"):
        x, s, y, t = read(folder, name)
        half = np.random.default_rng(0).permutation(len(y)) < len(y) // 2
        held = label_scores(x[~half], y[~half])
        for kind, make in MODELS.items():
            decided = make().fit(x[half], y[half]).predict(x[~half]).astype(bool)
            own_s, fair = s[~half], t[~half].astype(bool)
            found = error_rates(decided.astype(int), y[~half], own_s, label_scores=held)
            true = {g: truth(decided[own_s == g], fair[own_s == g]) for g in found.groups}
            counts: Counts = defaultdict(list)
            judge(found, true, counts, "free")
            rates = [v for (n, g), v in counts.items() if g and "gap" not in n]
            gaps = [v for (n, _), v in counts.items() if "gap" in n and "width" not in n]
            widths = counts["free width tpr", ""]
            misses = [
                f"{n.removeprefix('free ')} {g}" for (n, g), v in counts.items() if g and not v[0]
            ]
            print(
                f"| {name} | {kind} | {int(sum(map(sum, rates)))} of {len(rates)} | "
                f"{int(sum(map(sum, gaps)))} of {len(gaps)} | {np.mean(widths):.2f} | "
                f"{', '.join(misses) or '–'} |",
                flush=True,
            )


def adult() -> None:
    data = load_adult()
    table, s = data.X.to_pandas(), np.asarray(data.sensitive).astype(str).ravel()
    y = (np.asarray(data.y) == ">50K").astype(int)
    x = pd.get_dummies(table.assign(group=s), dtype=float).to_numpy()
    learned = np.random.default_rng(0).random(len(y)) < 0.4
    model = HistGradientBoostingClassifier(random_state=0).fit(x[learned], y[learned])
    decided = model.predict(x[~learned])
    start = time.perf_counter()
    rows = table[~learned].to_numpy(dtype=object)
    found = error_rates(decided, y[~learned], s[~learned], X=rows)
    print(f"{len(decided):,} rows, {time.perf_counter() - start:.1f} s. {found.summary()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("draws", "tables", "adult", "training"))
    parser.add_argument("n", nargs="?", type=int, default=300)
    parser.add_argument("--processes", nargs="*")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    machine = platform.processor() or platform.machine()
    print(f"python {' '.join(sys.argv)}; {machine}, {os.cpu_count()} cores", flush=True)
    began = time.process_time()
    if options.what == "draws":
        draws(options.n, options.processes)
    elif options.what == "adult":
        adult()
    elif (folder := data_folder("FAIRPC_DUAL_DATA", "dual")) is None:
        sys.exit("FAIRPC_DUAL_DATA is not set: it names the folder of tables with a known truth")
    else:
        (tables if options.what == "tables" else training)(folder)
    print(f"{time.process_time() - began:.0f} s of the processor")


if __name__ == "__main__":
    main()
