"""Starts of the authors' code beside ours, on the real-world tables.

The paper starts FairPC from D = Df exactly; that of LatNB it does not describe. Their code moves
labels until both groups have one rate and draws the parameters of features at random, so that what
is printed of LatNB is one draw of ten random starts. Here it is drawn often enough to show by
how much such a mean moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from reproduction.distributions import FAIRPC_EQUAL, LATNB_MOVED
from reproduction.exhibit import Exhibit, Grid, Record, Records, number, signed
from reproduction.methods import Outcome
from reproduction.real_world import PAPERS_COLUMNS, measure, printed
from reproduction.runs import Study, Task
from reproduction.sources import TITLES, PaperTable

N_STARTS: Final = 20
QUICK_STARTS: Final = 2


def exhibit(study: Study) -> Exhibit:
    """FairPC from both starts; LatNB from ours and from many of the authors'."""
    tables, absent = study.real_world
    n_starts = QUICK_STARTS if study.sources.quick else N_STARTS
    kinds = [("FairPC", 1), (FAIRPC_EQUAL, 1), ("LatNB", 1), (LATNB_MOVED, n_starts)]
    tasks = [
        Task(table, fold, method, start=start)
        for table in tables
        for fold in range(len(table.folds))
        for method, n in kinds
        for start in range(n)
    ]
    outcomes = study.runner(tasks, "the authors' starts")
    records = Records(_record(t, o) for t, o in zip(tasks, outcomes, strict=True))
    return Exhibit(
        name="protocol",
        title="Starts of the authors' code beside ours",
        records=records,
        grids=[_fairpc(tables, records), _latnb(tables, records)],
        notes=(
            "Our FairPC starts from P(D = f | Df = f, S) = .9. D = Df exactly, the start of the "
            "paper, is a fixed point of EM without smoothing; with it, EM leaves it slowly. In "
            "parentheses: the standard error of the paired difference over folds.",
            "Our LatNB starts, as our FairPC does, from features as learned with D in place of "
            "Df. Of the authors' start of LatNB each number is a mean over folds; least, mean and "
            f"largest of {n_starts} such means are shown, each of other random features.",
            *absent,
        ),
    )


def _record(task: Task, outcome: Outcome) -> Record:
    return {
        "dataset": task.table.name,
        "method": task.method,
        "start": task.start,
        "fold": task.fold,
        "log_likelihood": outcome.mean_log_likelihood,
        "log_likelihood_all": outcome.log_likelihood_all,
        **measure(task.table, task.fold, outcome),
    }


def _fairpc(tables: Sequence[PaperTable], records: Records) -> Grid:
    lines = []
    for table in tables:
        for key, words in PAPERS_COLUMNS.items():
            ours, theirs = (
                np.array(records.values(key, dataset=table.name, method=m))
                for m in ("FairPC", FAIRPC_EQUAL)
            )
            apart = theirs - ours
            error = float(apart.std(ddof=1) / np.sqrt(len(apart)))
            lines.append(
                (
                    f"{TITLES[table.name]} {words}",
                    number(printed(table.name, "FairPC")[key]),
                    number(float(ours.mean()), 4),
                    number(float(theirs.mean()), 4),
                    f"{signed(float(apart.mean()), 4)} ({number(error, 4)})",
                )
            )
    return Grid(("FairPC", "printed", "ours", "D = Df", "difference"), lines, "FairPC")


def means_of_starts(records: Records, dataset: str, key: str) -> list[float]:
    """Mean over the folds of LatNB from the authors' start, one per set of random features."""
    some = records.where(dataset=dataset, method=LATNB_MOVED)
    return [some.mean(key, start=k) for k in sorted({r["start"] for r in some})]


def _latnb(tables: Sequence[PaperTable], records: Records) -> Grid:
    lines = []
    for table in tables:
        for key, words in PAPERS_COLUMNS.items():
            means = means_of_starts(records, table.name, key)
            theirs = printed(table.name, "LatNB")[key]
            # The printed number has three digits: half of the last is rounding.
            inside = min(means) - 0.0005 <= theirs <= max(means) + 0.0005
            lines.append(
                (
                    f"{TITLES[table.name]} {words}",
                    number(theirs),
                    number(records.mean(key, dataset=table.name, method="LatNB")),
                    f"{number(min(means))} … {number(float(np.mean(means)))} … "
                    f"{number(max(means))}",
                    "yes" if inside else "**no**",
                )
            )
    head = ("LatNB", "printed", "ours", "labels moved: least … mean … largest", "printed inside")
    return Grid(head, lines, "LatNB")
