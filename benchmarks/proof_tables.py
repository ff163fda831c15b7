"""The tables of docs/proof.md and of benchmarks/results/proof, from the records of ``proof.py``."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from failing import FAILURES, HELD
from label_bias_summary import lay_out, mean, short
from ranks import Ranking, rank

Record = dict[str, Any]
Floats = npt.NDArray[np.float64]

VERSIONS = "versions"
"""Kind of the record that says with which libraries the others were made."""
DEFAULT, LOGISTIC = "default", "logistic"
"""By which classifiers the assumptions were tested."""
ALTERED = ("strong", "paper", "mild")
UNALTERED = "none"
NUMBERS = (
    *("accuracy", "auc", "brier", "gap", "mechanism_error", "cpu", "size"),
    *("lower", "upper", "truth", "estimated_lower", "estimated_upper"),
    *("bounds_held", "bounds_width", "mechanism_inside", "mechanism_width"),
)

OTHERS: dict[str, tuple[str, ...]] = {
    "logistic regression": ("lr",),
    "gradient boosting": ("hgb", "boost"),
    "random forest": ("rf",),
    "ThresholdOptimizer": ("lr+to", "boost+to"),
    "ExponentiatedGradient": ("reduction", "reduction-boost"),
    "GridSearch": ("grid-lr", "grid-boost"),
    "reweighing": ("reweighing-lr", "reweighing-boost"),
    "reweighting": ("reweight",),
    "confident learning": ("confident-lr", "confident-boost"),
    "confident learning by group": ("confident-group-lr", "confident-group-boost"),
    "loss correction": ("forward-lr", "forward-boost"),
    "label flipping": ("flip-lr", "flip-boost"),
}
OURS: dict[str, tuple[str, ...]] = {
    "LatNB": ("latnb",),
    "FairPC, paper": ("strudel",),
    "FairPC, forest": ("forest",),
    "FairPC()": ("fairpc",),
    "LatentDecision()": ("latent",),
}
UNFAIR: dict[str, tuple[str, ...]] = {
    "loss correction, true rates": ("oracle-lr", "oracle-boost"),
    "boosting of Df itself": ("limit", "limit-boost"),
}
"""Methods that know what nobody knows; they are not ranked."""
FAMILIES = {**OTHERS, **OURS, **UNFAIR}


@dataclass(frozen=True, eq=False)
class Results:
    """Records with the family of each method.

    Of a family with two learners the one with the higher mean accuracy for Df where labels are
    altered stands for it throughout: a choice by test rows, in favour of methods of others. Cells
    that one of the methods lacks are left out, and so are seeds that lack cells, so that all means
    are over the same cells and every cell has the same seeds.
    """

    frame: pl.DataFrame
    sets: pl.DataFrame
    learners: dict[str, str]

    @classmethod
    def of(cls, records: Iterable[Record]) -> Results:
        good = [r for r in records if "error" not in r]
        frame = _frame([r for r in good if r["kind"] == "fold"])
        learners = {}
        altered = frame.filter(pl.col("failure") == HELD, pl.col("mechanism").is_in(ALTERED))
        for family, methods in FAMILIES.items():
            known = [m for m in methods if m in set(altered["method"])]
            both = _complete(altered.filter(pl.col("method").is_in(known)), "method")
            means = (
                both.group_by("method").agg(pl.col("accuracy").mean()).sort("accuracy", "method")
            )
            if len(means):
                learners[family] = means["method"][-1]
        names = {method: family for family, method in learners.items()}
        kept = frame.filter(pl.col("method").is_in(list(names)))
        kept = kept.with_columns(pl.col("method").replace_strict(names).alias("family"))
        fails = pl.col("failure") != HELD
        parts = [_complete(kept.filter(part), "family") for part in (~fails, fails)]
        kept = pl.concat([_balanced(part) for part in parts])
        return cls(kept, _frame([r for r in good if r["kind"] == "set"]), learners)

    @property
    def held(self) -> pl.DataFrame:
        return self.frame.filter(pl.col("failure") == HELD)

    @property
    def altered(self) -> pl.DataFrame:
        return self.held.filter(pl.col("mechanism").is_in(ALTERED))

    def present(self, families: Iterable[str]) -> list[str]:
        return [family for family in families if family in self.learners]


def _frame(records: list[Record]) -> pl.DataFrame:
    schema = {
        **dict.fromkeys(("table", "mechanism", "failure", "method", "by"), pl.String),
        **dict.fromkeys(("seed", "fold", "warnings"), pl.Int64),
        "rejected": pl.Boolean,
        **dict.fromkeys(NUMBERS, pl.Float64),
    }
    return pl.DataFrame([{n: r.get(n) for n in schema} for r in records], schema=schema)


CELL = ("table", "mechanism", "failure", "size", "seed", "fold")


def _complete(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """Rows of the cells that have every method that there is."""
    return rows.filter(pl.col(name).n_unique().over(CELL) == rows[name].n_unique())


def _balanced(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of the seeds that have every cell that there is."""
    cell = [name for name in CELL if name != "seed"]
    found = rows.select(*cell, "seed").unique().group_by("seed").len()
    whole = found.filter(pl.col("len") == rows.select(cell).n_unique())
    return rows.join(whole.select("seed"), on="seed", how="semi")


def over_cells(
    results: Results, number: str, families: Sequence[str], *cell: str
) -> tuple[list[str], pl.DataFrame]:
    """Families that have the number, and its mean per cell, for cells that all of them have."""
    rows = results.altered.drop_nulls(number)
    named = [family for family in families if family in set(rows["family"])]
    wide = (
        rows.filter(pl.col("family").is_in(named))
        .group_by(*cell, "family", maintain_order=True)
        .agg(pl.col(number).mean())
        .pivot("family", index=list(cell), values=number)
    )
    return named, wide.drop_nulls()


def ranking(
    results: Results, number: str, *cell: str, largest_first: bool = True
) -> tuple[list[str], Ranking]:
    """Families by rank in one number, over the cells of altered labels."""
    named, wide = over_cells(results, number, [*OTHERS, *OURS], *(cell or ("table", "mechanism")))
    return named, rank(wide.select(named).to_numpy(), largest_first=largest_first)


def blocks(records: Iterable[Record]) -> dict[str, str]:
    """Every table of the page, by the name of its markers."""
    records = list(records)
    results = Results.of(records)
    made = {
        "versions": versions(records),
        "cells": cells(results),
        "learners": learners(results),
        "overall": overall(results),
        "ranks": rank_lines(results),
        "seeds": by_seed(results),
        "every-cell": every_cell(results),
        "unaltered": by_mechanism(results),
        "gaps": gaps(results),
        "mechanism": mechanism(results),
        "failures": failures(results),
        "failing-cells": failing_cells(results),
        "failing-gaps": failing_gaps(results),
        "coverage": coverage(results),
        "noticed": noticed(results),
        "seconds": seconds(results),
    }
    return {name: text.strip() for name, text in made.items()}


def fill_page(page: str, texts: dict[str, str]) -> str:
    """The page with what stands between ``<!-- proof: name -->`` and ``<!-- end -->`` replaced."""

    def filled(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in texts:
            raise ValueError(f"the page has a table {name!r}: there is none of that name")
        return f"<!-- proof: {name} -->\n\n{texts[name]}\n\n<!-- end -->"

    return re.sub(r"<!-- proof: ([\w-]+) -->.*?<!-- end -->", filled, page, flags=re.DOTALL)


def as_csv(text: str) -> str:
    """A table as comma-separated values, without what makes numbers bold."""
    lines = [line.strip("|").split(" | ") for line in text.splitlines()]
    out = io.StringIO()
    cells = ([cell.strip(" *") for cell in line] for line in (lines[0], *lines[2:]))
    csv.writer(out, lineterminator="\n").writerows(cells)
    return out.getvalue()


def _table(head: Sequence[str], lines: list[list[str]]) -> str:
    return lay_out("", head, lines, markdown=True).strip()


def cells(results: Results) -> str:
    """How many cells of each kind there are, and seeds of each."""
    lines = []
    for failure in (HELD, *FAILURES):
        rows = results.frame.filter(pl.col("failure") == failure)
        if len(rows):
            cell = rows.select("table", "mechanism", "size", "seed", "fold").unique()
            several = [", ".join(dict.fromkeys(rows[n])) for n in ("table", "mechanism")]
            seeds = ", ".join(str(seed) for seed in sorted(set(rows["seed"])))
            lines.append([failure, *several, seeds, str(len(cell)), str(len(rows))])
    return _table(["what fails", "tables", "mechanisms", "seeds", "cells", "fits"], lines)


def versions(records: list[Record]) -> str:
    """With what the records were made."""
    (found,) = [r for r in records if r["kind"] == VERSIONS] or [{}]
    lines = [[name, text] for name, text in found.items() if name != "kind"]
    return _table(["made with", "version"], lines)


def learners(results: Results) -> str:
    """Which learner stands for a family that has two."""
    lines = []
    for family, methods in FAMILIES.items():
        if len(methods) > 1 and family in results.learners:
            lines.append([family, results.learners[family]])
    return _table(["method", "learner"], lines)


def overall(results: Results) -> str:
    """Means over tables where labels are altered, best rank first; a number of others that no
    method of ours reaches is bold."""
    named, found = ranking(results, "accuracy")
    ranks = dict(zip(named, found.ranks.tolist(), strict=True))
    order = [*sorted(named, key=lambda family: ranks[family]), *results.present(UNFAIR)]
    columns = ("accuracy", "auc", "brier", "gap", "mechanism_error", "cpu")
    means = {family: _means(results, family, columns) for family in order}
    lines = []
    for family in order:
        shown = [short(ranks.get(family), 1), _behind(results, family)]
        for number, value in zip(columns, means[family], strict=True):
            digits = 1 if number == "cpu" else 3
            marked = "–" if value is None else _marked(family, number, means, columns, digits)
            shown.append(marked)
        lines.append([family, *shown])
    head = ["method", "rank", f"accuracy − that of {REFERENCE}", "accuracy", "AUC", "Brier", "gap"]
    return _table([*head, "mechanism error", "CPU s"], lines)


REFERENCE = "FairPC()"


def _behind(results: Results, family: str) -> str:
    """Mean over tables of the difference in accuracy, and its standard error over tables."""
    if family == REFERENCE:
        return "0"
    _, wide = over_cells(results, "accuracy", [family, REFERENCE], "table")
    return _with_error((wide[family] - wide[REFERENCE]).to_numpy())


def _with_error(differences: Floats) -> str:
    shown, n = short(float(differences.mean()), sign="+"), len(differences)
    if n < 2:
        return shown
    return f"{shown} ± {short(float(differences.std(ddof=1)) / np.sqrt(n))}"


def _means(results: Results, family: str, columns: Sequence[str]) -> list[float | None]:
    """Mean over tables and mechanisms of the mean over seeds."""
    rows = results.altered.filter(pl.col("family") == family).with_columns(pl.col("gap").abs())
    each = rows.group_by("table", "mechanism").agg(pl.col(columns).mean())
    return [mean(each[name]) for name in columns]


def _marked(
    family: str,
    number: str,
    means: dict[str, list[float | None]],
    columns: Sequence[str],
    digits: int,
) -> str:
    """A number of others in bold if it is better than every one of ours."""
    at = columns.index(number)
    sign = 1 if number in ("accuracy", "auc") else -1
    value = means[family][at]
    ours = [means[name][at] for name in OURS if name in means]
    known = [sign * other for other in ours if other is not None]
    shown = short(value, digits)
    ahead = family in OTHERS and value is not None and known and sign * value > max(known)
    return f"**{shown}**" if ahead else shown


def rank_lines(results: Results) -> str:
    """What Friedman's test and Nemenyi's critical difference say, a line per number and block."""
    lines = []
    ways = (("accuracy", "accuracy", True), ("auc", "AUC", True), ("brier", "Brier", False))
    for number, title, largest_first in ways:
        for name, cell in (("table × mechanism", ("table", "mechanism")), ("table", ("table",))):
            named, found = ranking(results, number, *cell, largest_first=largest_first)
            best = min(zip(found.ranks.tolist(), named, strict=True))
            near = sum(found.ranks - found.ranks.min() <= found.difference) - 1
            line = [title, name, str(len(named)), str(found.n_blocks), short(found.statistic, 1)]
            p = "under .0001" if found.p_value < 1e-4 else short(found.p_value, 4)
            lines.append([*line, p, short(found.difference, 2), best[1], str(near)])
    head = ["number", "blocks", "methods", "n", "Friedman's χ²", "p", "critical difference"]
    return _table([*head, "best rank", "others not distinguishable from it"], lines)


def by_seed(results: Results) -> str:
    """Mean accuracy where labels are altered, by seed: ours were shaped on folds of the first."""
    seeds = sorted(set(results.altered["seed"]))
    lines = []
    for family in results.present(FAMILIES):
        rows = results.altered.filter(pl.col("family") == family)
        means = (mean(rows.filter(pl.col("seed") == seed)["accuracy"]) for seed in seeds)
        lines.append([family, *map(short, means)])
    return _table(["method", *(f"seed {seed}" for seed in seeds)], lines)


SHOWN = ("LatentDecision()", "FairPC()")


def every_cell(results: Results) -> str:
    """Accuracy per table and mechanism: ours, and the best of all others."""
    return _against_best(results.held, ("table", "mechanism"))


def _against_best(rows: pl.DataFrame, cell: Sequence[str]) -> str:
    """Ours beside the best other; bold where it is ahead of both of ours at three decimals.

    By how much it is ahead of the better of ours is a mean over seeds, which draw rows, labels
    and folds anew. Cells of a table have one standard error, because few seeds tell little each.
    """
    against = [_Against.of(part, cell) for part in rows.partition_by(*cell, maintain_order=True)]
    lines = []
    for one in against:
        error = _pooled_error([t.leads for t in against if t.table == one.table])
        lead = short(float(one.leads.mean()), sign="+")
        best = f"**{one.best}**" if one.ahead else one.best
        lines.append([*one.shown, best, lead if error is None else f"{lead} ± {short(error)}"])
    return _table(["cell", "gradient boosting", *SHOWN, "best of all others", "its lead"], lines)


@dataclass(frozen=True, eq=False)
class _Against:
    """A cell: accuracies of ours, the best of all others, and its lead by seeds."""

    table: str
    shown: list[str]
    best: str
    ahead: bool
    leads: Floats

    @classmethod
    def of(cls, part: pl.DataFrame, cell: Sequence[str]) -> _Against:
        means = dict(part.group_by("family").agg(pl.col("accuracy").mean()).iter_rows())
        others, ours = ([n for n in names if n in means] for names in (OTHERS, SHOWN))
        best, own = (max(some, key=lambda n: means[n]) for some in (others, ours))
        seeds = part.pivot("family", index=["seed", "fold"], values="accuracy")
        shown = {name: round(means[name], 3) for name in (best, *ours)}
        boosting = short(means.get("gradient boosting"))
        where = " ".join(_size(part[n][0]) for n in cell)
        return cls(
            part["table"][0],
            [where, boosting, *(short(means.get(n)) for n in SHOWN)],
            f"{best} {short(means[best])}",
            all(shown[best] > shown[n] for n in ours),
            (seeds[best] - seeds[own]).to_numpy(),
        )


def _pooled_error(leads: list[Floats]) -> float | None:
    """Standard error of the mean over seeds, its variance pooled over cells; None for one seed."""
    (n,) = {len(each) for each in leads}
    if n < 2:
        return None
    return float(np.sqrt(np.mean([each.var(ddof=1) for each in leads]) / n))


def _size(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}".replace("0.", ".")


def by_mechanism(results: Results) -> str:
    """Accuracy less that of boosting of Df itself, by how labels are altered; the best is bold."""
    return _lost(results.held, "mechanism", [UNALTERED, *reversed(ALTERED)])


def _lost(rows: pl.DataFrame, column: str, values: Sequence[Any]) -> str:
    found = {
        (family, value): mean(part["accuracy"])
        for (family, value), part in rows.group_by("family", column)
    }
    limit = "boosting of Df itself"
    ranked_too = (*OTHERS, *OURS, "loss correction, true rates")
    families = [f for f in ranked_too if (f, values[0]) in found]
    lines = []
    for family in families:
        line = [family]
        for value in values:
            here = {f: found[f, value] for f in families if (f, value) in found}
            ranked = {f: v for f, v in here.items() if f not in UNFAIR and v is not None}
            least = found.get((limit, value))
            own = here.get(family)
            lost = None if own is None or least is None else own - least
            shown = short(lost, sign="+")
            best = family in ranked and ranked[family] == max(ranked.values())
            line.append(f"**{shown}**" if best and family in OTHERS else shown)
        lines.append(line)
    return _table(["method", *(_size(value) for value in values)], lines)


def gaps(results: Results) -> str:
    """Difference of selection rates, by how labels are altered, and the share of cells above .1."""
    lines = []
    for family in results.present([*OTHERS, *OURS]):
        rows = results.held.filter(pl.col("family") == family)
        each = [
            short(mean(rows.filter(pl.col("mechanism") == m)["gap"].abs()))
            for m in (UNALTERED, *reversed(ALTERED))
        ]
        altered = rows.filter(pl.col("mechanism").is_in(ALTERED))["gap"].abs()
        lines.append([family, *each, f"{(altered > 0.1).sum()} of {len(altered)}"])
    return _table(["method", UNALTERED, *reversed(ALTERED), "above .1, altered labels"], lines)


def mechanism(results: Results) -> str:
    """Largest error of P(D | Df, S) of the methods that say what it is."""
    lines = []
    known = results.held.drop_nulls("mechanism_error")
    for family in results.present([*OTHERS, *OURS]):
        rows = known.filter(pl.col("family") == family)
        if len(rows):
            each = [
                short(mean(rows.filter(pl.col("mechanism") == m)["mechanism_error"]))
                for m in (UNALTERED, *reversed(ALTERED))
            ]
            lines.append([family, *each])
    return _table(["method", UNALTERED, *reversed(ALTERED)], lines)


def failures(results: Results) -> str:
    """Accuracy by what fails and how far, mean over tables; the best is bold if not ours."""
    sizes = _sizes(results)
    found = {
        (family, failure, size): mean(part["accuracy"])
        for (family, failure, size), part in _comparable(results).group_by(
            "family", "failure", "size"
        )
    }
    families = [f for f in FAMILIES if any((f, *way) in found for way in sizes[1:])]
    lines = []
    for family in families:
        line = [family]
        for way in sizes:
            here = {f: found.get((f, *way)) for f in families if f not in UNFAIR}
            value = found.get((family, *way))
            best = value is not None and value == max(v for v in here.values() if v is not None)
            shown = short(value)
            line.append(f"**{shown}**" if best and family in OTHERS else shown)
        lines.append(line)
    return _table(["method", *(_way(*way) for way in sizes)], lines)


def _sizes(results: Results) -> list[tuple[str, float]]:
    present = set(results.frame.select("failure", "size").iter_rows())
    every = [(HELD, 0.0), *((name, size) for name, of in FAILURES.items() for size in of)]
    return [way for way in every if way in present]


def _way(failure: str, size: float) -> str:
    return "none" if failure == HELD else f"{failure} {_size(size)}"


def _comparable(results: Results) -> pl.DataFrame:
    """Rows of the tables, mechanisms and seeds at which assumptions fail, with those that hold."""
    cell = [name for name in CELL if name not in ("failure", "size")]
    failing = results.frame.filter(pl.col("failure") != HELD).select(cell).unique()
    return results.frame.join(failing, on=cell, how="semi")


def failing_cells(results: Results) -> str:
    rows = results.frame.filter(pl.col("failure") != HELD)
    return _against_best(rows, ("failure", "size", "table"))


def failing_gaps(results: Results) -> str:
    """Difference of selection rates, favoured − other, where assumptions fail."""
    sizes = _sizes(results)
    rows = _comparable(results)
    lines = []
    for family in [f for f in FAMILIES if f in set(rows["family"])]:
        own = rows.filter(pl.col("family") == family)
        line = [family]
        for failure, size in sizes:
            here = own.filter(pl.col("failure") == failure, pl.col("size") == size)
            line.append(short(mean(here["gap"]), sign="+"))
        if line[2:].count("–") < len(sizes) - 1:
            lines.append(line)
    return _table(["method", *(_way(*way) for way in sizes)], lines)


def coverage(results: Results) -> str:
    """How often sets and bounds hold the truth where the assumptions hold."""
    sets = results.sets.filter(pl.col("failure") == HELD, pl.col("by") == LOGISTIC)
    lines = []
    for mechanism in (UNALTERED, *reversed(ALTERED)):
        here = sets.filter(pl.col("mechanism") == mechanism)
        own = results.held.filter(pl.col("mechanism") == mechanism)
        latent = own.filter(pl.col("family") == "LatentDecision()")
        fair = own.filter(pl.col("family") == "FairPC()")
        line = [mechanism, _inside(here, "lower", "upper")]
        line += [short(mean(here["upper"] - here["lower"]))]
        line += [_inside(here, "estimated_lower", "estimated_upper")]
        line += [short(mean(here["mechanism_inside"])), short(mean(here["mechanism_width"]))]
        line += [_inside(latent, "lower", "upper")]
        for rows in (latent, fair):
            line += [short(mean(rows[n])) for n in ("bounds_held", "bounds_width")]
        lines.append(line)
    head = ["labels", "P(Df) in the set", "width", "at the estimates", "mechanism inside", "width"]
    head += ["set of LatentDecision()", "its bounds", "width", "bounds of FairPC()", "width"]
    return _table(head, lines)


def _inside(rows: pl.DataFrame, lower: str, upper: str) -> str:
    known = rows.drop_nulls([lower, upper, "truth"])
    held = known.filter(pl.col("truth").is_between(lower, upper))
    return f"{len(held)} of {len(known)}" if len(known) else "–"


def noticed(results: Results) -> str:
    """Where assumptions fail: whether the test rejects them, and whether its set holds P(Df)."""
    lines = []
    for failure, size in _sizes(results):
        ways = [pl.col("failure") == failure, pl.col("size") == size]
        if failure == HELD:
            ways.append(pl.col("mechanism").is_in(ALTERED))
        tested = [results.sets.filter(*ways, pl.col("by") == by) for by in (LOGISTIC, DEFAULT)]
        own, fair = (
            results.frame.filter(*ways, pl.col("family") == family)
            for family in ("LatentDecision()", "FairPC()")
        )
        line = [_way(failure, size), *map(_rejected, tested)]
        line += [_inside(rows, "lower", "upper") for rows in (*tested, own)]
        line += [f"{(rows['warnings'] > 0).sum()} of {len(rows)}" for rows in (own, fair)]
        line += [short(mean(own["bounds_held"])), short(mean(own["mechanism_error"]))]
        lines.append(line)
    head = ["what fails", "test rejects, logistic", "default", "P(Df) in its set, logistic"]
    head += ["default", "in that of LatentDecision()", "LatentDecision() warns"]
    return _table([*head, "FairPC() warns", "bounds held", "mechanism error"], lines)


def _rejected(sets: pl.DataFrame) -> str:
    rejected = sets["rejected"].drop_nulls()
    return f"{rejected.sum()} of {len(rejected)}" if len(rejected) else "–"


def seconds(results: Results) -> str:
    """CPU seconds of a fit, on the largest tables and on the smallest."""
    lines = []
    for family in results.present(FAMILIES):
        rows = results.held.filter(pl.col("family") == family)
        cpu = rows.filter(pl.col("table") != "german")["cpu"]
        small = rows.filter(pl.col("table") == "german")["cpu"]
        largest = max(cpu, default=None)
        lines.append([family, short(mean(small), 2), short(mean(cpu), 2), short(largest, 2)])
    return _table(["method", "German", "other tables", "the slowest fit"], lines)
