"""``fairpc demo``: the main job on census data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fairpc.cli._audit import show_verdict
from fairpc.cli._compare import show as show_comparison
from fairpc.cli._fit import estimator as model_of
from fairpc.cli._fit import facts, show_learned
from fairpc.cli._options import Learner, Roles
from fairpc.cli._screen import Screen, print_json, say
from fairpc.cli._tables import N_ROWS, LabelledTable
from fairpc.core import check_writable
from fairpc.data import Warned

if TYPE_CHECKING:
    from fairpc.auditing import Audit
    from fairpc.comparison import Comparison
    from fairpc.models import CircuitClassifier, Report

Facts = dict[str, Any]

# What ``fairpc fit`` chooses on such a table, without the comparison that leads to it.
STRUCTURE: Final = "forest"
# A sampling weight, and a copy of another column: facts about the table, not about a person.
ROLES: Final = Roles(["target"], ["sex"], positive=">50K", drop=["fnlwgt", "education-num"])
SOURCE: Final = "UCI Adult"


@dataclass(frozen=True, eq=False)
class Demo:
    """What the demo found: the fit, the comparison, the audit of rows that were held out."""

    fit: dict[str, Any]
    comparison: Comparison
    audit: Audit


def run(output: str, seed: int, screen: Screen) -> None:
    """Fit, compare, audit, and write the report."""
    check_writable(output)
    began = perf_counter()
    warned = Warned()
    with warned.watching():
        found = demonstrate(seed, screen)
    found.audit.save(output)
    seconds = perf_counter() - began
    if screen.json:
        audit = found.audit.to_dict()
        parts = {name: audit[name] for name in ("verdict", "labels", "decidable", "parity")}
        facts = {"fit": found.fit, "comparison": found.comparison.to_dict(), "audit": parts}
        print_json(facts | {"report": output, "seconds": seconds})
    elif screen.talks:
        show(found)
        say(f"\nThe whole report is in {output} ({seconds:.0f} s in all).", "bold")
    screen.notes(warned)


def demonstrate(seed: int, screen: Screen) -> Demo:
    """Fit to UCI's training part; compare and audit on its test part."""
    from sklearn.frozen import FrozenEstimator

    from fairpc.auditing import audit
    from fairpc.comparison import LR
    from fairpc.models import progress

    train, test = _table("train"), _table("test")
    with progress(screen.shows_progress, None) as step:
        other = _compared({"LR": LR()}, train, test, step)
    learner = Learner(structure=STRUCTURE, seed=seed)
    estimator = model_of(learner, ROLES, verbose=screen.shows_progress)
    began = perf_counter()
    model: CircuitClassifier = estimator.fit(train.X, train.y)
    seconds = perf_counter() - began
    fitted = facts(model, train, seconds)
    with progress(screen.shows_progress, None) as step:
        # The training rows of the comparison are those of the fit: the same model, and its seconds.
        own = _compared({"FairPC": FrozenEstimator(model)}, train, test, step)
        # Other methods are compared above, on all rows.
        record = audit(model, test.X, test.y, random_state=seed, baselines=False, progress=step)
    scores = *(replace(score, fit_seconds=seconds) for score in own.scores), *other.scores
    return Demo(fitted, replace(other, scores=scores), record)


def _compared(
    models: Mapping[str, Any], train: LabelledTable, test: LabelledTable, step: Report | None
) -> Comparison:
    """Models that learn from one table, on the other; ours name the sensitive column themselves."""
    from fairpc.comparison import compare

    rows = np.arange(train.height + test.height)
    folds = [(rows[: train.height], rows[train.height :])]
    table, y = train.X.vstack(test.X), train.y.clone().append(test.y)
    groups = None
    if "FairPC" not in models:
        groups, table = table.select(ROLES.sensitive), table.drop(ROLES.sensitive)
    about: dict[str, Any] = {"sensitive_features": groups, "positive": ROLES.positive}
    return compare(models, table, y, cv=folds, progress=step, **about)


def _table(part: Any) -> LabelledTable:
    from fairpc.datasets import load_adult

    frame = load_adult(subset=part).frame.drop(ROLES.drop)
    counts = frame.group_by("target").len(N_ROWS)
    return LabelledTable(SOURCE, ROLES, frame.drop("target"), frame["target"].clone(), counts)


def show(found: Demo) -> None:
    """Print what was learned, how it compares, and what the audit says."""
    fitted = found.fit
    say(
        f"{SOURCE}: {fitted['rows']:,} people of the 1994 United States census (UCI's training "
        "part). The label says whether the income is above 50,000 dollars; the groups are by sex.\n"
        f"FairPC with a {STRUCTURE}, which `fairpc fit` would choose here: Df meets the features "
        "only through sums and boxes that tell the label.\n",
    )
    show_learned(fitted)
    say("\nCompared with logistic regression (LR), on UCI's test part, which neither has seen:\n")
    show_comparison(found.comparison)
    say("\nWhat an audit of the test part says:\n")
    show_verdict(found.audit.verdict)
