"""The figures and pictures of docs/gallery: what the tables say about the fair rate, by group.

    python benchmarks/gallery.py [loans adult german compas outcome hiring]

It prints the set of each group and writes one picture per table to docs/gallery/pictures.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fairpc.datasets import load_adult, load_compas, load_german, load_loans
from fairpc.evidence import parity, test_assumptions

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "gallery" / "pictures"
N_SEEDS = 5
Table = tuple[Any, Any, Any, Any]
"""Features, labels, groups, and the favourable class."""


def loans() -> Table:
    """A bias that was planted."""
    data = load_loans()
    return data.X, data.y, _named(data.sensitive, {"F": "women", "M": "men"}), "yes"


def adult() -> Table:
    """The paper's table of the census."""
    data = load_adult(version="paper")
    return data.X, data.y, _named(data.sensitive, {0: "men", 1: "women"}), 1


def german() -> Table:
    """A thousand loans."""
    data = load_german(version="paper")
    return data.X, data.y, _named(data.sensitive, {0: "men", 1: "women"}), 1


def compas() -> Table:
    """The decision of a tool: whether COMPAS called the risk low."""
    data = load_compas()
    kept = data.frame.filter(
        pl.col("race").is_in(["African-American", "Caucasian"])
        & pl.col("score_text").is_in(["Low", "Medium", "High"])
    )
    return kept.select(_known(data)), kept["score_text"] == "Low", kept["race"], True


def outcome() -> Table:
    """The same people with an outcome as the label: whether they were charged again."""
    data = load_compas()
    kept = data.frame.filter(pl.col("race").is_in(["African-American", "Caucasian"]))
    return kept.select(_known(data)), kept["two_year_recid"], kept["race"], 0


def hiring(n: int = 4000) -> Table:
    """Made-up: the decision depends on hours alone, and labels of women are lowered."""
    rng = np.random.default_rng(0)
    woman = rng.random(n) < 0.5
    hours = np.where(rng.random(n) < 0.6 * woman, 0, rng.integers(0, 3, n))
    fair = rng.random(n) < np.array([0.1, 0.5, 0.9])[hours]
    label = fair & ~(woman & (rng.random(n) < 0.2))
    table = pl.DataFrame(
        {
            "hours": np.array(["few", "some", "many"])[hours],
            "test": (rng.normal(size=n) + 3 * fair).round(2),
            "interview": (rng.normal(size=n) + 2 * fair).round(2),
        }
    )
    return table, label, np.where(woman, "women", "men"), True


TABLES: dict[str, Callable[[], Table]] = {
    "loans": loans,
    "adult": adult,
    "german": german,
    "compas": compas,
    "outcome": outcome,
    "hiring": hiring,
}


def _named(codes: Any, names: dict[Any, str]) -> Any:
    return np.array([names[code] for code in codes])


def _known(data: Any) -> list[str]:
    """What was known of a person at the screening."""
    return [name for name in data.X.columns if name != "race"]


def show(name: str) -> None:
    """Print what a table says, and draw it."""
    X, y, groups, positive = TABLES[name]()
    test = test_assumptions(X, y, groups, positive=positive, classifier="logistic", n_seeds=N_SEEDS)
    print(f"== {name}: {len(y):,} rows\n{test.summary()}")
    print(parity(np.asarray(y) == positive, groups).summary())
    if name == "hiring":
        within = test_assumptions(
            X,
            y,
            groups,
            given=X["hours"],
            positive=positive,
            classifier="logistic",
            n_seeds=N_SEEDS,
        )
        print(within.summary())
    _draw(test, name)


def _draw(test: Any, name: str) -> None:
    """One line per group: the P(Df) that its labels allow; and what all allow together."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    figure, ax = plt.subplots(figsize=(6, 0.55 * (len(test.groups) + 1) + 0.9))
    names = [str(g.group) for g in test.groups]
    for i, g in enumerate(test.groups):
        ax.plot([g.lower, g.upper], [i, i], lw=7, color="#4878a8", solid_capstyle="butt")
    if test.rejected:
        ax.text(0.5, len(names), "no rate is in both", ha="center", va="center", color="#a03030")
    else:
        ends = [test.lower, test.upper]
        ax.plot(ends, [len(names)] * 2, lw=7, color="#c07830", solid_capstyle="butt")
    ax.set_yticks(range(len(names) + 1), [*names, "all"])
    ax.set_ylim(len(names) + 0.6, -0.6)
    ax.set_xlim(0, 1)
    ax.set_xlabel(f"fair rate that the labels allow, {test.level:.0%} confidence")
    ax.spines[["top", "right"]].set_visible(False)
    PICTURES.mkdir(exist_ok=True)
    figure.savefig(PICTURES / f"{name}.png", dpi=110, bbox_inches="tight")
    plt.close(figure)


if __name__ == "__main__":
    for wanted in sys.argv[1:] or TABLES:
        show(wanted)
