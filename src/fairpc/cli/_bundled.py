"""``fairpc demo`` and ``data``: a planted bias that is found, census data that say no; and tables
that come with the package, as files."""

from __future__ import annotations

import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from shlex import quote
from time import perf_counter
from typing import Annotated, Any, ClassVar, Final, Literal

import numpy as np

import fairpc.cli._options as opt
import fairpc.cli._polars as pl
import fairpc.cli._tables as tables
from fairpc import auditing, models
from fairpc.cli._audit import in_stages, show_verdict
from fairpc.cli._fit import estimator
from fairpc.cli._labelled import LabelledTable
from fairpc.cli._learned import facts, show_learned, verdict_of
from fairpc.cli._screen import Screen, grid, headline, print_json, say
from fairpc.core import ContradictionWarning, FairpcError, check_writable, counted, shown
from fairpc.data import Warned, write_table

# What ``fairpc fit`` may choose on such tables, without the comparison that leads to it.
LEARNER: Final = opt.ModelOptions(structure="forest")
LOANS: Final = opt.ColumnOptions(["approved"], ["sex"], positive="yes")
WHO: Final = {"F": "women", "M": "men"}
NAMES: Final = {"sex": WHO, "approved": {"yes": "a loan", "no": "refused"}}
APPROVED: Final = {"": "Loan approvals", "yes": "approved", "no": "refused"}
CALLED: Final = {"sex": WHO, "approved": APPROVED}
"""Names in the report, whose sentences say who deserves to be approved."""
STORY: Final = (
    "The same share of women and of men deserves a loan. Of the deserving, 30 of 100 women and",
    "5 of 100 men are refused: that is the planted bias. fairpc sees the applications and the",
    "recorded labels; the truth is only printed beside its findings.",
)
N_BATCHES: Final = 3
N_FILES: Final = 100
"""Rows of a batch that people look at again."""
# A sampling weight, and a copy of another column: facts about the table, not about a person.
CENSUS: Final = opt.ColumnOptions(["target"], ["sex"], ">50K", drop=["fnlwgt", "education-num"])
DATASETS: Final = {
    "loans": ("loan applications with a planted bias; sex", ("applications", "truth")),
    "adult": ("income above 50,000 dollars, 1994 census; sex", ("raw", "paper")),
    "german": ("loan repaid; sex", ("raw", "paper")),
    "compas": ("arrested again within two years; race", ()),
    "synthetic": ("the paper's process, with known biased labels", ()),
}
"""What each is about, and its versions, of which the first is the default."""
TRUTHS: Final = ("Df", "deserving")
"""Columns that no model may learn from."""
SYNTHETIC_ROWS: Final = 10_000
Shares = Mapping[str, float]
"""A share for each group."""


def demo(
    name: Annotated[
        Literal["loans", "census"],
        opt.argument("NAME", "loans: a planted bias is found; census: when data say no."),
    ] = "loans",
    output: Annotated[str, opt.output("The report to write.")] = "fairpc-demo.html",
    seed: opt.Seed = 0,
    *,
    screen: Screen,
) -> None:
    """Show what fairpc does, on data that come with the package; write a report.

    loans: fit, audit and review of 5,000 applications whose truth is known. census: UCI Adult,
    whose labels contradict the assumptions.
    """
    check_writable(output)
    began, warned = perf_counter(), Warned()
    with warned.watching():
        if screen.prints_text:  # the verdict says it
            warnings.simplefilter("ignore", ContradictionWarning)
        shown = (demonstrate if name == "loans" else demonstrate_census)(seed, screen)
    shown.audit.save(output)
    seconds = perf_counter() - began
    if screen.json:
        print_json(shown.to_dict() | {"report": output, "seconds": seconds})
    elif screen.prints_text:
        shown.show()
        size = Path(output).stat().st_size / 1000
        say(f"\nReport: {output} ({size:,.0f} kB; {seconds:.0f} s in all)", "bold")
        for line in shown.then:
            say(line)
    screen.notes(warned)


@dataclass(frozen=True, eq=False)
class Demo(ABC):
    """What was found in a table: the fit, and the audit."""

    fit: dict[str, Any]
    audit: auditing.Audit

    then: ClassVar[tuple[str, ...]]  #: what to do after it

    def to_dict(self) -> dict[str, Any]:
        """The findings as plain data; the report has the rest of the audit."""
        found = self.audit.to_dict()
        parts = ("verdict", "labels", "decidable", "parity")
        return {"fit": self.fit, "audit": {name: found[name] for name in parts}}

    @abstractmethod
    def show(self) -> None:
        """Print what was found."""


class CensusDemo(Demo):
    """The census, whose labels contradict the assumptions; the audit is of rows held out."""

    then = ("Where a bias is found: fairpc demo loans",)

    def show(self) -> None:
        """Print what was learned, and what the audit says of it."""
        headline("When data say no: UCI Adult, the 1994 United States census")
        say("  The label says whether the income is above 50,000 dollars; the groups are by sex.")
        say("\n1. What do the labels of the training part say?  (fairpc fit)", "bold")
        show_learned(self.fit)
        say("\n2. What does the test part say?  (fairpc audit)", "bold")
        show_verdict(self.audit)


@dataclass(frozen=True, eq=False)
class LoansDemo(Demo):
    """The loan applications, beside the truth."""

    named_fit: dict[str, Any]  #: the fit, groups and classes under their names
    reviews: tuple[auditing.ReviewFacts, ...]  #: after each batch
    recorded: Shares  #: of the deserving, how many were approved
    decided: Shares  #: of the deserving, how many the model approves
    fair_rate: float

    then = (
        "\nOn a table of your own (here: the same one; fit compares structures, so digits differ):",
        "  fairpc data loans -o loans.csv",
        "  fairpc fit loans.csv --label approved --positive yes --sensitive sex -o loans.fairpc",
        "  fairpc audit loans.fairpc loans.csv -o report.html",
        "When data contradict the assumptions: fairpc demo census",
    )

    def to_dict(self) -> dict[str, Any]:
        """The findings as plain data."""
        missed = {group: 1 - share for group, share in self.recorded.items()}
        truth = {"missed": missed, "fair_rate": self.fair_rate, "decided": dict(self.decided)}
        return super().to_dict() | {"truth": truth, "reviews": self.reviews}

    def show(self) -> None:
        """Tell the story: the rule, the finding, the decisions, the review."""
        headline(f"{self.fit['rows']:,} loan applications, made by a rule: the truth is known")
        for line in STORY:
            say(f"  {line}")
        say("\n1. What do the labels say?  (fairpc fit)", "bold")
        (tone, verdict), lines = verdict_of(self.named_fit)
        headline(f"  {verdict}", tone)
        truth = [*(1 - share for share in self.recorded.values()), self.fair_rate]
        for line, true in zip_longest(lines, truth[: len(lines)]):
            say(f"  {line}" if true is None else f"  {line}; truth: {100 * true:.0f}")
        say("\n2. What would the model decide?  (fairpc predict)", "bold")
        for group, share in self.recorded.items():
            say(
                f"  {WHO[group]}: of 100 who deserve a loan, {100 * share:.0f} got one; the model "
                f"gives it to {100 * self.decided[group]:.0f}"
            )
        say("\n3. People look at some files again  (fairpc review)", "bold")
        say("  Rows are drawn with known chances. The answers, here from the truth, need no model.")
        for review in self.reviews:
            found = {r.group: r.interval for r in review.rates if r.name == "mechanism_1"}
            each = ", ".join(
                f"{100 * (1 - high):.0f} to {100 * (1 - low):.0f} of 100 {WHO[group]}"
                for group, (low, high) in found.items()
            )
            say(f"  After {review.n_drawn} files, refused though deserving: {each}")
        missed = (f"{100 * (1 - share):.0f} of 100 {WHO[g]}" for g, share in self.recorded.items())
        say(f"  Truth: {', '.join(missed)}")
        say("\n4. What may be concluded?  (fairpc audit)", "bold")
        for sentence in self.audit.verdict.sentences[:2]:
            say(f"  {sentence}")


def demonstrate(seed: int, screen: Screen) -> LoansDemo:
    """Fit, audit and review the loan applications; the truth answers for the reviewers."""

    from fairpc.datasets import load_loans

    known: pl.DataFrame = load_loans("truth").frame
    rows = _table(known.drop("deserving"), LOANS, "5,000 loan applications")
    deserving = (known["deserving"] == "yes").to_numpy()
    model, learned = _fitted(rows, seed, screen)
    subject, reviewed = models.ReviewRows.of(model, rows.X, rows.y), None
    batches, reviews = [], []
    for k in range(1, N_BATCHES + 1):
        rng = np.random.default_rng([seed, N_FILES, k])
        design = subject.design(N_FILES, reviewed=reviewed, random_state=rng)
        chances = design.probability[design.rows]
        batches.append((design.rows, chances, deserving[design.rows].astype(float)))
        reviewed = models.Reviewed.of(known.height, batches)
        reviews.append(auditing.facts_of_review(subject, reviewed))
    record = _audited(model, rows, seed, screen, reviewed=reviewed, names=CALLED)

    def approved(given: Any) -> Shares:
        """Of the deserving in each group, how many have a yes."""
        yes, sex = np.asarray(given) == "yes", known["sex"].to_numpy()
        return {g: float(yes[deserving & (sex == g)].mean()) for g in model.coding_.group_names}

    shares = approved(rows.y), approved(model.predict(rows.X))
    named = facts(model, rows, learned["seconds"], NAMES)
    return LoansDemo(learned, record, named, tuple(reviews), *shares, float(deserving.mean()))


def _fitted(rows: LabelledTable, seed: int, screen: Screen) -> tuple[Any, dict[str, Any]]:
    """A model of a table, and what it learned."""
    learner = replace(LEARNER, random_state=seed)
    model: Any = estimator(learner, rows.roles, {}, verbose=screen.shows_progress)
    began = perf_counter()
    model.fit(rows.X, rows.y)
    return model, facts(model, rows, perf_counter() - began)


def _audited(
    model: Any, rows: LabelledTable, seed: int, screen: Screen, **more: Any
) -> auditing.Audit:
    with models.progress(screen.shows_progress) as step:
        more |= {"random_state": seed, "progress": in_stages(step)}
        return auditing.audit(model, rows.X, rows.y, **more)


def _table(frame: pl.DataFrame, roles: opt.ColumnOptions, source: str) -> LabelledTable:
    frame = frame.drop(roles.drop)
    counts = frame.group_by(roles.label).len(tables.N_ROWS)
    y = frame[roles.label].clone()
    return LabelledTable(source, roles, frame.drop(roles.label), y, counts)


def demonstrate_census(seed: int, screen: Screen) -> CensusDemo:
    """Fit to UCI's training part, and audit on its test part."""
    train, test = _census("train"), _census("test")
    model, learned = _fitted(train, seed, screen)
    return CensusDemo(learned, _audited(model, test, seed, screen))


def _census(part: Literal["train", "test"]) -> LabelledTable:
    from fairpc.datasets import load_adult

    return _table(load_adult(subset=part).frame, CENSUS, "UCI Adult")


def data(
    name: Annotated[
        str | None,
        opt.argument("NAME", "loans, adult, german, compas, synthetic; none: list them."),
    ] = None,
    output: Annotated[
        str | None, opt.output("The table: .csv, .tsv, .parquet, .feather; - for stdout.")
    ] = None,
    version: Annotated[str | None, opt.option("NAME", "raw or paper; loans: truth.")] = None,
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
    target = tables.target_of(output, screen)
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
        print(_words(about), file=sys.stderr if output == tables.STDOUT else sys.stdout)


def _load(name: str, version: str | None, rows: int | None, seed: int) -> Any:
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
    load = getattr(datasets, f"load_{name}")
    return load(version or versions[0]) if versions else load()


def _words(about: dict[str, Any]) -> str:
    lines = [
        about["description"],
        *(f"Mind: {trap}" for trap in about["traps"]),
        f"{about['source']}; {about['licence']}",
        f"{counted(about['rows'], 'row')}, {counted(len(about['columns']), 'column')} are in "
        f"{about['output']}.",
    ]
    if about["output"] != tables.STDOUT:
        lines.append(
            f"Next: fairpc fit {quote(about['output'])} --label {quote(about['label'])} "
            f"--positive {quote(about['positive'])} --sensitive {quote(about['sensitive'])} "
            + "".join(f"--drop {name} " for name in TRUTHS if name in about["columns"])
            + "-o model.fairpc"
        )
    return "\n".join(map(shown, lines))


def _list(screen: Screen) -> None:
    if screen.json:
        known = DATASETS.items()
        print_json([{"name": name, "about": a, "versions": list(v)} for name, (a, v) in known])
        return
    lines = [(name, about, ", ".join(v) or "-") for name, (about, v) in DATASETS.items()]
    grid(("name", "what it is", "versions"), lines, right=False)
    say("Write one with: fairpc data NAME -o FILE")
