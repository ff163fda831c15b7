"""Table "Comparison on real world datasets" (Appendix, "Detailed results"), ours and the paper's.

The paper's log-likelihood is the mean over training, validation and test rows of
the model fitted on training rows, and its F1 is made of rates. Ours are held out;
the paper's kinds stand beside them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from fairpc.metrics import accuracy, discrimination, f1, rate_f1
from fairpc.paper import published
from fairpc.paper.exhibit import Claim, Exhibit, Grid, number
from fairpc.paper.methods import DISTRIBUTIONS, FAIR_CLASSIFIERS
from fairpc.paper.outcome import Outcome
from fairpc.paper.sources import TITLES, PaperTable
from fairpc.paper.study import Study

NAME: Final = "real-world"
SHOWN: Final = ("log_likelihood", "log_likelihood_all", "accuracy", "rate_f1", "discrimination")


@dataclass(frozen=True)
class Score:
    """One line of the table: means over the folds, discrimination by its absolute value."""

    dataset: str
    method: str
    log_likelihood: float
    log_likelihood_all: float
    accuracy: float
    f1: float
    rate_f1: float
    discrimination: float


def score(table: PaperTable, method: str, outcomes: list[Outcome]) -> Score:
    """Means over folds of what is measured on their test rows."""
    found = [measure(table, k, outcome) for k, outcome in enumerate(outcomes)]
    right, harmonic, from_rates, gap = np.abs(found).mean(axis=0).tolist()
    return Score(
        dataset=table.name,
        method=method,
        log_likelihood=float(np.mean([o.mean_log_likelihood for o in outcomes])),
        log_likelihood_all=float(np.mean([o.log_likelihood_all for o in outcomes])),
        accuracy=right,
        f1=harmonic,
        rate_f1=from_rates,
        discrimination=gap,
    )


def measure(table: PaperTable, fold: int, outcome: Outcome) -> tuple[float, float, float, float]:
    """Accuracy, F1, F1 from rates, and signed discrimination, on one fold."""
    test = table.folds[fold].test
    d, s, guess = table.rows.d[test], table.rows.s[test], outcome.predicted
    gap = discrimination(outcome.scores, s)
    return accuracy(d, guess), f1(d, guess), rate_f1(d, guess), gap


def scores(study: Study) -> tuple[Score, ...]:
    """The whole table."""
    tables, _ = study.real_world
    return tuple(
        score(table, method, study.real_world_runs[table.name, method])
        for table in tables
        for method in study.methods
    )


def exhibit(study: Study) -> Exhibit:
    """The table, with the paper's numbers beside ours."""
    found = scores(study)
    tables, absent = study.real_world
    grids = tuple(_grid(table, [s for s in found if s.dataset == table.name]) for table in tables)
    return Exhibit(
        name=NAME,
        title="Comparison on real-world data sets",
        records=tuple(asdict(s) for s in found),
        grids=grids,
        notes=(
            "LL is the held-out log-likelihood per row, in nats; LL (all) the mean over "
            "training, validation and test rows, which is what the paper prints.",
            "F1 is made of rates as in the paper: tpr / (tpr + (fpr + fnr) / 2). Discrimination "
            "is the mean over folds of the absolute difference of mean scores.",
            "Bold: best of the four distributions. ↑ (↓): FairPC is better (worse) than this "
            "classifier. In parentheses: the paper.",
            *absent,
        ),
        claims=_claims(found),
    )


def _grid(table: PaperTable, found: list[Score]) -> Grid:
    best = _best(found)
    fairpc = next((s for s in found if s.method == "FairPC"), None)
    lines = tuple((s.method, *(_cell(s, name, best, fairpc) for name in SHOWN)) for s in found)
    features = len(table.rows.names) + 1
    title = (
        f"{table.title}: {features} features with S, {table.rows.n_rows:,} rows, "
        f"{len(table.folds)} folds"
    )
    heads = ("LL", "LL (all)", "accuracy", "F1", "discrimination")
    return Grid(("method", *heads), lines, title)


def _best(found: list[Score]) -> dict[str, str]:
    """The best of the four distributions in each column."""
    some = [s for s in found if s.method in DISTRIBUTIONS]
    if not some:
        return {}
    return {name: max(some, key=lambda s: _good(s, name)).method for name in SHOWN}


def _good(s: Score, name: str) -> float:
    """The larger the better."""
    value = float(getattr(s, name))
    return -value if name == "discrimination" else value


def _cell(s: Score, name: str, best: dict[str, str], fairpc: Score | None) -> str:
    text = number(getattr(s, name), 4 if name == "discrimination" else 3)
    if best.get(name) == s.method:
        text = f"**{text}**"
    if s.method in FAIR_CLASSIFIERS and fairpc is not None and name in SHOWN[2:]:
        text += "↑" if _good(fairpc, name) > _good(s, name) else "↓"
    theirs = _published(s, name)
    return text if np.isnan(theirs) else f"{text} ({number(theirs)})"


def _published(s: Score, name: str) -> float:
    line = published.REAL_WORLD.get((s.dataset, s.method))
    order = ("log_likelihood_all", "accuracy", "rate_f1", "discrimination")
    return published.NAN if line is None or name not in order else line[order.index(name)]


def _claims(found: tuple[Score, ...]) -> tuple[Claim, ...]:
    by = {(s.dataset, s.method): s for s in found}
    names = [n for n in TITLES if all((n, m) in by for m in DISTRIBUTIONS)]
    if not names:
        return ()

    def order(statement: str, better: tuple[str, ...], worse: tuple[str, ...]) -> Claim:
        """Whether every one of some distributions has a higher likelihood than the others."""
        holds, words = True, []
        for n in names:
            low = min(by[n, m].log_likelihood for m in better)
            high = max(by[n, m].log_likelihood for m in worse)
            holds &= low > high
            words.append(f"{TITLES[n]} {number(low)} against {number(high)}")
        return Claim(statement, holds, "; ".join(words))

    return (
        order("PCs fit better than naive Bayes models", ("FairPC", "NLatPC"), ("LatNB", "2NB")),
        order("LatNB fits better than 2NB", ("LatNB",), ("2NB",)),
        order("FairPC fits better than NLatPC", ("FairPC",), ("NLatPC",)),
        *_discrimination_claims(by, names),
    )


def _discrimination_claims(by: dict[tuple[str, str], Score], names: list[str]) -> tuple[Claim, ...]:
    def gap(n: str, m: str) -> float:
        return by[n, m].discrimination

    lowest = [n for n in ("compas", "adult") if n in names]
    others = [m for m in DISTRIBUTIONS if m != "FairPC"]
    pairs = (("FairPC", "LatNB"), ("NLatPC", "2NB"))
    return (
        Claim(
            "FairPC has the lowest discrimination of the four on COMPAS and Adult",
            all(gap(n, "FairPC") < min(gap(n, m) for m in others) for n in lowest),
            "; ".join(
                f"{TITLES[n]} {number(gap(n, 'FairPC'))} against "
                f"{number(min(gap(n, m) for m in others))}"
                for n in lowest
            ),
        ),
        Claim(
            "PCs have lower discrimination than their naive Bayes counterparts",
            all(gap(n, a) < gap(n, b) for n in names for a, b in pairs),
            "; ".join(
                f"{TITLES[n]} {a} {number(gap(n, a))}, {b} {number(gap(n, b))}"
                for n in names
                for a, b in pairs
            ),
        ),
    )
