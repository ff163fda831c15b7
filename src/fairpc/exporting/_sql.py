"""A model as one SELECT: the rows of a table, and P(Df = class | row) beside each.

Tables of numbers are part of the query. It keeps within what SQLite allows: 2,000 columns of a
table, 64 tables of a join, expressions 1,000 levels deep.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from fairpc.core import Floats, NotAnsweredError
from fairpc.exporting._scorer import TINIEST, Densities, Input, Leaf, Product, ScorerProgram
from fairpc.exporting._sql_columns import (
    allows,
    coding_stages,
    free_name,
    number,
    quoted,
    selected,
    stage,
)
from fairpc.models import Forest

MOST_COLUMNS: Final = 1_800
MOST_JOINED: Final = 30
MOST_DEPTH: Final = 300
"""Columns of a stage, tables of a join, levels of an expression: all under what SQLite allows."""
WORD: Final = 62
"""Bits of a whole number that neither language takes for its sign."""
PREFIX: Final = "p_df_"


def sql_text(scorer: ScorerProgram, table: str) -> str:
    """The query."""
    from fairpc import __version__

    stages = coding_stages(scorer, table)
    densities = scorer.densities
    if isinstance(densities, Forest):
        stages += _ForestStages(scorer, densities).stages()
    else:
        stages += _CircuitStages(scorer, densities).stages()
    row, classes = free_name(scorer, "fairpc_row"), range(len(scorer.classes))
    total = " + ".join(f"j.j{f}" for f in classes)
    chances = ",\n  ".join(
        f"j.j{f} / NULLIF({total}, 0.0e0) AS {quoted(f'{PREFIX}{scorer.classes[f]}')}"
        for f in classes
    )
    return (
        f"-- P(Df = class | row) of a {scorer.model} that fairpc {__version__} exported.\n"
        "-- For SQLite 3.38 or newer, and DuckDB. NULL is missing, and marginalised. Columns:\n"
        + "".join(map(_described, scorer.inputs))
        + "WITH "
        + ",\n".join(stages)
        + f"\nSELECT r.*,\n  {chances}\n"
        f"FROM fairpc_rows AS r LEFT JOIN fairpc_joint AS j ON j.n = r.{row}\n"
        f"ORDER BY r.{row}\n"
    )


def _described(given: Input) -> str:
    """A comment that says what a column holds."""
    like = f", not text like {given.written.example}" if given.written is not None else ""
    return f"-- {json.dumps(given.name)}: {given.kind}{like}\n"


def table_stage(name: str, columns: Mapping[str, Iterable[float]]) -> str:
    """A stage of numbers, column by column."""
    written = (
        ", ".join(number(v) if isinstance(v, float) else str(v) for v in row)
        for row in zip(*columns.values(), strict=True)
    )
    return stage(name, "VALUES " + ",\n".join(f"({row})" for row in written), list(columns))


def _refuse(what: str, rule: str) -> NotAnsweredError:
    return NotAnsweredError(
        f"the model has {what}, and a query {rule}: export to .onnx or .py, or fit a forest "
        "circuit with fewer columns"
    )


class _ForestStages:
    """Boxes as a table, joined with the rows that they hold."""

    def __init__(self, scorer: ScorerProgram, forest: Forest) -> None:
        self.scorer, self.forest = scorer, forest
        self.n_groups, self.n_classes, n_clusters = forest.shares.shape
        self.n_terms = self.n_classes * n_clusters
        self.terms = [f"q{t}" for t in range(self.n_terms)]
        #: number among all features, number among those of the forest
        self.narrowed = [(scorer.rest[k], k) for k, a in enumerate(forest.allowed) if not a.all()]

    def stages(self) -> list[str]:
        scaled = [_scaled(value) for value in self.forest.values]
        least = sum(float(np.log(v[v > 0].min())) for v in scaled)
        if least < TINIEST:
            raise _refuse("so many features", "has no numbers as small as their products")
        carried = ["n", "g", *(f"x{j}" for j in self.scorer.rest)]
        result = [self._groups(), stage("fairpc_start", self._start())]
        joined = []
        for k, (j, value) in enumerate(zip(self.scorer.rest, scaled, strict=True)):
            rows = value.transpose(0, 3, 1, 2).reshape(-1, self.n_terms)
            result.append(self._table(f"fairpc_value{k}", rows))
            joined.append((f"fairpc_value{k}", f"b.g * {value.shape[3]} + b.x{j}"))
        result += self._multiplied("fairpc_start", "fairpc_row_value", carried, joined)
        result += [
            self._boxes(),
            stage("fairpc_marked", self._marked()),
            stage("fairpc_inside", self._inside()),
            *self._masses(),
            stage("fairpc_joint", self._joint()),
        ]
        return result

    def _groups(self) -> str:
        """Of each subgroup what it allows, its rates, and the terms to begin with."""
        allowed = [dict(allows(self.scorer, g)) for g in range(self.n_groups)]
        columns: dict[str, Iterable[float]] = {"g": range(self.n_groups)}
        columns |= {f"k_{name}": [each[name] for each in allowed] for name in allowed[0]}
        columns |= {f"r{f}": rates for f, rates in enumerate(self.scorer.rates.T.tolist())}
        shares = self.forest.shares.reshape(self.n_groups, -1)
        columns |= zip(self.terms, shares.T.tolist(), strict=True)
        return table_stage("fairpc_groups", columns)

    def _start(self) -> str:
        """Each row in each subgroup that it may be of."""
        known = [name for name, _ in allows(self.scorer, 0)]
        possible = " AND ".join(f"(c.{k} IS NULL OR c.{k} = k.k_{k})" for k in known)
        columns = ["c.n", "k.g", *(f"c.x{j}" for j in self.scorer.rest)]
        columns += [f"k.{term}" for term in self.terms]
        return selected(columns, f"fairpc_codes AS c JOIN fairpc_groups AS k ON {possible}")

    def _table(self, name: str, rows: Floats) -> str:
        """A number for each term, by the number of the row."""
        numbers = {f"p{t}": column for t, column in enumerate(rows.T.tolist())}
        return table_stage(name, {"k": range(len(rows)), **numbers})

    def _multiplied(
        self, base: str, name: str, carried: list[str], joined: list[tuple[str, str]]
    ) -> list[str]:
        """Stages that multiply the terms by those of other tables, some tables at a time.

        Of each table: its name, and the number of its row.
        """
        result = []
        starts = list(range(0, max(len(joined), 1), MOST_JOINED))
        for start in starts:
            some = joined[start : start + MOST_JOINED]
            factors = [
                "".join(f" * COALESCE({table}.p{t}, 1.0e0)" for table, _ in some)
                for t in range(self.n_terms)
            ]
            columns = [f"b.{column}" for column in carried]
            columns += [f"b.q{t}{factor} AS q{t}" for t, factor in enumerate(factors)]
            joins = "".join(f"\nLEFT JOIN {table} ON {table}.k = {key}" for table, key in some)
            target = name if start == starts[-1] else f"{name}_{start}"
            result.append(stage(target, selected(columns, f"{base} AS b{joins}")))
            base = target
        return result

    def _words(self) -> list[tuple[int, int, int]]:
        """Bits of a feature's values in whole numbers: its two numbers, and the first value."""
        return [
            (j, k, first)
            for j, k in self.narrowed
            for first in range(0, self.forest.values[k].shape[3], WORD)
        ]

    def _boxes(self) -> str:
        columns: dict[str, Iterable[float]] = {"l": range(len(self.forest.tree))}
        for j, k, first in self._words():
            some = self.forest.allowed[k][:, first : first + WORD]
            bits = some @ (1 << np.arange(some.shape[1], dtype=np.int64))
            columns[f"a{j}_{first}"] = bits.tolist()
        columns |= {f"set{j}": self.forest.sets[k].of_box.tolist() for j, k in self.narrowed}
        return table_stage("fairpc_boxes", columns)

    def _marked(self) -> str:
        """The bit of each value; all bits where it is missing."""
        bits = [
            f"CASE WHEN x{j} IS NULL THEN -1 WHEN x{j} BETWEEN {first} AND {first + WORD - 1} "
            f"THEN CAST(1 AS BIGINT) << (x{j} - {first}) ELSE 0 END AS m{j}_{first}"
            for j, _, first in self._words()
        ]
        return selected(["*", *bits], "fairpc_row_value")

    def _inside(self) -> str:
        """Each row with each box that holds it."""
        tests = []
        for j, k in self.narrowed:
            words = range(0, self.forest.values[k].shape[3], WORD)
            bits = " OR ".join(f"(m.m{j}_{first} & b.a{j}_{first}) <> 0" for first in words)
            tests.append(f"({bits})")
        columns = ["m.n", "m.g", "b.l", *(f"m.x{j}" for j, _ in self.narrowed)]
        columns += [f"b.set{j}" for j, _ in self.narrowed] + [f"m.{t}" for t in self.terms]
        held = " AND ".join(tests) or "1 = 1"
        return selected(columns, f"fairpc_marked AS m JOIN fairpc_boxes AS b ON {held}")

    def _masses(self) -> list[str]:
        """The terms of each row and box, with its weight and what is missing marginalised."""
        weight = np.repeat(self.forest.weight, self.forest.n_clusters, axis=2)
        result = [self._table("fairpc_weight", weight.reshape(-1, self.n_terms))]
        joined = [("fairpc_weight", f"b.g * {len(self.forest.tree)} + b.l")]
        for j, k in self.narrowed:
            mass = self.forest.sets[k].mass
            result.append(self._table(f"fairpc_mass{k}", mass.reshape(-1, self.n_terms)))
            # A key that is NULL meets nothing. A second condition would make DuckDB compare all.
            key = f"CASE WHEN b.x{j} IS NULL THEN b.g * {mass.shape[1]} + b.set{j} END"
            joined.append((f"fairpc_mass{k}", key))
        carried = ["n", "g", *(f"{c}{j}" for j, _ in self.narrowed for c in ("x", "set"))]
        return [*result, *self._multiplied("fairpc_inside", "fairpc_box_value", carried, joined)]

    def _joint(self) -> str:
        n_clusters = self.forest.n_clusters
        sums = []
        for f in range(self.n_classes):
            terms = " + ".join(f"v.q{f * n_clusters + c}" for c in range(n_clusters))
            sums.append(f"SUM(k.r{f} * ({terms})) AS j{f}")
        source = "fairpc_box_value AS v JOIN fairpc_groups AS k ON k.g = v.g GROUP BY v.n"
        return selected(["v.n", *sums], source)


def _scaled(value: Floats) -> Floats:
    """Probabilities of a feature's values, those of each value scaled to have 1 as the largest.

    The factor is common to all that a row is compared with, so it cancels; products stay large.
    """
    most = value.max(axis=(0, 1, 2))
    scaled: Floats = value / np.where(most > 0, most, 1.0)
    return scaled


class _CircuitStages:
    """Sums and products as expressions; what is used more than once is a column of a stage."""

    def __init__(self, scorer: ScorerProgram, densities: Densities) -> None:
        if densities.least < TINIEST:
            raise _refuse("so many features", "has no numbers as small as their products")
        self.scorer, self.densities = scorer, densities
        self.text: list[str] = []
        self.depth: list[int] = []
        self.level: list[int] = []  #: of the stage whose columns an expression reads
        self.columns: dict[int, list[int]] = {}
        self.expression: dict[int, str] = {}
        uses = Counter({int(root): 2 for root in densities.roots.flat})
        for node in densities.nodes:
            uses.update(node.children)
        for n, node in enumerate(densities.nodes):
            if isinstance(node, Leaf):
                text, depth, level = self._leaf(node), 2, 0
            else:
                below = node.children
                if isinstance(node, Product):
                    text = " * ".join(f"({self.text[c]})" for c in below) or "1.0e0"
                else:
                    pairs = zip(below, node.weights, strict=True)
                    text = " + ".join(f"{number(w)} * ({self.text[c]})" for c, w in pairs)
                depth = len(below) + 2 + max((self.depth[c] for c in below), default=0)
                level = max((self.level[c] for c in below), default=0)
            if uses[n] > 1 or depth > MOST_DEPTH:
                self.columns.setdefault(level, []).append(n)
                self.expression[n] = text
                text, depth, level = f"n{n}", 1, level + 1
            self.text.append(text)
            self.depth.append(depth)
            self.level.append(level)

    def _leaf(self, leaf: Leaf) -> str:
        x = f"x{self.scorer.rest[leaf.feature]}"
        *table, missing = leaf.table.tolist()
        nonzero = [(v, p) for v, p in enumerate(table) if p != 0]
        cases = " ".join(f"WHEN {v} THEN {number(p)}" for v, p in nonzero)
        known = f"CASE {x} {cases} ELSE 0.0e0 END" if cases else "0.0e0"
        return f"CASE WHEN {x} IS NULL THEN {number(missing)} ELSE {known} END"

    def stages(self) -> list[str]:
        result, base = [], "fairpc_codes"
        kept = ["n", "s", *(f"x{j}" for j in range(len(self.scorer.features)))]
        for level in sorted(self.columns):
            new = self.columns[level]
            kept_nodes = [
                f"n{n}" for earlier in range(level) for n in self.columns.get(earlier, [])
            ]
            if len(kept) + len(kept_nodes) + len(new) > MOST_COLUMNS:
                size = f"{self.densities.n_edges:,} edges"
                raise _refuse(f"circuits of {size}", f"has at most {MOST_COLUMNS:,} columns")
            columns = [*kept, *(f"{self.expression[n]} AS n{n}" for n in new)]
            kept += [f"n{n}" for n in new]
            target = f"fairpc_level{level}"
            result.append(stage(target, selected(columns, base)))
            base = target
        return [*result, stage("fairpc_joint", self._joint(base))]

    def _joint(self, base: str) -> str:
        columns = []
        for f in range(len(self.scorer.classes)):
            terms = []
            for g, roots in enumerate(self.densities.roots):
                known = " AND ".join(
                    f"({c} IS NULL OR {c} = {v})" for c, v in allows(self.scorer, g)
                )
                rate = number(self.scorer.rates[g, f])
                terms.append(
                    f"CASE WHEN {known} THEN {rate} * {self.text[roots[f]]} ELSE 0.0e0 END"
                )
            columns.append(f"{' + '.join(terms)} AS j{f}")
        return selected(["n", *columns], base)
