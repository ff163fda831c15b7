"""Automatic selection on the published folds: `python benchmarks/recipe.py [names] [--folds N]`.

Prints, as rows of a Markdown table, means over folds of what is measured on test rows. Names are
adult, german, compas, and 10 to 20 for the synthetic tables; all of docs/recipe.md by default.
Under Adult and COMPAS stand the first three folds beside circuits of other libraries that are
free of any fairness constraint; the figures of those are from separate runs. `--stages` prints
what each stage of it reaches instead; `--seed` shifts its seeds, which are
the numbers of the folds; `--missing P` hides cells of X at random.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from adult_like import needed
from clock import timed
from fairpc.metrics import accuracy, discrimination
from fairpc.models import FairDistribution, Rows
from fairpc.models._components import TREES, assemble, learn_component
from fairpc.models._fit import Structure, fit, label_cells, learn_structure
from fairpc.models._forest_fit import ForestStart, fit_forest
from fairpc.models._rows import joined
from fairpc.models._selection import AUTO, Stage, fit_auto
from fairpc.models._top_em import TopRates
from reproduction.distributions import (
    FAIRPC_AUTO,
    PROTOCOL,
    FoldRows,
    decided,
    fit_method,
    with_holes,
)
from reproduction.runs import Task
from reproduction.sources import PaperTable

NAMES = ("adult", "german", "compas", "10", "12", "14", "16", "18", "20")
UNCONSTRAINED: dict[str, dict[str, tuple[float, ...]]] = {
    "adult": {
        "cirkit, HCLT": (-5.963, -5.953, -5.920),
        "deeprob-kit, LearnSPN": (-5.961,),
    },
    "compas": {"cirkit, HCLT": (-3.900, -3.920, -3.952)},
}
"""Held-out nats a row of (x, s, d) of other libraries on folds 1 to 3."""
FloatArray = npt.NDArray[np.float64]


def auto(fold: FoldRows, seed: int) -> FairDistribution:
    return fit_method(FAIRPC_AUTO, fold, seed).distribution


def auto_without_refit(fold: FoldRows, seed: int) -> FairDistribution:
    options = replace(AUTO, random_state=seed)
    return fit_auto(fold.train, validation=fold.valid, options=options, refit=False).distribution


def paper(fold: FoldRows, seed: int) -> FairDistribution:
    options = replace(PROTOCOL, random_state=seed)
    return fit("FairPC", fold.train, validation=fold.valid, options=options).distribution


def paper_refitted(fold: FoldRows, seed: int) -> FairDistribution:
    """As many splits as the validation rows chose, learned on all rows."""
    rng, how = np.random.default_rng(seed), (PROTOCOL.structure, PROTOCOL.smoothing)
    n_splits = learn_structure(fold.train, fold.valid, *how, rng).best_split
    structure = Structure(max_splits=n_splits)
    options = replace(PROTOCOL, structure=structure, random_state=seed)
    return fit("FairPC", joined(fold.train, fold.valid), options=options).distribution


def forest(fold: FoldRows, seed: int) -> FairDistribution:
    options = replace(AUTO, random_state=seed)
    return fit_forest(ForestStart.of(joined(fold.train, fold.valid)), options).distribution


METHODS: dict[str, Callable[[FoldRows, int], FairDistribution]] = {
    "auto": auto,
    "auto, no refit": auto_without_refit,
    "paper": paper,
    "paper, refitted": paper_refitted,
    "forest": forest,
}


def trees_of_the_truth(rows: Rows, true: npt.NDArray[np.int64]) -> FairDistribution:
    """A Chow–Liu tree for each (Df, S) of the true Df: what no method can know."""
    known = replace(rows, d=true.astype(np.int16))
    rng = np.random.default_rng(0)
    how = PROTOCOL.structure, PROTOCOL.smoothing
    component = learn_component(TREES, label_cells(known), None, *how, rng)
    counts = np.full((2, 2, 2), 0.5)
    np.add.at(counts, (rows.s, true, rows.d), 1.0)
    groups, decisions = counts.sum(axis=(1, 2)), counts.sum(axis=(0, 2))
    mechanism = counts / counts.sum(2, keepdims=True)
    rates = TopRates(groups / groups.sum(), decisions / decisions.sum(), mechanism)
    return assemble(rows, [component], np.ones(1), rates)


def measured(m: FairDistribution, test: Rows, true: npt.NDArray[np.int64] | None) -> list[float]:
    """Log-likelihood, |discrimination|, accuracy to D, accuracy to the true Df."""
    found = decided(m, test)
    assert found.scores is not None
    assert found.log_likelihood is not None
    right = np.nan if true is None else accuracy(true, found.decisions)
    gap = abs(discrimination(found.scores, test.s))
    return [float(found.log_likelihood.mean()), gap, accuracy(test.d, found.decisions), right]


def folds(table: PaperTable, n_folds: int) -> list[FoldRows]:
    return [Task(table, k, "").rows for k in range(min(n_folds, len(table.folds)))]


def compare(table: PaperTable, k: int, seed: int) -> None:
    """Every method on every fold."""
    name, true = table.name, table.truth
    found: dict[str, list[list[float]]] = {label: [] for label in METHODS}
    truth = []
    for fold, rows in enumerate(folds(table, k)):
        ids = table.folds[fold]
        known = None if true is None else true[ids.test]
        for label, method in METHODS.items():
            if fold == 0:
                method(rows, seed)  # compiles
            m, seconds = timed(partial(method, rows, seed + fold))
            found[label].append([*measured(m, rows.test, known), seconds])
        if true is not None:
            seen = np.concatenate([ids.train, ids.valid])
            best = trees_of_the_truth(joined(rows.train, rows.valid), true[seen])
            truth.append(measured(best, rows.test, known)[0])
    base = np.array(found["paper"])
    for label, values in found.items():
        measures = np.array(values)
        report(name, label, measures, measures[:, 0] - base[:, 0])
    if name in UNCONSTRAINED:
        ours = {"auto": tuple(score for score, *_ in found["auto"][:3])}
        for label, scores in (ours | UNCONSTRAINED[name]).items():
            each = " / ".join(f"{score:.3f}" for score in scores)
            print(f"| {name} | {label}, folds 1 to {len(scores)} | {each} | | | | | | |")
    if truth:
        print(f"| {name} | trees of the true Df | {np.mean(truth):.4f} | | | | | | |")


def stages(table: PaperTable, k: int, seed: int) -> None:
    """Mean log-likelihood of the test rows after each stage."""
    found: dict[str, list[float]] = {}
    n_mixtures = 0
    for fold, rows in enumerate(folds(table, k)):

        def note(stage: Stage, test: Rows = rows.test) -> None:
            score = measured(stage.fitted.distribution, test, None)[0]
            found.setdefault(stage.name, []).append(score)

        options = replace(AUTO, random_state=seed + fold)
        choices = fit_auto(
            rows.train, validation=rows.valid, options=options, callback=note
        ).choices
        assert choices is not None
        n_mixtures += len(choices.components) + len(choices.dropped) > 1
    for stage_name, scores in found.items():
        print(f"| {table.name} | {stage_name} | {np.mean(scores):.4f} |", flush=True)
    print(f"| {table.name} | folds in which the mixture was chosen | {n_mixtures} of {k} |")


def report(name: str, label: str, table: FloatArray, gain: FloatArray) -> None:
    score, gap, right, true, seconds = table.mean(axis=0)
    cells = [
        name,
        label,
        f"{score:.4f}",
        f"{gain.mean():+.4f}",
        f"{(gain > 0).sum()}/{len(gain)}",
        f"{gap:.4f}",
        f"{right:.4f}",
        "" if np.isnan(true) else f"{true:.4f}",
        f"{seconds:.2f}",
    ]
    print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--missing", type=float, default=0.0)
    parser.add_argument("--stages", action="store_true")
    given = parser.parse_args()
    if given.stages:
        print("| table | stage | nats a row |\n|---|---|---|")
    else:
        print("| table | fit | nats a row | gain | folds | abs. disc. | accuracy | to Df | CPU s |")
        print("|---|---|---|---|---|---|---|---|---|")
    for name in given.names:
        table = needed(name)
        if given.missing:
            table = replace(
                table, rows=with_holes(table.rows, given.missing, np.random.default_rng(0))
            )
        if given.stages:
            stages(table, given.folds, given.seed)
        else:
            compare(table, given.folds, given.seed)


if __name__ == "__main__":
    main()
