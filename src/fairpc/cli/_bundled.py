"""``fairpc demo`` and ``data``: the main job on census data, and bundled tables as files."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from shlex import quote
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np

import fairpc.cli._options as opt
from fairpc.cli._audit import show_verdict
from fairpc.cli._compare import show as show_comparison
from fairpc.cli._fit import estimator
from fairpc.cli._labelled import LabelledTable
from fairpc.cli._learned import facts, show_learned
from fairpc.cli._options import ColumnOptions, ModelOptions
from fairpc.cli._screen import Screen, grid, print_json, say
from fairpc.cli._tables import N_ROWS, STDOUT, target_of
from fairpc.core import FairpcError, check_writable, counted
from fairpc.data import Warned, write_table

if TYPE_CHECKING:
    from fairpc.auditing import Audit
    from fairpc.comparison import Comparison
    from fairpc.datasets import Dataset
    from fairpc.models import Report

# What ``fairpc fit`` chooses on such a table, without the comparison that leads to it.
STRUCTURE: Final = "forest"
# A sampling weight, and a copy of another column: facts about the table, not about a person.
ROLES: Final = ColumnOptions(["target"], ["sex"], positive=">50K", drop=["fnlwgt", "education-num"])
SOURCE: Final = "UCI Adult"

DATASETS: Final = {
    "loans": ("loan applications with a planted bias; sex", ("applications", "truth")),
    "adult": ("income above 50,000 dollars, 1994 census; sex", ("raw", "paper")),
    "german": ("loan repaid; sex", ("raw", "paper")),
    "compas": ("arrested again within two years; race", ("two-year", "raw", "paper")),
    "synthetic": ("the paper's process, with known biased labels", ()),
}
"""What each is about, and its versions, of which the first is the default."""
TRUTHS: Final = ("Df", "deserving")
"""Columns that no model may learn from."""
SYNTHETIC_ROWS: Final = 10_000


@dataclass(frozen=True, eq=False)
class Demo:
    """What the demo found: the fit, the comparison, the audit of rows that were held out."""

    fit: dict[str, Any]
    comparison: Comparison
    audit: Audit


def demo(
    output: Annotated[str, opt.output("The report file to write.")] = "fairpc-demo.html",
    seed: opt.Seed = 0,
    *,
    screen: Screen,
) -> None:
    """Fit, compare and audit census data; write a report.

    The data, UCI Adult, come with the package.
    """
    check_writable(output)
    began = perf_counter()
    warned = Warned()
    with warned.watching():
        shown = demonstrate(seed, screen)
    shown.audit.save(output)
    seconds = perf_counter() - began
    if screen.json:
        audit = shown.audit.to_dict()
        parts = {name: audit[name] for name in ("verdict", "labels", "decidable", "parity")}
        said = {"fit": shown.fit, "comparison": shown.comparison.to_dict(), "audit": parts}
        print_json(said | {"report": output, "seconds": seconds})
    elif screen.prints_text:
        show(shown)
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
    learner = ModelOptions(structure=STRUCTURE, random_state=seed)
    model: Any = estimator(learner, ROLES, verbose=screen.shows_progress)
    began = perf_counter()
    model.fit(train.X, train.y)
    seconds = perf_counter() - began
    with progress(screen.shows_progress, None) as step:
        # The training rows of the comparison are those of the fit: the same model, and its seconds.
        own = _compared({"FairPC": FrozenEstimator(model)}, train, test, step)
        # Other methods are compared above, on all rows.
        record = audit(model, test.X, test.y, random_state=seed, baselines=False, progress=step)
    scores = *(replace(score, fit_seconds=seconds) for score in own.scores), *other.scores
    return Demo(facts(model, train, seconds), replace(other, scores=scores), record)


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


def show(demo: Demo) -> None:
    """Print what was learned, how it compares, and what the audit says."""
    fitted = demo.fit
    say(
        f"{SOURCE}: {fitted['rows']:,} people of the 1994 United States census (UCI's training "
        "part). The label says whether the income is above 50,000 dollars; the groups are by sex.\n"
        f"FairPC with a {STRUCTURE}, which `fairpc fit` would choose here: Df meets the features "
        "only through sums and boxes that tell the label.\n",
    )
    show_learned(fitted)
    say("\nCompared with logistic regression (LR), on UCI's test part, which neither has seen:\n")
    show_comparison(demo.comparison)
    say("\nWhat an audit of the test part says:\n")
    show_verdict(demo.audit.verdict)


def data(
    name: Annotated[
        str | None,
        opt.argument("NAME", "loans, adult, german, compas, synthetic; none: list them."),
    ] = None,
    output: Annotated[
        str | None, opt.output("The table: .csv, .tsv, .parquet, .feather; - for stdout.")
    ] = None,
    version: Annotated[
        str | None, opt.option("NAME", "raw or paper; compas: two-year, too; loans: truth.")
    ] = None,
    rows: Annotated[
        int | None, opt.option("N", "Rows to draw, for synthetic.", min=1, max=100_000_000)
    ] = None,
    seed: opt.Seed = 0,
    *,
    screen: Screen,
) -> None:
    """Write a data set that comes with the package to a table file.

    Example: fairpc data german -o german.csv
    """
    if name is None:
        _list(screen)
        return
    if output is None:
        raise FairpcError(f"{name} needs an output: give a file, -o {name}.csv, or -o - for stdout")
    target = target_of(output, screen)
    dataset = _load(name, version, rows, seed)
    write_table([dataset.frame], dataset.frame.schema, target)
    about = {
        "name": dataset.name,
        "version": dataset.version,
        "rows": dataset.frame.height,
        "columns": dict(dataset.columns),
        "label": dataset.label,
        "positive": str(dataset.positive),
        "sensitive": dataset.sensitive_attribute,
        "description": dataset.description,
        "traps": list(dataset.traps),
        **{k: getattr(dataset.provenance, k) for k in ("source", "url", "licence", "attribution")},
        "output": output,
    }
    if screen.json:
        print_json(about)
    elif screen.prints_text:
        print(_words(about), file=sys.stderr if output == STDOUT else sys.stdout)


def _load(name: str, version: str | None, rows: int | None, seed: int) -> Dataset:
    from fairpc import datasets

    if name not in DATASETS:
        raise FairpcError(f"there is no data set {name!r}: choose {', '.join(DATASETS)}")
    _, versions = DATASETS[name]
    if version is not None and version not in versions:
        known = f"choose {', '.join(versions)}" if versions else "leave --version out"
        raise FairpcError(f"{name} has no version {version!r}: {known}")
    if name == "synthetic":
        return datasets.make_synthetic(n_samples=rows or SYNTHETIC_ROWS, random_state=seed)
    if rows is not None:
        raise FairpcError(f"{name} has a fixed number of rows: leave --rows out")
    loaded: Dataset = getattr(datasets, f"load_{name}")(version or versions[0])
    return loaded


def _words(about: dict[str, Any]) -> str:
    lines = [
        about["description"],
        *(f"Mind: {trap}" for trap in about["traps"]),
        f"{about['source']}; {about['licence']}",
        f"{counted(about['rows'], 'row')}, {counted(len(about['columns']), 'column')} are in "
        f"{about['output']}.",
    ]
    if about["output"] != STDOUT:
        lines.append(
            f"Next: fairpc fit {quote(about['output'])} --label {quote(about['label'])} "
            f"--positive {quote(about['positive'])} --sensitive {quote(about['sensitive'])} "
            + "".join(f"--drop {name} " for name in TRUTHS if name in about["columns"])
            + "-o model.fairpc"
        )
    return "\n".join(lines)


def _list(screen: Screen) -> None:
    if screen.json:
        known = DATASETS.items()
        print_json([{"name": name, "about": a, "versions": list(v)} for name, (a, v) in known])
        return
    lines = [(name, about, ", ".join(v) or "-") for name, (about, v) in DATASETS.items()]
    grid(("name", "what it is", "versions"), lines, right=False)
    say("Write one with: fairpc data NAME -o FILE")
