"""Figure "Test log-likelihood under different missingness percentages" (Appendix), and beyond.

Cells of X are hidden from training completely at random; the structure is that of
complete rows and test rows are complete. The paper leaves accuracy and
discrimination "as future work": they are here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from fairpc.metrics import accuracy, discrimination
from fairpc.paper.exhibit import Claim, Exhibit, Grid, Record, number
from fairpc.paper.figures import LOOKS, Figure, panels
from fairpc.paper.outcome import Outcome
from fairpc.paper.runs import Task
from fairpc.paper.sources import TITLES, PaperTable
from fairpc.paper.study import Study

NAME: Final = "missing"
SHARES: Final = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.99)
QUICK_SHARES: Final = (0.0, 0.8, 0.99)
N_FOLDS: Final = 3
N_FEATURES: Final = 15
"""Features of the synthetic table."""
QUANTITIES: Final = {
    "log_likelihood": "held-out log-likelihood",
    "accuracy": "accuracy",
    "discrimination": "|discrimination|",
}


def exhibit(study: Study) -> Exhibit:
    """Likelihood, accuracy and discrimination by the share of hidden cells."""
    sources = replace(study.sources, n_folds=N_FOLDS)
    found, absent = sources.real_world()
    tables = [*found, sources.synthetic(N_FEATURES)]
    shares = QUICK_SHARES if sources.quick else SHARES
    tasks = [
        Task(table, fold, "FairPC", missing=share)
        for table in tables
        for share in shares
        for fold in range(len(table.folds))
    ]
    outcomes = study.runner(tasks, "rows with holes")
    records = tuple(_record(t, o) for t, o in zip(tasks, outcomes, strict=True))
    names = [t.name for t in tables]
    return Exhibit(
        name=NAME,
        title="Learning with missing values",
        records=records,
        grids=tuple(_grid(n, records) for n in names),
        notes=(
            "Cells of X in training and validation rows are hidden completely at random; structure "
            "from complete rows, parameters from what is left, the EM iterate that is best on "
            "validation rows; test rows are complete. Accuracy is to the true Df on synthetic "
            "data, to the observed label elsewhere.",
            "Keeping the last EM iterate, as the paper's protocol does on complete rows, overfits "
            "where much is hidden: the likelihood then falls faster than shown here.",
            *absent,
        ),
        claims=tuple(_claims(records, names)),
        draw=lambda: _draw(records, names),
    )


def _title(name: str) -> str:
    return TITLES.get(name, f"synthetic ({name} features)")


def _record(task: Task, outcome: Outcome) -> Record:
    table: PaperTable = task.table
    test = table.folds[task.fold].test
    labels = table.rows.d[test] if table.truth is None else table.truth[test]
    return {
        "dataset": table.name,
        "missing": task.missing,
        "fold": task.fold,
        "log_likelihood": outcome.mean_log_likelihood,
        "accuracy": accuracy(labels, outcome.predicted),
        "discrimination": abs(discrimination(outcome.scores, table.rows.s[test])),
    }


def _mean(records: Sequence[Record], name: str, share: float, key: str) -> float:
    return float(
        np.mean([r[key] for r in records if r["dataset"] == name and r["missing"] == share])
    )


def _shares(records: Sequence[Record]) -> list[float]:
    return sorted({r["missing"] for r in records})


def _grid(name: str, records: Sequence[Record]) -> Grid:
    lines = tuple(
        (f"{share:.0%}", *(number(_mean(records, name, share, key)) for key in QUANTITIES))
        for share in _shares(records)
    )
    return Grid(("missing", "LL", "accuracy", "discrimination"), lines, _title(name))


def _claims(records: Sequence[Record], names: Sequence[str]) -> list[Claim]:
    words, gentle, losses = [], True, []
    for name in names:
        fits = [_mean(records, name, share, "log_likelihood") for share in (0.0, 0.8, 0.99)]
        part = (fits[0] - fits[1]) / (fits[0] - fits[2])
        gentle &= part < 0.5
        losses.append(((fits[0] - fits[1]) / abs(fits[0]), _title(name)))
        listed = ", ".join(number(fit) for fit in fits)
        words.append(f"{_title(name)} {listed} ({part:.0%})")
    return [
        Claim(
            "the likelihood falls gently up to 80 % missing (by less than half of what is lost at "
            "99 %)",
            gentle,
            f"at 0, 80 and 99 %: {'; '.join(words)}; the largest loss at 80 % is "
            f"{max(losses)[0]:.1%} of the likelihood ({max(losses)[1]})",
        )
    ]


def _draw(records: Sequence[Record], names: Sequence[str]) -> Figure:
    figure, axes = panels(len(QUANTITIES), len(names), 2.6, 2.1, sharex=True)
    shares, look = _shares(records), LOOKS["FairPC"]
    for column, name in enumerate(names):
        for row, (key, words) in enumerate(QUANTITIES.items()):
            panel = axes[row][column]
            some = [r for r in records if r["dataset"] == name]
            panel.scatter(
                [100 * r["missing"] for r in some], [r[key] for r in some], s=10, color="#999999"
            )
            panel.plot(
                [100 * share for share in shares],
                [_mean(records, name, share, key) for share in shares],
                color=look.colour, marker="o", markersize=4, linewidth=1.2,
            )  # fmt: skip
            if column == 0:
                panel.set_ylabel(words)
            if key == "discrimination":
                panel.set_ylim(bottom=0)
                panel.set_xlabel("cells missing (%)")
        axes[0][column].set_title(_title(name))
    return figure
