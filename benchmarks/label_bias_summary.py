"""The tables of ``label_bias.py``, from its records: what each method found, and next to what."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

Record = dict[str, Any]

ALTERED = ("strong", "paper", "mild")
FOLD = ["table", "mechanism", "seed", "fold"]
NARROW = 0.1
"""A confidence set of P(Df) under this width says where the mechanism is."""


def short(value: float | None, digits: int = 3, sign: str = "") -> str:
    """.832, −.004, or a dash where there is no number."""
    if value is None or value != value:
        return "–"
    return re.sub(r"^([+-]?)0\.", r"\1.", f"{value:{sign}.{digits}f}").replace("-", "−")


def mean(numbers: pl.Series) -> float | None:
    """Mean of the numbers that are there."""
    kept = numbers.drop_nulls()
    return float(kept.to_numpy().mean()) if len(kept) else None


def lay_out(title: str, head: Sequence[str], lines: list[list[str]], markdown: bool) -> str:
    """A table under its title, for Markdown or for a terminal."""
    if markdown:
        rule = ["---"] + ["---:"] * (len(head) - 1)
        whole = [[cell.replace("|", "\\|") for cell in line] for line in [list(head), rule, *lines]]
        body = "\n".join("| " + " | ".join(line) + " |" for line in whole)
        return f"{title}\n\n{body}\n"
    widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
    body = "\n".join(
        "    " + "  ".join(text.ljust(w) for text, w in zip(line, widths, strict=True)).rstrip()
        for line in [list(head), *lines]
    )
    return f"{title}\n{body}\n"


def summary(records: list[Record], methods: Sequence[str], markdown: bool) -> Iterator[str]:
    """Every table for which there are records, one text each."""
    good: dict[str, list[Record]] = {"fold": [], "hidden": [], "apart": [], "set": []}
    for record in records:
        if "error" not in record:
            good[record["kind"]].append(record)
    if good["fold"]:
        yield from _of_folds(_frame(good["fold"]), methods, markdown)
    if good["hidden"]:
        yield hidden(good["hidden"], markdown)
    if good["apart"]:
        yield apart(good["apart"], markdown)
    if good["set"]:
        yield sets(good["set"], good["fold"], methods, markdown)
    yield from errors([r for r in records if "error" in r])


def _of_folds(frame: pl.DataFrame, methods: Sequence[str], markdown: bool) -> Iterator[str]:
    present = [m for m in methods if m in set(frame["method"])]
    yield by_cell(frame, present, markdown)
    altered = frame.filter(pl.col("mechanism").is_in(ALTERED))
    if len(altered):
        yield by_table(altered, present, markdown)
        yield overall(altered, present, markdown)
        yield from narrow(altered, present, markdown)
    none = frame.filter(pl.col("mechanism") == "none")
    if len(none):
        yield unaltered(none, present, markdown)


NUMBERS = ("accuracy", "auc", "brier", "gap", "mechanism_error", "agreement", "cpu", "wall")
SET = ("lower", "upper", "truth")


def _frame(records: list[Record]) -> pl.DataFrame:
    wanted = {
        **dict.fromkeys(("table", "mechanism", "method"), pl.String),
        **dict.fromkeys(("seed", "fold", "warnings"), pl.Int64),
        **dict.fromkeys((*NUMBERS, *SET), pl.Float64),
    }
    return pl.DataFrame([{n: r.get(n) for n in wanted} for r in records], schema=wanted)


def _triple(rows: pl.DataFrame) -> str:
    """Accuracy / AUC / mechanism error, as far as there are such."""
    means = [mean(rows[name]) for name in ("accuracy", "auc", "mechanism_error")]
    return " / ".join(short(value) for value in means if value is not None) or "–"


def _ordered(frame: pl.DataFrame, *names: str) -> list[tuple[Any, ...]]:
    return list(frame.select(names).unique(maintain_order=True).iter_rows())


def by_cell(frame: pl.DataFrame, methods: Sequence[str], markdown: bool) -> str:
    lines = []
    for table, mechanism in _ordered(frame, "table", "mechanism"):
        here = frame.filter(pl.col("table") == table, pl.col("mechanism") == mechanism)
        cells = [_triple(here.filter(pl.col("method") == m)) for m in methods]
        lines.append([f"{table} {mechanism}", *cells])
    title = "Accuracy / AUC to Df / largest error of P(D | Df, S)"
    return lay_out(title, ["table", *methods], lines, markdown)


def by_table(altered: pl.DataFrame, methods: Sequence[str], markdown: bool) -> str:
    lines = []
    for (table,) in _ordered(altered, "table"):
        here = altered.filter(pl.col("table") == table)
        lines.append([table, *(_triple(here.filter(pl.col("method") == m)) for m in methods)])
    title = f"The same, means over {', '.join(ALTERED)}"
    return lay_out(title, ["table", *methods], lines, markdown)


def overall(altered: pl.DataFrame, methods: Sequence[str], markdown: bool) -> str:
    lines = []
    for method in methods:
        rows = altered.filter(pl.col("method") == method)
        tables = rows.group_by("table").agg(pl.col(NUMBERS).mean())
        line = [method]
        line += [short(mean(tables[n])) for n in ("accuracy", "auc", "brier", "mechanism_error")]
        line.append(_difference(rows, altered, "accuracy", "hgb+to"))
        line.append(_difference(rows, altered, "auc", "hgb"))
        line.append(_share_of_the_way(rows, altered))
        line.append(short(_worst(_paired(rows, altered, "accuracy", "hgb+to")), sign="+"))
        line += [short(mean(rows["gap"].abs())), short(mean(tables["cpu"]), 1)]
        lines.append([*line, _warned(rows), str(len(rows))])
    head = ["method", "accuracy", "AUC", "Brier", "mechanism error", "accuracy − hgb+to"]
    head += [
        "AUC − hgb",
        "way to limit",
        "accuracy − hgb+to, worst table",
        "|gap|",
        "CPU s",
        "warned",
        "folds",
    ]
    title = (
        f"Means over tables ({', '.join(ALTERED)}); differences ± standard error, paired by fold, "
        "over the folds that both have"
    )
    return lay_out(title, head, lines, markdown)


def _paired(rows: pl.DataFrame, others: pl.DataFrame, name: str, reference: str) -> pl.DataFrame:
    """A number of a method beside that of another, fold by fold."""
    other = others.filter(pl.col("method") == reference).select(*FOLD, pl.col(name).alias("other"))
    return rows.join(other, on=FOLD).drop_nulls([name, "other"])


def _difference(rows: pl.DataFrame, others: pl.DataFrame, name: str, reference: str) -> str:
    """Mean over tables and mechanisms; tables are fixed, folds are the sample."""
    pairs = _paired(rows, others, name, reference).with_columns(gain=pl.col(name) - pl.col("other"))
    if not len(pairs) or (rows["method"] == reference).all():
        return "–"
    cells = pairs.group_by("table", "mechanism").agg(
        mean=pl.col("gain").mean(), variance=pl.col("gain").var() / pl.len()
    )
    shown = short(mean(cells["mean"]), sign="+")
    if cells["variance"].null_count():
        return shown
    return f"{shown} ± {short(float(cells['variance'].sum()) ** 0.5 / len(cells))}"


def _share_of_the_way(rows: pl.DataFrame, others: pl.DataFrame) -> str:
    """Summed gain in AUC over hgb ÷ summed distance from hgb to limit."""
    pairs = _paired(rows, others, "auc", "hgb")
    limit = others.filter(pl.col("method") == "limit").select(*FOLD, limit="auc")
    pairs = pairs.join(limit, on=FOLD)
    way = float((pairs["limit"] - pairs["other"]).sum())
    return short(float((pairs["auc"] - pairs["other"]).sum()) / way, 2) if way else "–"


def _worst(pairs: pl.DataFrame) -> float | None:
    """Least mean gain in accuracy of a table."""
    gains = pairs.group_by("table").agg(gain=(pl.col("accuracy") - pl.col("other")).mean())
    return min(gains["gain"], default=None)


def narrow(altered: pl.DataFrame, methods: Sequence[str], markdown: bool) -> Iterator[str]:
    """Of methods with a confidence set of P(Df): whether it holds the truth, and is narrow."""
    width = pl.col("upper") - pl.col("lower")
    known = altered.drop_nulls(SET)
    lines = []
    for method in methods:
        rows = known.filter(pl.col("method") == method)
        if len(rows):
            held = rows.filter(pl.col("truth").is_between("lower", "upper"))
            few = rows.filter(width < NARROW)["mechanism_error"]
            line = [method, f"{len(held)} of {len(rows)}", short(mean(rows.select(width)["upper"]))]
            largest = short(max(few, default=None))
            lines.append([*line, str(len(few)), short(mean(few)), largest])
    head = ["method", "P(Df) in its set", "width", f"sets under {short(NARROW, 1)}"]
    head += ["mechanism error there", "largest"]
    if lines:
        yield lay_out("Sets of P(Df) at level .95 of the models themselves", head, lines, markdown)


def _warned(rows: pl.DataFrame) -> str:
    known = rows["warnings"].drop_nulls()
    return f"{(known > 0).sum()} of {len(known)}" if len(known) else "–"


def unaltered(none: pl.DataFrame, methods: Sequence[str], markdown: bool) -> str:
    lines = []
    for method in methods:
        rows = none.filter(pl.col("method") == method)
        worst = short(_worst(_paired(rows, none, "accuracy", "hgb")), sign="+")
        least = short(min(rows["agreement"].drop_nulls(), default=None))
        lines.append([method, _difference(rows, none, "accuracy", "hgb"), worst, least])
    head = ["method", "accuracy − hgb", "worst table", "least P(D = Df given s)"]
    return lay_out("Labels that nobody altered (none)", head, lines, markdown)


def hidden(records: list[Record], markdown: bool) -> str:
    frame = pl.DataFrame(records, infer_schema_length=None)
    names = ("accuracy", "accuracy_hidden", "auc", "auc_hidden")
    found = frame.group_by("method", "share", maintain_order=True).agg(pl.col(names).mean())
    lines = [
        [method, f"{share:.0%}", *map(short, numbers), short(numbers[0] - numbers[1])]
        for method, share, *numbers in found.iter_rows()
    ]
    head = ["method", "hidden", "accuracy", "with holes", "AUC", "with holes", "accuracy lost"]
    return lay_out("Cells of test rows hidden at random", head, lines, markdown)


def apart(records: list[Record], markdown: bool) -> str:
    frame = pl.DataFrame(records, infer_schema_length=None)
    names = ("turned_by_seed", "turned_by_bootstrap")
    found = frame.group_by("method", maintain_order=True).agg(pl.col(names).mean(), pl.len())
    lines = [[m, short(a), short(b), str(n)] for m, a, b, n in found.iter_rows()]
    head = ["method", "another random_state", "bootstrap of the training rows", "folds"]
    return lay_out("Share of decisions that turn", head, lines, markdown)


def sets(records: list[Record], good: list[Record], methods: Sequence[str], markdown: bool) -> str:
    """Confidence sets of P(Df), and each method's mechanism error beside them."""
    frame = _frame(good).drop_nulls("mechanism_error")
    shown = [m for m in methods if m in set(frame["method"])]
    lines = []
    for r in records:
        here = frame.filter(pl.col("table") == r["table"], pl.col("mechanism") == r["mechanism"])
        found = (here.filter(pl.col("method") == m)["mechanism_error"] for m in shown)
        ends = "empty" if r["rejected"] else f"{short(r['lower'])} to {short(r['upper'])}"
        inside = "yes" if r["lower"] <= r["truth"] <= r["upper"] else "no"
        narrow = "yes" if not r["rejected"] and r["upper"] - r["lower"] < NARROW else "no"
        name = f"{r['table']} {r['mechanism']}"
        errors_of = [short(mean(numbers)) for numbers in found]
        lines.append([name, ends, short(r["truth"]), inside, narrow, *errors_of])
    head = ["table", "set of P(Df)", "truth", "inside", f"under {short(NARROW, 1)} wide", *shown]
    return lay_out("Confidence sets at level .95, mechanism errors", head, lines, markdown)


def errors(failed: list[Record]) -> Iterator[str]:
    """One sentence per method that failed and reason."""
    reasons: dict[tuple[str, str], int] = {}
    for r in failed:
        reason = (str(r.get("method") or r["kind"]), r["error"])
        reasons[reason] = reasons.get(reason, 0) + 1
    for (method, sentence), n in reasons.items():
        yield f"{method} failed {n} times: {sentence}"
