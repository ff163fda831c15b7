"""The page that sets our numbers beside the paper's: every claim, every difference, and why."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from fairpc.data.atomic import write_atomically
from fairpc.paper import (
    circuits,
    guarantee,
    learning,
    missing,
    protocol,
    real_world,
    recipe,
    significance_tables,
    synthetic,
)
from fairpc.paper.exhibit import (
    Exhibit,
    Grid,
    Records,
    bullets,
    claim_grid,
    markdown,
    markdown_table,
    number,
    signed,
    write,
)
from fairpc.paper.runs import Study
from fairpc.paper.sources import N_FOLDS, SHARED_SIZES, Sources

EXHIBITS: Final[dict[str, Callable[[Study], Exhibit]]] = {
    "real-world": real_world.table,
    "circuits": circuits.exhibit,
    "protocol": protocol.exhibit,
    "tests": significance_tables.exhibit,
    "bars": real_world.bars,
    "trade-off": real_world.trade_off,
    "curves": learning.curves,
    "synthetic": synthetic.exhibit,
    "init": learning.starts,
    "missing": missing.exhibit,
    "guarantee": guarantee.exhibit,
    "recipe": recipe.exhibit,
}
"""What makes the exhibit of each name, in the order of the page."""
PAGE: Final = "reproduction.md"
FOLDER: Final = "reproduction"
"""Beside the page: its figures, and every number as CSV and JSON."""


def write_page(exhibits: Sequence[Exhibit], study: Study, folder: Path) -> list[Path]:
    """Write all exhibits and the page into a folder."""
    paths = [path for e in exhibits for path in write(e, folder / FOLDER)]
    page = folder / PAGE
    write_atomically(page, page_text(exhibits, study.sources).encode())
    return [*paths, page]


def page_text(exhibits: Sequence[Exhibit], sources: Sources) -> str:
    """The whole page as Markdown."""
    table, bars = (next(e for e in exhibits if e.name == n) for n in ("real-world", "bars"))
    reasons = _reasons(table.records, bars.records, sources)
    parts = [_opening(sources), _claims(exhibits), _differences(table.records, reasons)]
    for exhibit in exhibits:
        figure = f"{FOLDER}/{exhibit.name}.png" if exhibit.draw is not None else None
        parts.append(markdown(exhibit, figure).strip())
    return "\n\n".join(parts) + "\n"


def _opening(sources: Sources) -> str:
    data = "the authors' files" if sources.data_dir is not None else "the package's own loaders"
    folds = "the authors' folds" if sources.splits is not None else "stratified folds of our own"
    words = ["fairpc paper all"]
    words += ["--data-dir DIR"] if sources.data_dir is not None else []
    words += ["--splits DIR/splits"] if sources.splits is not None else []
    words += ["--quick"] if sources.quick else []
    return (
        "# Reproduction\n\n"
        "Choi, Dang and Van den Broeck, *Group Fairness by Probabilistic Modeling with Latent "
        "Fair Decisions*, AAAI 2021: their numbers beside ours. This page is written by\n\n"
        f"    {' '.join(words)} --out docs\n\n"
        f"from {data} with {folds}"
        + (" (two of ten: a quick look, not a result)" if sources.quick else "")
        + (
            f". Synthetic data, starts and missing values use {synthetic.N_FOLDS} of the "
            f"{N_FOLDS} folds of each table, the recipe {recipe.N_FOLDS} of its synthetic draws"
            if not sources.quick
            else ""
        )
        + ". Results of ours are computed, never typed in. The numbers behind "
        f"each table and figure are in `{FOLDER}/`, as CSV and JSON."
    )


def _claims(exhibits: Sequence[Exhibit]) -> str:
    claims = [claim for e in exhibits for claim in e.claims]
    held = sum(c.holds for c in claims)
    return (
        "## What the paper says, and what we find\n\n"
        f"{held} of {len(claims)} statements are confirmed. Where the paper gives no number, the "
        "bound by which we judge (in parentheses, or ±.1 for its ≈) is ours.\n\n"
        + markdown_table(claim_grid(claims))
    )


def _differences(records: Records, reasons: Sequence[str]) -> str:
    """Where our numbers and the paper's are not the same, in its own kinds of numbers, and why."""
    lines = []
    for r in records:
        theirs = real_world.printed(r["dataset"], r["method"])
        if theirs:
            gaps = (signed(r[key] - value) for key, value in theirs.items())
            lines.append((f"{r['dataset']} {r['method']}", *gaps))
    head = ("ours minus the paper's", "LL (all)", "accuracy", "F1", "discrimination")
    return f"## Differences, and why\n\n{markdown_table(Grid(head, lines))}\n\n{bullets(reasons)}"


def _reasons(records: Records, bars: Records, sources: Sources) -> list[str]:
    first, *_, german = records.where(method="FairPC")
    held_out, everywhere = number(german["log_likelihood"]), number(german["log_likelihood_all"])
    by_rates, usual = number(first["rate_f1"]), number(first["f1"])
    (spread,) = bars.values("rate_f1_sd", dataset="german", method="FairPC")
    error = spread / math.sqrt(sources.folds_used)
    off = abs(german["rate_f1"] - real_world.printed("german", "FairPC")["rate_f1"]) / error
    given = "the given tables" if sources.data_dir is not None else "our tables"
    return [
        "**All-rows likelihood.** The paper's likelihood is the mean over training, validation "
        "and test rows of the model fitted on training rows. Held out it is lower where there are "
        f"few rows (German, FairPC: {held_out} against {everywhere}). We report the held-out one "
        "and print the other beside it.",
        "**F1.** The paper's F1 is made of rates, tpr / (tpr + (fpr + fnr) / 2). It weighs classes "
        f"alike and is not the usual F1 ({first['dataset']}, FairPC: {by_rates} against {usual}).",
        "**COMPAS rows.** The paper says 60,843 rows; the authors' table has 48,834: two-digit "
        "birth years below 68 became 20xx, and whoever was then not yet born was dropped. Up to "
        "three rows belong to one assessment, so folds of rows share people.",
        "**German.** 1,000 rows: ten test folds of 100. FairPC's accuracy and F1 are far from the "
        f"paper's: F1 by {number(off, 1)} standard errors of our mean ({number(error)}). EM has "
        "not settled after 500 iterations in all folds (see the curves). "
        "`benchmarks/published_circuits.py` scores the circuits that the authors published on the "
        "same folds.",
        "**Adult, LatNB.** Independent features cannot describe the rows, and where EM ends "
        "depends on the fold and the start: our folds spread widely (see the bars), so the mean "
        "of one start does not repeat.",
        f"**Synthetic data.** The paper's numbers are of other tables: {given} of "
        f"{SHARED_SIZES[0]} to {SHARED_SIZES[-1]} features are another draw of the same process. "
        "Orders and averages compare, single numbers do not.",
    ]
