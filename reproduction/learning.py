"""How EM goes: learning and ROC curves of FairPC, and the mechanism from two kinds of start.

Figure "Training curves and ROC curves of FairPC" (Appendix): a line a fold. Figure
"Compare FairPC initialization methods" (Appendix, "Initial parameters"): a line is
one run on one synthetic table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from fairpc.core import Floats
from fairpc.datasets._synthetic import MECHANISM
from fairpc.evidence import AssumptionTest, test_assumptions
from fairpc.evidence._test_records import SMALLEST_P
from fairpc.metrics import auc
from reproduction import criteria, synthetic
from reproduction.distributions import FAIRPC_RAND, FAIRPC_RAND_TOP
from reproduction.exhibit import Claim, Exhibit, Grid, Record, Records, number, p_bound, spread
from reproduction.figures import Figure, legend_below, panels
from reproduction.methods import Outcome
from reproduction.runs import Runs, Study
from reproduction.significance import wilcoxon
from reproduction.sources import TITLES, PaperTable, folds_in_words

STARTS: Final = {
    "FairPC": "prior",
    FAIRPC_RAND: "random",
    FAIRPC_RAND_TOP: "random upper layers",
}
FAR: Final = criteria.RANDOM_FAR.bound
"""A run with an entry this far from the truth did not find it."""
SETTLED: Final = criteria.FASTER.bound
_THIN: Final[dict[str, Any]] = {"color": "#444444", "linewidth": 0.8}


def _key(f: int, s: int) -> str:
    return f"p_d1_given_df{f}_s{s}"


_LINES: Final = {
    (1, 1): ("-", "#0072B2"),
    (1, 0): ("--", "#009E73"),
    (0, 1): ("-.", "#D55E00"),
    (0, 0): (":", "#882255"),
}
"""How P(D = 1 | Df = f, S = s) is drawn, by (f, s)."""
_KEYS: Final = [_key(f, s) for f, s in _LINES]
_HEADS: Final = [f"P(D=1 | {f}, {s})" for f, s in _LINES]
_TRUTH: Final = {_key(f, s): float(MECHANISM[s][f]) for f, s in _LINES}
"""The mechanism of the paper's process."""


def _entries(outcome: Outcome) -> dict[str, float]:
    return {_key(f, s): float(outcome.mechanism[s, f, 1]) for f, s in _LINES}


def curves(study: Study) -> Exhibit:
    """Likelihood and mechanism per EM iteration, and ROC curves."""
    tables, absent = study.real_world
    runs = study.run(tables, ["FairPC"], "FairPC on real-world tables")
    records = Records(
        _curve_record(table, k, outcome)
        for table in tables
        for k, outcome in enumerate(runs[table.name, "FairPC"])
    )
    names = [t.name for t in tables]
    tests = {
        t.name: test_assumptions(
            t.rows.x.astype(np.float64), t.rows.d, t.rows.s, classifier="logistic"
        )
        for t in tables
    }
    lines = [
        (TITLES[n], *(spread(records.values(k, dataset=n)) for k in (*_KEYS, "auc"))) for n in names
    ]
    return Exhibit(
        name="curves",
        title="Learning curves and ROC curves of FairPC",
        records=records,
        grids=[
            Grid(("data set", *_HEADS, "AUC"), lines, "P(D = 1 | Df, S) and AUC"),
            _tests_grid(tests),
        ],
        notes=(
            "Held-out likelihood per EM iteration, after structure learning; a line a fold. The "
            "grid shows means over folds ± standard deviation at the last iteration.",
            "Where the test rejects the assumptions, no mechanism fits the table: what EM ends "
            "with is then a number of the model, not of the labels.",
            *absent,
        ),
        claims=_curve_claims(records, tests),
        draw=lambda: _draw_curves(tables, runs),
    )


def _curve_record(table: PaperTable, fold: int, outcome: Outcome) -> Record:
    n = len(outcome.curve)
    # Iterations that are written down: all of the first twenty, then every twentieth.
    steps = np.unique([*range(min(n, 20)), *range(0, n, 20), n - 1])
    return {
        "dataset": table.name,
        "fold": fold,
        **_entries(outcome),
        "auc": auc(table.rows.d[table.folds[fold].test], outcome.scores),
        "iteration": steps.tolist(),
        "log_likelihood": outcome.curve[steps].round(6).tolist(),
        "mechanism": outcome.mechanism_curve[steps, :, :, 1].round(6).tolist(),
    }


def _curve_claims(records: Records, tests: Mapping[str, AssumptionTest]) -> list[Claim]:
    claims = []
    for name, criterion, key, flip, target in (
        ("compas", criteria.COMPAS_MECHANISM, "p_d1_given_df0_s0", False, 0.4),
        ("adult", criteria.ADULT_MECHANISM, "p_d1_given_df1_s1", True, 0.6),
    ):
        if name in tests:
            values = np.array(records.values(key, dataset=name))
            found = float((1 - values if flip else values).mean())
            words = f"{number(found)}; {_verdict(tests[name])}"
            claims.append(Claim(criterion, abs(found - target) <= criterion.bound, words))
    widths, sizes = {}, {}
    for name in tests:
        some = records.where(dataset=name)
        widths[name] = max(float(np.std(some.values(key), ddof=1)) for key in _KEYS)
        sizes[name] = float(np.std([r["log_likelihood"][-1] for r in some], ddof=1))
    settled = {n: width for n, width in widths.items() if n != "german"}
    return [
        *claims,
        Claim(
            criteria.CONSISTENT,
            max(settled.values()) < criteria.CONSISTENT.bound,
            "largest standard deviation: "
            + "; ".join(
                f"{TITLES[n]} {number(v)} ({_verdict(tests[n])})" for n, v in settled.items()
            ),
        ),
        Claim(
            criteria.GERMAN_VARIES,
            max(sizes, key=lambda n: sizes[n]) == "german",
            "; ".join(f"{TITLES[n]} ± {number(v)}" for n, v in sizes.items())
            + " nats at the last iteration",
        ),
    ]


def _verdict(test: AssumptionTest) -> str:
    """What our test says of the assumptions that a mechanism rests on."""
    if test.rejected:
        return f"our test rejects the assumptions behind it (p {_p(test)})"
    return "our test does not reject the assumptions behind it"


def _p(test: AssumptionTest) -> str:
    """The p-value; the test never says that it is smaller than its floor."""
    if test.p_value <= SMALLEST_P:
        return f"≤ {SMALLEST_P:.0E}".replace("-", "−")
    return p_bound(test.p_value)


def _tests_grid(tests: Mapping[str, AssumptionTest]) -> Grid:
    lines = [
        (
            TITLES[name],
            "empty" if test.rejected else _interval(test),
            _p(test),
            "**rejected**" if test.rejected else "not rejected",
        )
        for name, test in tests.items()
    ]
    head = ("data set", "P(Df = 1) that the labels leave possible, 95 %", "p", "assumptions")
    return Grid(head, lines, "Can the assumptions hold? (our test, not the paper's)")


def _interval(test: AssumptionTest) -> str:
    low, high = (float(np.max(end)) for end in (test.lower, test.upper))
    return f"[{number(low)}, {number(high)}]"


def _draw_curves(tables: Sequence[PaperTable], runs: Runs) -> Figure:
    from sklearn.metrics import roc_curve

    figure, axes = panels(len(tables), 3, 3.3, 2.6)
    for (left, middle, right), table in zip(axes, tables, strict=True):
        outcomes = runs[table.name, "FairPC"]
        _draw_mechanism(middle, [o.mechanism_curve for o in outcomes])
        for fold, outcome in zip(table.folds, outcomes, strict=True):
            left.plot(outcome.curve, **_THIN)
            right.plot(*roc_curve(table.rows.d[fold.test], outcome.scores)[:2], **_THIN)
        right.plot([0, 1], [0, 1], color="#999999", linestyle=":", linewidth=1)
        left.set(xlabel="EM iteration", ylabel="held-out log-likelihood")
        right.set(xlabel="false positive rate", ylabel="true positive rate")
        for panel in (left, middle, right):
            panel.set_title(table.title)
    legend_below(figure, axes[0][1], 4, "P(D = 1 | Df, S)")
    return figure


def _draw_mechanism(axes: Any, curves: list[Floats]) -> None:
    """P(D = 1 | Df, S) per iteration, one dash per entry, one line per run."""
    for (f, s), (dash, colour) in _LINES.items():
        for k, curve in enumerate(curves):
            label = f"Df = {f}, S = {s}" if k == 0 else None
            axes.plot(curve[:, s, f, 1], linestyle=dash, linewidth=1, color=colour, label=label)
    axes.set(ylim=(-0.02, 1.02), xlabel="EM iteration", ylabel="P(D = 1 | Df, S)")


def starts(study: Study) -> Exhibit:
    """P(D = 1 | Df, S) per EM iteration, from the prior and from random parameters."""
    tables = synthetic.tables(study)
    runs = study.run(tables, list(STARTS), "prior and random starts")
    records = Records()
    lines: dict[str, list[Floats]] = {start: [] for start in STARTS.values()}
    for method, start in STARTS.items():
        for table in tables:
            for k, outcome in enumerate(runs[table.name, method]):
                records.append(_start_record(start, int(table.name), k, outcome))
                lines[start].append(outcome.mechanism_curve)
    return Exhibit(
        name="init",
        title="Where EM ends from a prior and from a random start",
        records=records,
        grids=[_start_grid(records)],
        notes=(
            folds_in_words(tables),
            "After one permutation of Df for all groups; a swap inside one group stays: it is "
            "another model, and often as likely. The permutation names Df by the larger group, "
            "S = 0; so where the paper sees Df switched when S = 0, we see it when S = 1.",
            "Random: every parameter is drawn. Random upper layers: P(S), P(Df) and P(D | Df, S) "
            "alone, as in the authors' code; features are as learned with D in place of Df.",
            f"Settled: the iteration after which every entry stays within {SETTLED} of its end.",
        ),
        claims=_start_claims(records),
        draw=lambda: _draw_starts(lines),
    )


def _start_record(start: str, n_features: int, fold: int, outcome: Outcome) -> Record:
    entries = _entries(outcome)
    return {
        "start": start,
        "n_features": n_features,
        "fold": fold,
        **entries,
        "error": max(abs(entries[key] - true) for key, true in _TRUTH.items()),
        "swapped_groups": sum(entries[_key(0, s)] > entries[_key(1, s)] for s in (0, 1)),
        "settled": settled(outcome.mechanism_curve),
    }


def settled(curve: Floats) -> int:
    """The first iteration from which on every entry stays within .01 of where it ends."""
    off = np.abs(curve - curve[-1]).reshape(len(curve), -1).max(axis=1) > SETTLED
    return int(np.flatnonzero(off)[-1]) + 1 if off.any() else 0


def _start_grid(records: Records) -> Grid:
    lines = [("true", *map(number, _TRUTH.values()), "", "", "")]
    for start in STARTS.values():
        some = records.where(start=start)
        entries = [spread(some.values(key)) for key in _KEYS]
        swapped = sum(r["swapped_groups"] > 0 for r in some)
        iterations = f"{np.median(some.values('settled')):.0f}"
        lines.append((start, *entries, _far(some), f"{swapped} of {len(some)}", iterations))
    head = ("start", *_HEADS, f"off by > {FAR}", "a group swapped", "settled (median)")
    return Grid(head, lines)


def _far(records: Records) -> str:
    return f"{sum(r['error'] > FAR for r in records)} of {len(records)}"


def _start_claims(records: Records) -> list[Claim]:
    prior, random, upper = (records.where(start=start) for start in STARTS.values())
    means = {key: prior.mean(key) for key in _KEYS}
    widths = {
        start: [float(np.std(some.values(key), ddof=1)) for key in _KEYS]
        for start, some in (("prior", prior), ("random", random))
    }
    # The paper's random start is that of its code, which draws the upper layers alone.
    times = [np.array(some.values("settled"), np.float64) for some in (prior, upper, random)]
    test, ours = (wilcoxon(times[0], other) for other in times[1:])
    medians = [f"{np.median(each):.0f}" for each in times]
    return [
        Claim(
            criteria.PRIOR_NEAR_TRUTH,
            all(
                abs(means[key] - t) <= criteria.PRIOR_NEAR_TRUTH.bound for key, t in _TRUTH.items()
            ),
            " ".join(number(m) for m in means.values()),
        ),
        Claim(
            criteria.RANDOM_VARIES,
            all(a < b for a, b in zip(widths["prior"], widths["random"], strict=True)),
            "; ".join(f"{start} {' '.join(map(number, sd))}" for start, sd in widths.items()),
        ),
        Claim(
            criteria.RANDOM_FAR,
            any(r["error"] > FAR for r in random) and any(r["swapped_groups"] == 1 for r in random),
            f"{_far(random)} runs; of the prior start {_far(prior)}",
        ),
        Claim(
            criteria.FASTER,
            test.effect < 0 and test.p_value < criteria.LEVEL,
            f"median {medians[0]} against {medians[1]} iterations from the random start of the "
            f"authors' code, p {p_bound(test.p_value)}; against ours, which draws every parameter, "
            f"{medians[2]}, p {p_bound(ours.p_value)}. The prior start is ours",
        ),
    ]


def _draw_starts(lines: dict[str, list[Floats]]) -> Figure:
    figure, axes = panels(1, len(lines), 3.6, 3.4, sharey=True)
    for panel, (start, some) in zip(axes[0], lines.items(), strict=True):
        _draw_mechanism(panel, some)
        panel.set_title(f"{start} start")
        # Triangles at the right edge, whatever the number of iterations.
        edge = {"transform": panel.get_yaxis_transform(), "clip_on": False}
        for true in _TRUTH.values():
            panel.plot(1.0, true, "k<", markersize=6, **edge)
    legend_below(figure, axes[0][0], 4, "P(D = 1 | Df, S); the triangles are the truth")
    return figure
