"""Figure "Compare FairPC initialization methods": the mechanism from two kinds of start.

Paper, Appendix, "Initial parameters": a line is one run on one synthetic table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from fairpc.datasets.synthetic import MECHANISM
from fairpc.errors.arrays import Floats
from fairpc.paper import synthetic
from fairpc.paper.curves import ENTRIES, draw_mechanism, spread
from fairpc.paper.exhibit import Claim, Exhibit, Grid, Record, number
from fairpc.paper.figures import Figure, panels
from fairpc.paper.methods import FAIRPC_RAND
from fairpc.paper.outcome import Outcome
from fairpc.paper.study import Study

NAME: Final = "init"
STARTS: Final = {"FairPC": "prior", FAIRPC_RAND: "random"}
FAR: Final = 0.25
"""A run with an entry this far from the truth did not find it."""


def exhibit(study: Study) -> Exhibit:
    """P(D = 1 | Df, S) per EM iteration, from the prior and from random parameters."""
    found = synthetic.tables(study)
    outcomes = study.run(found, list(STARTS), "prior and random starts")
    records: list[Record] = []
    curves: dict[str, list[Floats]] = {start: [] for start in STARTS.values()}
    for method, start in STARTS.items():
        for table in found:
            for k, outcome in enumerate(outcomes[table.name, method]):
                records.append(_record(start, int(table.name), k, outcome))
                curves[start].append(outcome.mechanism_curve)
    return Exhibit(
        name=NAME,
        title="Where EM ends from a prior and from a random start",
        records=tuple(records),
        grids=(_grid(records),),
        notes=(
            "After one permutation of Df for all groups; a swap inside one group stays: it is "
            "another model, and often as likely.",
        ),
        claims=tuple(_claims(records)),
        draw=lambda: _draw(curves),
    )


def true_entry(f: int, s: int) -> float:
    """P(D = 1 | Df = f, S = s) of the paper's process."""
    return float(MECHANISM[s][f])


def _key(f: int, s: int) -> str:
    return f"p_d1_given_df{f}_s{s}"


def _record(start: str, n_features: int, fold: int, outcome: Outcome) -> Record:
    entries = {_key(f, s): float(outcome.mechanism[s, f, 1]) for f, s in ENTRIES}
    return {
        "start": start,
        "n_features": n_features,
        "fold": fold,
        **entries,
        "error": max(abs(entries[_key(f, s)] - true_entry(f, s)) for f, s in ENTRIES),
        "swapped_groups": sum(entries[_key(0, s)] > entries[_key(1, s)] for s in (0, 1)),
    }


def _grid(records: Sequence[Record]) -> Grid:
    lines = [("true", *(number(true_entry(f, s)) for f, s in ENTRIES), "", "")]
    for start in STARTS.values():
        some = [r for r in records if r["start"] == start]
        entries = [spread([r[_key(f, s)] for r in some]) for f, s in ENTRIES]
        far = sum(r["error"] > FAR for r in some)
        swapped = sum(r["swapped_groups"] > 0 for r in some)
        lines.append((start, *entries, f"{far} of {len(some)}", f"{swapped} of {len(some)}"))
    head = ("start", *(f"P(D=1 | {f}, {s})" for f, s in ENTRIES))
    return Grid((*head, f"off by > {FAR}", "a group swapped"), tuple(lines))


def _claims(records: Sequence[Record]) -> list[Claim]:
    prior = [r for r in records if r["start"] == "prior"]
    random = [r for r in records if r["start"] == "random"]
    means = {e: float(np.mean([r[_key(*e)] for r in prior])) for e in ENTRIES}
    far = sum(r["error"] > FAR for r in random)
    return [
        Claim(
            "the prior start ends near .8 .9 .1 .4",
            all(abs(means[e] - true_entry(*e)) < 0.1 for e in ENTRIES),
            " ".join(number(m) for m in means.values()),
        ),
        Claim(
            "some random starts end far from the truth, with Df swapped in one group",
            far > 0 and any(r["swapped_groups"] == 1 for r in random),
            f"{far} of {len(random)} runs; of the prior start "
            f"{sum(r['error'] > FAR for r in prior)} of {len(prior)}",
        ),
    ]


def _draw(curves: dict[str, list[Floats]]) -> Figure:
    figure, axes = panels(1, 2, 4.4, 3.4, sharey=True)
    for k, (start, some) in enumerate(curves.items()):
        draw_mechanism(axes[0][k], some)
        axes[0][k].set_title(f"{start} start")
        for f, s in ENTRIES:
            axes[0][k].plot(
                1.0, true_entry(f, s), "k<", transform=axes[0][k].get_yaxis_transform(),
                clip_on=False, markersize=6,
            )  # fmt: skip
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=4,
        title="P(D = 1 | Df, S); the triangles are the truth",
    )  # fmt: skip
    return figure
