"""Real-world data sets: the table "Comparison on real world datasets" and its two figures.

The paper's log-likelihood is the mean over training, validation and test rows of
the model fitted on training rows, and its F1 is made of rates (Appendix, "Detailed
results"). Ours are held out; the paper's kinds stand beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan, nan, sqrt
from typing import Any, Final

import numpy as np

from fairpc.metrics import accuracy, f1, rate_f1
from reproduction import criteria
from reproduction.criteria import Criterion
from reproduction.exhibit import Claim, Exhibit, Grid, Record, Records, number, p_value
from reproduction.figures import LOOKS, Figure, legend_below, panels, point
from reproduction.methods import ALL_METHODS, DISTRIBUTIONS, FAIR_CLASSIFIERS, Outcome
from reproduction.runs import Study, held_out_gap
from reproduction.sources import TITLES, PaperTable

BARS: Final = ("2NB", "LatNB", "NLatPC", "FairPC")
"""The bars from left to right, as in the paper."""
BAR_PANELS: Final = {
    "log_likelihood": ("log-likelihood (axis cut)", "higher"),
    "rate_f1": ("F1 from rates", "higher"),
    "discrimination": ("|discrimination|", "lower"),
}
POINTS: Final = ("FairPC", *FAIR_CLASSIFIERS, "LR", "Rand")
QUALITIES: Final = {"accuracy": "accuracy", "rate_f1": "F1 from rates"}
PAPERS_COLUMNS: Final = {
    "log_likelihood_all": "LL (all)",
    "accuracy": "accuracy",
    "rate_f1": "F1",
    "discrimination": "discrimination",
}
"""What the paper's table prints."""
COLUMNS: Final = {"log_likelihood": "LL"} | PAPERS_COLUMNS

# Log-likelihood (over all rows), accuracy, F1 from rates, discrimination: table "Comparison on
# real world datasets".
PRINTED: Final[dict[tuple[str, str], tuple[float, float, float, float]]] = {
    ("compas", "FairPC"): (-3.919, 0.881, 0.868, 0.009),
    ("compas", "LatNB"): (-4.210, 0.881, 0.897, 0.036),
    ("compas", "NLatPC"): (-3.922, 0.877, 0.723, 0.024),
    ("compas", "2NB"): (-4.228, 0.879, 0.808, 0.057),
    ("compas", "FairLR"): (nan, 0.878, 0.699, 0.007),
    ("compas", "Reduction"): (nan, 0.882, 0.769, 0.011),
    ("compas", "Reweight"): (nan, 0.882, 0.764, 0.049),
    ("adult", "FairPC"): (-5.962, 0.822, 0.674, 0.028),
    ("adult", "LatNB"): (-6.515, 0.634, 0.761, 0.132),
    ("adult", "NLatPC"): (-5.980, 0.831, 0.649, 0.084),
    ("adult", "2NB"): (-6.764, 0.823, 0.725, 0.205),
    ("adult", "FairLR"): (nan, 0.786, 0.377, 0.009),
    ("adult", "Reduction"): (nan, 0.821, 0.625, 0.019),
    ("adult", "Reweight"): (nan, 0.803, 0.709, 0.007),
    ("german", "FairPC"): (-11.422, 0.647, 0.641, 0.056),
    ("german", "LatNB"): (-11.999, 0.499, 0.476, 0.081),
    ("german", "NLatPC"): (-11.454, 0.680, 0.663, 0.050),
    ("german", "2NB"): (-12.207, 0.683, 0.665, 0.064),
    ("german", "FairLR"): (nan, 0.711, 0.684, 0.034),
    ("german", "Reduction"): (nan, 0.706, 0.679, 0.071),
    ("german", "Reweight"): (nan, 0.715, 0.684, 0.038),
}

Scores = dict[tuple[str, str], Record]
"""Records of the table by data set and method."""


def printed(dataset: str, method: str) -> dict[str, float]:
    """The printed line of a method, by the names of our numbers; empty where there is none."""
    return dict(zip(PAPERS_COLUMNS, PRINTED.get((dataset, method), ()), strict=False))


def measure(table: PaperTable, fold: int, outcome: Outcome) -> Record:
    """What is measured on the test rows of one fold; discrimination by its absolute value."""
    d, guess = table.rows.d[table.folds[fold].test], outcome.predicted
    return {
        "accuracy": accuracy(d, guess),
        "f1": f1(d, guess),
        "rate_f1": rate_f1(d, guess),
        "discrimination": abs(held_out_gap(table, fold, outcome)),
        "log_likelihood": outcome.mean_log_likelihood,
        "log_likelihood_all": outcome.log_likelihood_all,
    }


def scores(study: Study, methods: Sequence[str] = ALL_METHODS) -> Scores:
    """Means over the folds of the real-world tables, and their standard errors."""
    found = {}
    for table in study.real_world[0]:
        for method in methods:
            outcomes = enumerate(study.real_world_runs[table.name, method])
            folds = [measure(table, k, outcome) for k, outcome in outcomes]
            values = {key: np.array([fold[key] for fold in folds]) for key in folds[0]}
            found[table.name, method] = {
                "dataset": table.name,
                "method": method,
                **{key: float(v.mean()) for key, v in values.items()},
                **{f"{k}_error": float(v.std(ddof=1) / sqrt(len(v))) for k, v in values.items()},
            }
    return found


def table(study: Study) -> Exhibit:
    """The table, with the paper's numbers beside ours."""
    found = scores(study)
    tables, absent = study.real_world
    return Exhibit(
        name="real-world",
        title="Comparison on real-world data sets",
        records=Records(found.values()),
        grids=[_table_grid(table, found) for table in tables],
        notes=(
            "LL is the held-out log-likelihood per row, in nats; LL (all) the mean over "
            "training, validation and test rows, which is what the paper prints.",
            "F1 is made of rates as in the paper: tpr / (tpr + (fpr + fnr) / 2). Discrimination "
            "is the mean over folds of the absolute difference of mean scores.",
            "Bold: best of the four distributions. ↑ (↓): FairPC is better (worse) than this "
            "classifier. In parentheses: the paper.",
            *absent,
        ),
        claims=_table_claims(found, study),
    )


def _table_grid(table: PaperTable, found: Scores) -> Grid:
    n = table.name
    lines = [(m, *(_cell(found, n, m, key) for key in COLUMNS)) for m in ALL_METHODS]
    title = (
        f"{table.title}: {len(table.rows.names) + 1} features with S, "
        f"{table.rows.n_rows:,} rows, {len(table.folds)} folds"
    )
    return Grid(("method", *COLUMNS.values()), lines, title)


def _cell(found: Scores, name: str, method: str, key: str) -> str:
    def good(m: str) -> float:
        """The larger the better."""
        value: float = found[name, m][key]
        return -value if key == "discrimination" else value

    text = number(found[name, method][key], 4 if key == "discrimination" else 3)
    if method == max(DISTRIBUTIONS, key=good):
        text = f"**{text}**"
    if method in FAIR_CLASSIFIERS and not key.startswith("log_likelihood"):
        text += "↑" if good("FairPC") > good(method) else "↓"
    theirs = printed(name, method).get(key, nan)
    return text if isnan(theirs) else f"{text} ({number(theirs)})"


def _table_claims(found: Scores, study: Study) -> list[Claim]:
    tables = study.real_world[0]
    names = [t.name for t in tables]

    def gap(n: str, m: str) -> float:
        return float(found[n, m]["discrimination"])

    def fits(criterion: Criterion, better: tuple[str, ...], worse: tuple[str, ...]) -> Claim:
        """Whether every one of some distributions has a higher likelihood than the others."""
        holds, words = True, []
        for n in names:
            low = min(found[n, m]["log_likelihood"] for m in better)
            high = max(found[n, m]["log_likelihood"] for m in worse)
            holds &= low > high
            words.append(f"{TITLES[n]} {number(low)} against {number(high)}")
        return Claim(criterion, holds, "; ".join(words))

    others = {
        n: min(gap(n, m) for m in DISTRIBUTIONS if m != "FairPC") for n in names if n != "german"
    }
    pairs = [(n, a, b) for n in names for a, b in (("FairPC", "LatNB"), ("NLatPC", "2NB"))]
    return [
        *(_rows_claim(table) for table in tables if table.name == "compas"),
        fits(criteria.PCS_FIT, ("FairPC", "NLatPC"), ("LatNB", "2NB")),
        fits(criteria.LATENT_NB_FITS, ("LatNB",), ("2NB",)),
        fits(criteria.FAIRPC_FITS, ("FairPC",), ("NLatPC",)),
        _f1_claim(found, names),
        Claim(
            criteria.LEAST_GAP,
            all(gap(n, "FairPC") < other for n, other in others.items()),
            "; ".join(
                f"{TITLES[n]} {number(gap(n, 'FairPC'))} against {number(other)}"
                for n, other in others.items()
            ),
        ),
        _margin_claim(study, list(others)),
        Claim(
            criteria.PCS_GAP,
            all(gap(n, a) < gap(n, b) for n, a, b in pairs),
            "; ".join(
                f"{TITLES[n]} {a} {number(gap(n, a))}, {b} {number(gap(n, b))}" for n, a, b in pairs
            ),
        ),
    ]


def _rows_claim(table: PaperTable) -> Claim:
    n_rows = table.rows.n_rows
    return Claim(criteria.ROWS, n_rows == criteria.ROWS.bound, f"{n_rows:,} rows")


def _f1_claim(found: Scores, names: Sequence[str]) -> Claim:
    behind = {
        n: max(found[n, m]["rate_f1"] for m in DISTRIBUTIONS) - found[n, "FairPC"]["rate_f1"]
        for n in names
    }
    words = "; ".join(f"{TITLES[n]} {number(value)} below the best" for n, value in behind.items())
    return Claim(
        criteria.F1_COMPETITIVE,
        all(value <= criteria.F1_COMPETITIVE.bound for value in behind.values()),
        words,
    )


def _margin_claim(study: Study, names: Sequence[str]) -> Claim:
    """Whether the gap of FairPC is significantly below those of the others, fold by fold."""
    from scipy.stats import ttest_rel

    words, holds = [], True
    for table in (t for t in study.real_world[0] if t.name in names):
        gaps = {
            m: [
                abs(held_out_gap(table, k, o))
                for k, o in enumerate(study.real_world_runs[table.name, m])
            ]
            for m in DISTRIBUTIONS
        }
        p_values = {
            m: float(ttest_rel(gaps["FairPC"], gaps[m]).pvalue)
            for m in DISTRIBUTIONS
            if m != "FairPC"
        }
        holds &= max(p_values.values()) < criteria.LEAST_GAP_MARGIN.bound
        listed = ", ".join(f"{m} {p_value(p)}" for m, p in p_values.items())
        words.append(f"{TITLES[table.name]} {listed}")
    return Claim(criteria.LEAST_GAP_MARGIN, holds, "p against " + "; ".join(words))


def bars(study: Study) -> Exhibit:
    """Figure "Comparison of fair probability distributions": means over folds, their spread."""
    tables, absent = study.real_world
    records = Records(_spreads(study, table, method) for table in tables for method in BARS)
    lines = [
        (
            f"{TITLES[r['dataset']]} {r['method']}",
            *(f"{number(r[key])} ± {number(r[f'{key}_sd'])}" for key in BAR_PANELS),
        )
        for r in records
    ]
    return Exhibit(
        name="bars",
        title="Four distributions: likelihood, F1, discrimination",
        records=records,
        grids=[Grid(("model", "LL", "F1", "discrimination"), lines)],
        notes=(
            "Held-out; means over folds ± standard deviation over folds (the black lines).",
            *absent,
        ),
        draw=lambda: _draw_bars(records, [t.name for t in tables]),
    )


def _spreads(study: Study, table: PaperTable, method: str) -> Record:
    """Mean and standard deviation over the folds of each quantity."""
    outcomes = enumerate(study.real_world_runs[table.name, method])
    folds = [measure(table, k, outcome) for k, outcome in outcomes]
    record: Record = {"dataset": table.name, "method": method}
    for key in BAR_PANELS:
        values = [fold[key] for fold in folds]
        record[key] = float(np.mean(values))
        record[f"{key}_sd"] = float(np.std(values, ddof=1))
    return record


def _draw_bars(records: Records, names: list[str]) -> Figure:
    figure, axes = panels(len(names), len(BAR_PANELS), 3.2, 2.4)
    for row, name in zip(axes, names, strict=True):
        for panel, (key, (words, better)) in zip(row, BAR_PANELS.items(), strict=True):
            _bars(panel, records.where(dataset=name), key)
            panel.set(ylabel=words, title=f"{TITLES[name]} ({better} is better)")
    return figure


def _bars(axes: Any, records: Records, key: str) -> None:
    spreads = [r[f"{key}_sd"] for r in records]
    low = min(r[key] - sd for r, sd in zip(records, spreads, strict=True))
    high = max(r[key] + sd for r, sd in zip(records, spreads, strict=True))
    # Bars of likelihoods from zero would hide their differences: the axis is cut.
    base = low - 0.3 * (high - low) if key == "log_likelihood" else 0.0
    outline = {"edgecolor": "black", "linewidth": 0.8, "width": 0.7, "capsize": 4}
    for i, (record, sd) in enumerate(zip(records, spreads, strict=True)):
        look = LOOKS[record["method"]]
        drawn = {"color": look.colour, "hatch": look.hatch} | outline
        axes.bar(i, record[key] - base, bottom=base, yerr=sd, **drawn)
    axes.set_xticks(range(len(records)), [r["method"] for r in records])
    axes.grid(visible=False, axis="x")
    axes.set_ylim(base, high + 0.1 * (high - base))


def trade_off(study: Study) -> Exhibit:
    """Figure "Predictive performance vs. discrimination score": FairPC and the fair classifiers."""
    found = scores(study, POINTS)
    tables, absent = study.real_world
    names = [t.name for t in tables]
    records = Records(_above(found, n, m) for n in names for m in POINTS)
    return Exhibit(
        name="trade-off",
        title="Accuracy and F1 against discrimination",
        records=records,
        grids=[_trade_off_grid(n, records.where(dataset=n)) for n in names],
        notes=(
            "The line joins Rand, which knows nothing, and LR, which knows no constraint; the "
            "further above it, the better the trade-off.",
            *absent,
        ),
        claims=_trade_off_claims(found, names),
        draw=lambda: _draw_trade_off(found, names),
    )


def above_line(score: Record, rand: Record, lr: Record, quality: str) -> float:
    """How far a method lies above the line between Rand and LR, at its discrimination.

    Paper: "the further above the line between these baselines, the better".
    """
    run = lr["discrimination"] - rand["discrimination"]
    share = (score["discrimination"] - rand["discrimination"]) / run if run else 0.0
    return float(score[quality] - (rand[quality] + share * (lr[quality] - rand[quality])))


def _above(found: Scores, name: str, method: str) -> Record:
    score, rand, lr = (found[name, m] for m in (method, "Rand", "LR"))
    record = {key: score[key] for key in ("dataset", "method", "discrimination")}
    for quality in QUALITIES:
        record[quality] = score[quality]
        record[f"{quality}_above_line"] = above_line(score, rand, lr, quality)
    return record


def _trade_off_grid(name: str, records: Records) -> Grid:
    head = ("method", "discrimination", "accuracy", "above the line", "F1", "above the line")
    keys = ("discrimination", "accuracy", "accuracy_above_line", "rate_f1", "rate_f1_above_line")
    lines = [(r["method"], *(number(r[k]) for k in keys)) for r in records]
    return Grid(head, lines, TITLES[name])


def _trade_off_claims(found: Scores, names: list[str]) -> list[Claim]:
    claims = []
    for name in (n for n in names if n != "german"):
        ours = found[name, "FairPC"]
        best = {q: max(found[name, m][q] for m in FAIR_CLASSIFIERS) for q in QUALITIES}
        near = (
            ours["accuracy"] >= best["accuracy"] - criteria.NEAR_BEST_ACCURACY
            and ours["rate_f1"] >= best["rate_f1"] - criteria.NEAR_BEST.bound
        )
        words = (
            f"accuracy {number(ours['accuracy'])}, best other {number(best['accuracy'])}; "
            f"F1 {number(ours['rate_f1'])}, best other {number(best['rate_f1'])}"
        )
        claims.append(Claim(criteria.NEAR_BEST, near, words, TITLES[name]))
    right = {m: found["german", m]["accuracy"] for m in ("FairPC", *FAIR_CLASSIFIERS)}
    order = sorted(right, key=lambda m: -right[m])
    german = Claim(
        criteria.GERMAN_BEST,
        set(order[:2]) == {"FairLR", "Reweight"},
        "accuracy " + ", ".join(f"{m} {number(right[m])}" for m in order),
    )
    return [*claims, german]


def _draw_trade_off(found: Scores, names: list[str]) -> Figure:
    figure, axes = panels(len(names), len(QUALITIES), 3.6, 2.6)
    for row, name in zip(axes, names, strict=True):
        for panel, (quality, words) in zip(row, QUALITIES.items(), strict=True):
            marks = {m: (found[name, m]["discrimination"], found[name, m][quality]) for m in POINTS}
            ends = zip(marks["LR"], marks["Rand"], strict=True)
            panel.plot(*map(list, ends), color="#777777", linestyle="--", linewidth=1, zorder=1)
            for method, (x, y) in marks.items():
                point(panel, method, [x], [y])
            panel.set(title=TITLES[name], ylabel=words, xlabel="|discrimination|, mean over folds")
    legend_below(figure, axes[0][0], len(POINTS))
    return figure
