"""The FairPCs that the authors learned and published, scored on their folds beside ours.

A circuit is a pair of files ``circuits/NAME-K.psdd`` and ``.vtree``. Its variables are the columns
of the processed table, except that the label and the last column have changed places (the authors'
``src/data.jl`` does so when it reads a table); the last variable is Df. File K need not belong to
fold K: which training rows a circuit has seen can be read off its parameters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from fairpc.circuit import Circuit, laplace, maximize, prepare
from fairpc.circuit._psdd import read_psdd
from fairpc.core import Codes, Floats, Ints
from fairpc.data import Table
from fairpc.errors import FileFormatError
from reproduction.distributions import FAIRPC_EQUAL, PROTOCOL
from reproduction.exhibit import Exhibit, Grid, Record, Records, number, p_value, signed
from reproduction.methods import Outcome, free_parameters
from reproduction.real_world import COLUMNS, PAPERS_COLUMNS, measure, printed
from reproduction.runs import Study
from reproduction.sources import ROLES, TITLES, PaperTable

QUANTITIES: Final = COLUMNS | {
    "n_parameters": "free parameters",
    "p_d1_given_df1_s1": "P(D=1 | 1, 1)",
    "p_d1_given_df1_s0": "P(D=1 | 1, 0)",
    "p_d1_given_df0_s1": "P(D=1 | 0, 1)",
    "p_d1_given_df0_s0": "P(D=1 | 0, 0)",
}
_DIGITS: Final = {
    "log_likelihood": 4,
    "log_likelihood_all": 4,
    "discrimination": 4,
    "n_parameters": 0,
}
WITHIN: Final = 2.0
"""Paired standard errors within which two fits are called the same."""
SAME_SCORES: Final = 1e-5
"""Test scores that differ by less are those of one circuit, found by another arithmetic."""
_HIDDEN: Final = -1
_SAME: Final = 1e-6
"""P(S) of a circuit is its training rows' to this, which is what the files are rounded to."""


def column_order(header: Sequence[str], label: str) -> list[str]:
    """Names of the variables of a published circuit, by the header of the processed table."""
    names = list(header)
    at = names.index(label)
    names[at], names[-1] = names[-1], names[at]
    return [*names, "Df"]


def read_circuits(folder: Path, table: PaperTable) -> list[Circuit]:
    """The published circuits of a table, in the order of their files."""
    path = folder / "processed" / f"{table.name}_binerized.csv"
    with path.open(encoding="utf-8") as file:
        header = file.readline().strip().split(",")
    names = column_order(header, ROLES[table.name][0])
    stems = [folder / "circuits" / f"{table.name}-{k + 1}" for k in range(len(table.folds))]
    return [read_psdd(s.with_suffix(".psdd"), s.with_suffix(".vtree"), names=names) for s in stems]


def codes_of(circuit: Circuit, table: PaperTable) -> Codes:
    """The rows of a table for a published circuit, Df hidden."""
    label, sensitive = ROLES[table.name]
    columns = dict(zip(table.rows.names, table.rows.x.T, strict=True))
    columns |= {label: table.rows.d, sensitive: table.rows.s}
    columns["Df"] = np.full(table.rows.n_rows, _HIDDEN, np.int16)
    return np.column_stack([columns[name] for name in circuit.names]).astype(np.int16)


def own_fold(circuit: Circuit, table: PaperTable) -> int:
    """The fold whose training rows a circuit was learned from.

    P(S) is known in closed form from the training rows, with Laplace smoothing 1. Of folds that
    agree in it, training rows of the right one are most ahead of its test rows.
    """
    alone = np.full((1, len(circuit.names)), _HIDDEN, np.int16)
    alone[0, circuit.names.index(ROLES[table.name][1])] = 1
    rate = float(np.exp(circuit.log_marginal(alone)[0]))
    fits = circuit.log_marginal(codes_of(circuit, table))
    ahead = {
        k: float(fits[fold.train].mean() - fits[fold.test].mean())
        for k, fold in enumerate(table.folds)
        if abs((table.rows.s[fold.train].sum() + 0.5) / (len(fold.train) + 1) - rate) < _SAME
    }
    if not ahead:
        raise FileFormatError(
            f"a circuit of {TITLES[table.name]} has P(S = 1) = {rate:.6f}, which is that of no "
            "fold: give with --splits the folds that it was learned on"
        )
    return max(ahead, key=lambda k: ahead[k])


def score(circuit: Circuit, table: PaperTable, fold: int) -> Outcome:
    """A published circuit on the test rows of a fold: P(Df = 1 | x, s), P(s, d, x), mechanism."""
    label, sensitive = (circuit.names.index(name) for name in ROLES[table.name])
    decision = circuit.names.index("Df")
    codes, test = codes_of(circuit, table), table.folds[fold].test
    unlabelled = codes[test]
    unlabelled[:, label] = _HIDDEN
    scores = _probability(circuit, unlabelled, {decision: 1})
    grid = np.full((4, len(circuit.names)), _HIDDEN, np.int16)
    grid[:, sensitive], grid[:, decision] = [0, 0, 1, 1], [0, 1, 0, 1]
    positive = _probability(circuit, grid, {label: 1}).reshape(2, 2)
    groups = np.full((2, len(circuit.names)), _HIDDEN, np.int16)
    groups[:, sensitive] = [0, 1]
    rates = _probability(circuit, groups, {decision: 1})
    everywhere = circuit.log_marginal(codes)
    return Outcome(
        scores=scores,
        predicted=(scores > 0.5).astype(np.int8),
        seconds=0.0,
        log_likelihood=everywhere[test],
        log_likelihood_all=float(everywhere.mean()),
        n_parameters=float(free_parameters(circuit)),
        parity_gap=float(rates[1] - rates[0]),
        mechanism=np.stack([1 - positive, positive], axis=2),
    )


def relearned(circuit: Circuit, table: PaperTable, fold: int) -> Floats:
    """Parameters that our EM finds from D = Df on the structure of a published circuit.

    From D = Df the first update takes D for Df in every row. P(S) and P(Df) are then multiplied
    after each update, because the root of a published circuit has a weight for each pair.
    """
    graph, codes = circuit.graph, codes_of(circuit, table)[table.folds[fold].train]
    label, group = (circuit.names.index(name) for name in ROLES[table.name])
    decision = circuit.names.index("Df")
    prior, pairs = laplace(graph, PROTOCOL.smoothing), _root_pairs(circuit, group, decision)
    complete = codes.copy()
    complete[:, decision] = complete[:, label]
    rows = (Table.of(some, arities=circuit.arities) for some in (complete, codes))
    first, later = (prepare(graph, some) for some in rows)
    theta = _multiplied(maximize(graph, first(graph.uniform())[1], prior), pairs)
    for _ in range(PROTOCOL.max_iter - 1):
        theta = _multiplied(maximize(graph, later(theta)[1], prior), pairs)
    return theta


def _root_pairs(circuit: Circuit, group: int, decision: int) -> Ints:
    """Which weight of the root is that of S = s and Df = f, [s, f]."""
    graph = circuit.graph
    root = graph.edge_parameter[graph.child_ptr[-2] :]
    pairs = np.full((4, len(circuit.names)), _HIDDEN, np.int16)
    pairs[:, group], pairs[:, decision] = [0, 0, 1, 1], [0, 1, 0, 1]
    tables = (Table.of(pair[None], arities=circuit.arities) for pair in pairs)
    flows = [prepare(graph, table)(circuit.parameters)[1][root] for table in tables]
    found: Ints = root[np.argmax(flows, axis=1)].reshape(2, 2)
    return found


def _multiplied(theta: Floats, pairs: Ints) -> Floats:
    """P(s, f) made P(s) P(f)."""
    joint = theta[pairs]
    theta[pairs] = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    return theta


def _probability(circuit: Circuit, codes: Codes, event: dict[int, int]) -> Floats:
    """P(event | e) of rows in which the event's variables are hidden."""
    decided = codes.copy()
    for column, value in event.items():
        decided[:, column] = value
    result: Floats = np.exp(circuit.log_marginal(decided) - circuit.log_marginal(codes))
    return result


def exhibit(study: Study) -> Exhibit:
    """The published circuits, our fits, and our fits from the authors' start, fold by fold."""
    tables = study.real_world[0]
    folder = study.sources.data_dir
    title = "The authors' own circuits on their folds, beside our fits"
    if folder is None or study.sources.splits is None or not (folder / "circuits").is_dir():
        note = (
            "Left out: the circuits are read from the folder circuits/ of --data-dir, and scored "
            "on the folds of --splits."
        )
        return Exhibit("circuits", title, Records(), notes=(note,))
    ours = study.run(tables, ("FairPC", FAIRPC_EQUAL), "FairPC on real-world tables")
    records, owners, by_number, same, apart = Records(), {}, {}, [], []
    whole = replace(study.sources, quick=False)
    for table in tables:
        # A file may belong to a fold that a quick look leaves out.
        every = whole.table(table.name)
        found = read_circuits(folder, every)
        folds = [own_fold(circuit, every) for circuit in found]
        used = range(len(table.folds))
        theirs = {k: score(found[folds.index(k)], table, k) for k in used}
        owners[table.name] = folds
        apart += [
            float(np.abs(relearned(c, every, k) - c.parameters).max())
            for c, k in zip(found, folds, strict=True)
        ]
        scored = [measure(table, k, score(found[k], table, k)) for k in used]
        by_number[table.name] = float(np.mean([each["accuracy"] for each in scored]))
        equal = ours[table.name, FAIRPC_EQUAL]
        same += [f"{table.title} {k + 1}" for k in used if is_same(theirs[k], equal[k])]
        numbers = [
            [_measured(table, k, outcomes[k]) for k in used]
            for outcomes in (theirs, ours[table.name, "FairPC"], equal)
        ]
        records.extend(_record(table.name, key, *numbers) for key in QUANTITIES)
    return Exhibit(
        name="circuits",
        title=title,
        records=records,
        grids=[_grid(t.name, records.where(dataset=t.name)) for t in tables],
        notes=(
            "Each published circuit is scored on the test rows of the fold whose training rows it "
            "has seen, by its own P(S): " + _owners_in_words(owners) + ". The label and the last "
            "column of a table have changed places in the variables of its circuits.",
            "Means over folds. In parentheses: the standard error of the paired difference over "
            f"folds. Bold: further than {WITHIN:.0f} of them.",
            _by_number_in_words(by_number, records),
            f"On the structures of these {len(apart)} circuits our EM finds their parameters: from "
            f"D = Df, after {PROTOCOL.max_iter} iterations, the largest difference of a parameter "
            f"is {p_value(max(apart))}. So what differs between their circuits and ours is "
            "structure.",
            _same_in_words(same, sum(len(t.folds) for t in tables)),
            _in_words(records),
        ),
    )


def is_same(one: Outcome, other: Outcome) -> bool:
    """Whether two circuits have one size and give every test row one score."""
    alike = bool(np.abs(one.scores - other.scores).max() < SAME_SCORES)
    return alike and one.n_parameters == other.n_parameters


def _same_in_words(same: Sequence[str], n_folds: int) -> str:
    listed = f" (table and fold: {', '.join(same)})" if same else ""
    return (
        f"On {len(same)} of {n_folds} folds{listed} our fit from D = Df is the published circuit: "
        f"as many parameters, and every test score the same within {SAME_SCORES:.5f}. On the "
        "others the two searches for structure part."
    )


def _measured(table: PaperTable, fold: int, outcome: Outcome) -> dict[str, float]:
    found = measure(table, fold, outcome) | {"n_parameters": outcome.n_parameters}
    for f, s in ((1, 1), (1, 0), (0, 1), (0, 0)):
        found[f"p_d1_given_df{f}_s{s}"] = float(outcome.mechanism[s, f, 1])
    return found


def _record(
    name: str,
    key: str,
    theirs: Sequence[dict[str, float]],
    ours: Sequence[dict[str, float]],
    equal: Sequence[dict[str, float]],
) -> Record:
    a, b, c = (np.array([each[key] for each in some]) for some in (theirs, ours, equal))
    return {
        "dataset": name,
        "quantity": key,
        "paper": printed(name, "FairPC").get(key, math.nan),
        "published": float(a.mean()),
        "published_error": _error(a),
        "ours": float(b.mean()),
        "difference": float((b - a).mean()),
        "difference_error": _error(b - a),
        "ours_equal_start": float(c.mean()),
        "difference_equal_start": float((c - a).mean()),
        "difference_equal_start_error": _error(c - a),
    }


def _error(values: Floats) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values)))


def within(record: Record) -> bool:
    """Whether our fits and the published circuits are within two paired standard errors."""
    return bool(abs(record["difference"]) <= WITHIN * record["difference_error"])


def _grid(name: str, records: Records) -> Grid:
    lines = []
    for r in records:
        digits = _DIGITS.get(r["quantity"], 3)
        apart = f"{signed(r['difference'], digits)} ({number(r['difference_error'], digits)})"
        lines.append(
            (
                QUANTITIES[r["quantity"]],
                number(r["paper"]),
                f"{number(r['published'], digits)} ± {number(r['published_error'], digits)}",
                number(r["ours"], digits),
                apart if within(r) else f"**{apart}**",
                number(r["ours_equal_start"], digits),
                f"{signed(r['difference_equal_start'], digits)} "
                f"({number(r['difference_equal_start_error'], digits)})",
            )
        )
    head = ("FairPC", "printed", "published circuits ± s. e.", "ours", "ours − published")
    return Grid((*head, "ours from D = Df", "− published"), lines, TITLES[name])


def _owners_in_words(owners: dict[str, list[int]]) -> str:
    words = []
    for name, folds in owners.items():
        other = [(k + 1, fold + 1) for k, fold in enumerate(folds) if k != fold]
        listed = ", ".join(f"file {k} to fold {fold}" for k, fold in other)
        words.append(f"{TITLES[name]} {listed or 'every file to the fold of its number'}")
    return "; ".join(words) + " (all others to the fold of their number)"


def _by_number_in_words(by_number: dict[str, float], records: Records) -> str:
    words = []
    for name, value in by_number.items():
        (own,) = records.values("published", dataset=name, quantity="accuracy")
        words.append(f"{TITLES[name]} {number(value)} instead of {number(own)}")
    return (
        "If file K were scored on fold K, some would be scored on rows that they have seen; "
        f"accuracy would be: {'; '.join(words)}."
    )


def _in_words(records: Records) -> str:
    cells = [r for r in records if r["quantity"] in PAPERS_COLUMNS]
    apart = [r for r in cells if not within(r)]
    listed = "; ".join(
        f"{TITLES[r['dataset']]} {QUANTITIES[r['quantity']]} {signed(r['difference'], 4)} "
        f"({number(r['difference_error'], 4)})"
        for r in apart
    )
    return (
        f"Of the {len(cells)} cells that the paper prints of FairPC, {len(cells) - len(apart)} of "
        f"ours are within {WITHIN:.0f} paired standard errors of the published circuits"
        + (f"; the others: {listed}." if apart else ".")
    )
