"""``fairpc fit``: a table in, a model file out, and an account of what was read and learned."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from fairpc.cli.arguments import as_options
from fairpc.cli.engine import Engine
from fairpc.cli.outputs import check_output
from fairpc.cli.screen import Voice, console, grid, print_json, say
from fairpc.cli.streamed import StreamedTable, is_large, streamed
from fairpc.cli.tables import STDIN, LabelledTable, Reading, Roles, about, labelled, opened
from fairpc.data.plural import counted
from fairpc.data.source import Warned
from fairpc.errors import InterruptedWarning, LearningError, SameAsLabelWarning, TableError

if TYPE_CHECKING:
    from rich.console import Console

    from fairpc.estimators.base import CircuitClassifier

Facts = dict[str, Any]

LATENT: Final = ("FairPC", "LatNB")
MAX_SENTENCES: Final = 8
"""Where groups or classes are many, the table says it better than as many sentences."""


@dataclass(frozen=True)
class Learner:
    """Which model is fitted, and how.

    Attributes:
        model: FairPC, NLatPC, LatNB or TwoNB.
        structure, components: of P(x | f, s), for FairPC and NLatPC.
        bins: about how many bins a numeric column gets.
        seed: of what is random in a fit.
    """

    model: str = "FairPC"
    structure: str = "auto"
    components: int | None = None
    bins: int = 8
    seed: int = 0

    def estimator(self, roles: Roles, *, verbose: bool = False) -> CircuitClassifier:
        """The model, not yet fitted."""
        from fairpc.estimators.file import MODELS

        if self.model not in MODELS:
            raise LearningError(f"there is no model {self.model!r}: use {', '.join(MODELS)}")
        settings: dict[str, Any] = {
            "sensitive": list(roles.sensitive),
            "positive": roles.positive,
            "n_bins": self.bins,
            "numeric": roles.numeric,
            "categorical": tuple(c for c in roles.categorical if c not in roles.sensitive),
            "missing_values": roles.sentinels,
            "random_state": self.seed,
            "verbose": int(verbose),
        }
        if self.model in ("FairPC", "NLatPC"):
            settings |= {"structure": self.structure, "n_components": self.components}
        elif self.structure != "auto" or self.components is not None:
            raise LearningError(
                f"{self.model} has no structure to choose: leave out --structure and --components"
            )
        made: CircuitClassifier = MODELS[self.model](**settings)
        return made


@dataclass(frozen=True)
class Keeping:
    """What of a long fit is kept on disk.

    Attributes:
        checkpoint: a folder from which a fit that was stopped goes on.
        max_memory: bytes or text like "4GB" beyond which rows stay on disk.
    """

    checkpoint: str | None = None
    max_memory: str | None = None

    @property
    def asked(self) -> bool:
        return self.checkpoint is not None or self.max_memory is not None

    @property
    def options(self) -> dict[str, str | None]:
        """Arguments of ``fit``."""
        return {"checkpoint": self.checkpoint, "max_memory": self.max_memory}


def run(
    table: str,
    output: str,
    *,
    roles: Roles,
    reading: Reading,
    learner: Learner,
    voice: Voice,
    keeping: Keeping = Keeping(),  # noqa: B008 - frozen
    engine: Engine = Engine(),  # noqa: B008 - frozen
) -> None:
    """Fit a model to a table, save it, and say what was done."""
    check_output(output, table)
    if table == STDIN and keeping.checkpoint is not None:
        raise LearningError(
            "--checkpoint needs a table that can be read again, and - is read once: give a file"
        )
    estimator = learner.estimator(roles)
    with opened(table, reading) as files, engine.tables() as source_of, about(files.source):
        large = engine.clustered or keeping.asked or is_large(files)
        rows = streamed(files, roles, source_of) if large else labelled(files, roles)
        estimator = learner.estimator(rows.roles, verbose=voice.shows_progress)
        warned = Warned()
        began = perf_counter()
        with _going_on(keeping.checkpoint, voice), warned.watching(), _whole_or_nothing():
            model = rows.fit(estimator, **keeping.options)
        seconds = perf_counter() - began
    model.save(output)
    found = facts(model, rows, seconds) | {"model_file": output}
    if voice.json:
        print_json(found)
    elif voice.talks:
        show(found, console())
        say(f"The model is in {output}.", console())
        _say_what_next(output, table)
    voice.notes(warned)


@contextmanager
def _going_on(checkpoint: str | None, voice: Voice) -> Iterator[None]:
    """Say of a fit that was stopped how it goes on."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        if checkpoint is not None:
            voice.note(f"the fit is kept in {checkpoint}: the same command goes on from there")
        raise


@contextmanager
def _whole_or_nothing() -> Iterator[None]:
    """A model that was cut short, or could learn nothing, is no result, and is not written."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", InterruptedWarning)
        warnings.simplefilter("error", SameAsLabelWarning)
        try:
            yield
        except InterruptedWarning:
            raise KeyboardInterrupt from None
        except SameAsLabelWarning as warning:
            raise TableError(str(warning)) from None


def facts(model: CircuitClassifier, rows: LabelledTable | StreamedTable, seconds: float) -> Facts:
    """What was read and what was learned, as plain data."""
    coding = model.coding_
    classes = [str(c) for c in coding.labels.classes]
    *counts, missing = rows.label_counts(coding.labels)
    return {
        "model": type(model).__name__,
        "table": rows.source,
        "rows": rows.height,
        "columns": _columns(model, rows),
        "label": {
            "column": coding.labels.name,
            "classes": classes,
            "counts": counts,
            "missing": missing,
            "positive": str(model.positive_class_),
            "positive_chosen": rows.roles.positive is not None,
        },
        "groups": {
            "columns": list(coding.groups.column_names),
            "rows": dict(zip(coding.groups.names, coding.groups.rows, strict=True)),
            "missing": rows.height - sum(coding.groups.rows),
            "small": [name for name, _ in coding.groups.small()],
        },
        "learned": learned(model),
        "log_likelihood_per_row": rows.mean_log_likelihood(model),
        "iterations": int(model.n_iter_),
        "converged": bool(model.converged_),
        "hints": list(rows.hints),
        "seconds": seconds,
    }


def _columns(model: CircuitClassifier, rows: LabelledTable | StreamedTable) -> list[Facts]:
    """What encoding did, a record per column of the table."""
    coding, roles = model.coding_, rows.roles
    records = {record["column"]: dict(record) for record in coding.features.describe()}
    for column in coding.groups.columns:
        records[column.name] |= {
            "used": True, "kind": "sensitive", "values": list(column.labels),
            "missing": column.missing_share, "done": "sensitive attribute, " + column.done,
        }  # fmt: skip
    labels = coding.labels
    records[labels.name] = {
        "column": labels.name, "used": True, "kind": "label",
        "values": [str(c) for c in labels.classes], "missing": labels.column.missing_share,
        "done": labels.column.done,
    }  # fmt: skip
    for name in roles.drop:
        records[name] = {
            "column": name, "used": False, "kind": None, "values": [], "missing": None,
            "done": "dropped: left out on request",
        }  # fmt: skip
    return [record | {"done": as_options(record["done"])} for record in records.values()]


def learned(model: CircuitClassifier) -> Facts:
    """The rates and the mechanism of a fitted model."""
    account = model.explain_bias()
    latent = type(model).__name__ in LATENT
    mechanism = [
        {
            "group": group,
            "decision": decision,
            "label": label,
            "probability": float(account.mechanism[s, f, d]),
            "estimated_labels": float(account.counts[s, f, d]),
        }
        for s, group in enumerate(account.groups)
        for f, decision in enumerate(account.classes)
        for d, label in enumerate(account.classes)
    ]
    return {
        "decision": "Df" if latent else "D",
        "decision_rate": dict(zip(account.classes, map(float, model.fair_rate_), strict=True)),
        "group_rate": dict(zip(account.groups, map(float, model.group_rate_), strict=True)),
        "mechanism": mechanism if latent else [],
        "sentences": list(account.sentences) if latent else [],
    }


def show(found: Mapping[str, Any], out: Console) -> None:
    """Print what was read and what was learned."""
    columns = found["columns"]
    size = f"{counted(found['rows'], 'row')}, {counted(len(columns), 'column')}"
    say(f"{found['table']}: {size}\n", out, "bold")
    grid(
        out, ("column", "what was done"),
        [(c["column"], c["done"]) for c in columns], right=False,
    )  # fmt: skip
    _show_label(found, out)
    for hint in found["hints"]:
        say(f"Hint: {hint}", out)
    out.print()
    show_learned(found, out)


def _show_label(found: Mapping[str, Any], out: Console) -> None:
    label = found["label"]
    counts = zip(label["classes"], label["counts"], strict=True)
    classes = ", ".join(f"{name} ({n:,})" for name, n in counts)
    say(f"Label {label['column']!r}: {classes}{_unknown(label['missing'])}", out)
    why = "as asked" if label["positive_chosen"] else "the last one; choose with --positive"
    say(f"Positive class: {label['positive']} ({why})", out, "bold")
    groups = found["groups"]
    names = ", ".join(f"{name} ({n:,})" for name, n in groups["rows"].items())
    columns = " × ".join(map(repr, groups["columns"]))
    say(f"Groups by {columns}: {names}{_unknown(groups['missing'])}", out)
    if groups["small"]:
        say(f"Few rows, read with care: {', '.join(groups['small'])}", out)


def _unknown(n_rows: int) -> str:
    """Rows without a label or group, which are kept and summed over; nothing where all have one."""
    return f"; not known in {counted(n_rows, 'row')}" if n_rows else ""


def show_learned(found: Mapping[str, Any], out: Console) -> None:
    """Print the rates and the mechanism."""
    model, facts = found["model"], found["learned"]
    end = "" if found["converged"] else "; it stopped at the limit and had not settled"
    steps = counted(found["iterations"], "iteration")
    say(
        f"{model} in {found['seconds']:.1f} s: {steps} of EM{end}; "
        f"log-likelihood per row {found['log_likelihood_per_row']:.4f}",
        out,
        "bold",
    )
    decision, positive = facts["decision"], found["label"]["positive"]
    tied = ", the same in every group under the model" if model != "TwoNB" else ""
    say(f"P({decision} = {positive}) = {facts['decision_rate'][positive]:.3f}{tied}\n", out)
    if not facts["mechanism"]:
        return
    classes = found["label"]["classes"]
    say("How labels depend on the latent decision Df and the group, P(D | Df, S):\n", out)
    grid(out, ("group", "Df", *(f"D = {c}" for c in classes)), _mechanism(facts, classes))
    if len(facts["sentences"]) <= MAX_SENTENCES:
        for sentence in facts["sentences"]:
            say(sentence, out)
    say(
        "\nThis is what the model learned under its assumptions: Df does not depend on S, and D "
        "depends on the features only through Df and S.\nOther mechanisms may fit as well, and "
        "the data may contradict the assumptions: `fairpc audit` looks into both.",
        out,
    )


def _mechanism(learned: Mapping[str, Any], classes: Sequence[str]) -> list[list[str]]:
    cells = learned["mechanism"]
    k = len(classes)
    return [
        [cells[i]["group"], cells[i]["decision"]]
        + [f"{cell['probability']:.3f}" for cell in cells[i : i + k]]
        for i in range(0, len(cells), k)
    ]


def _say_what_next(model: str, table: str) -> None:
    from shlex import quote

    say(f"Next: fairpc audit {quote(model)} {quote(table)} -o report.html", console())
