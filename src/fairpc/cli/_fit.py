"""``fairpc fit``: a table in, a model file out, and an account of what was read and learned."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from shlex import quote
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fairpc.cli._options import (
    LATENT,
    THRESHOLD,
    Engine,
    Keeping,
    Learner,
    Roles,
    TextFormat,
)
from fairpc.cli._screen import Screen, grid, print_json, say
from fairpc.cli._strata import alike, show_strata, strata_facts
from fairpc.cli._tables import (
    LabelledTable,
    about,
    check_output,
    client_of,
    is_large,
    labelled,
    opened,
    strata_columns,
    streamed,
    under_types,
    weight_column,
)
from fairpc.core import (
    DroppedWarning,
    InterruptedWarning,
    LearningError,
    OptionError,
    SameAsLabelWarning,
    TableError,
    check_choice,
    counted,
    showing_progress,
)
from fairpc.data import Warned

if TYPE_CHECKING:
    from fairpc.data import Encoding, TableCoding
    from fairpc.models import CircuitClassifier, FittedModel, LatentDecision

Facts = dict[str, Any]

FROM_SCORES: Final = "LatentDecision"
DECIDING: Final = ("FairPC", "LatNB", FROM_SCORES)
"""Models with a latent decision."""
WORDS: Final = {"hgb": "gradient boosting", "logistic": "logistic regression", "forest": "a forest"}
"""What classifiers are called."""
RATES_ALIKE: Final = 0.01
"""A difference of rates that is not spoken of."""
MAX_SENTENCES: Final = 8
"""Where groups or classes are many, the table says it better than as many sentences."""


def run(
    table: str,
    roles: Roles,
    output: str,
    learner: Learner,
    text: TextFormat,
    keeping: Keeping,
    engine: Engine,
    screen: Screen,
) -> None:
    """Fit a model to a table, save it, and say what was done."""
    check_output(output, table)
    estimator(learner, roles)  # a wrong name is refused before the table is read
    in_memory = learner.model == LATENT
    if in_memory:
        _refuse_streaming(keeping, engine)
    warned = Warned()
    with opened(table, text) as files, client_of(engine) as client, about(files.source):
        learner = replace(learner, given=strata_columns(learner.given, roles, files))
        weight = weight_column(learner.weight, learner.given, roles, files)
        large = engine.clustered or keeping != Keeping() or is_large(files)
        parted = large and not in_memory
        if parted and learner.equal_rates:
            raise OptionError(
                "--equal-rates needs the whole table in memory, and this one is read in parts: "
                "leave it out, or choose the thresholds in Python"
            )
        rows = streamed(files, roles, client, weight) if parted else labelled(files, roles, weight)
        learner = replace(learner, weight=weight)
        model = estimator(learner, rows.roles, verbose=screen.shows_progress)
        read: list[Facts] = []
        began = perf_counter()
        with warned.watching(), _whole_or_nothing(keeping.checkpoint, screen):
            if in_memory:
                _fit_classifiers(model, rows, screen)
            else:
                if not screen.json:  # the table that follows says what is not used
                    warnings.simplefilter("ignore", DroppedWarning)
                if screen.talks:
                    model._on_coding = partial(_show_read, rows, weight, read)
                model.fit(rows.X, rows.y, sample_weight=rows.weight, **vars(keeping))
            rates = _equalised(model, rows, in_memory) if learner.equal_rates else {}
        seconds = perf_counter() - began
    said = {"delimiter": text.delimiter, "encoding": text.encoding, "weight": weight}
    model.table_options_ = {name: value for name, value in said.items() if value is not None}
    model.save(output)
    found = facts(model, rows, seconds, weight) | {"model_file": output, "selection_rates": rates}
    if screen.json:
        print_json(found)
    elif screen.talks:
        if in_memory:
            show_read(found)
        show_learned(found)
        if any(shown["columns"] != found["columns"] for shown in read):
            say("The forest cuts numbers more finely than the table of columns says.")
        say(f"The model is in {output}.")
        say(f"Next: fairpc audit {quote(output)} {quote(table)} -o report.html")
    screen.notes(warned)


def _refuse_streaming(keeping: Keeping, engine: Engine) -> None:
    """An OptionError where a table is to be read in parts, which classifiers do not."""
    given = {**vars(keeping), "engine": engine.engine if engine.clustered else None}
    for name, value in given.items():
        if value is not None:
            raise OptionError(
                f"--{name.replace('_', '-')} is for tables that are read in parts, and --model "
                f"{LATENT} reads its table whole: leave it out, or take --model FairPC"
            )


def _fit_classifiers(model: FittedModel, rows: LabelledTable, screen: Screen) -> None:
    with showing_progress(type(model).__name__, shown=screen.shows_progress) as model._say:
        try:
            model.fit(under_types(rows), rows.y, sample_weight=rows.weight)
        finally:
            del model._say


def _equalised(model: FittedModel, rows: LabelledTable, in_memory: bool) -> dict[str, float]:
    """Choose a threshold for each group; and how many of each are then above it."""
    own = under_types(rows) if in_memory else rows.X
    scores, groups = model.choose_threshold(own, equalise=True)._scores(own)
    decided, names = model.threshold_.decide(scores, groups), model.coding_.group_names
    return {name: float(decided[groups == s].mean()) for s, name in enumerate(names)}


def estimator(learner: Learner, roles: Roles, *, verbose: bool = False) -> FittedModel:
    """The model that is asked for, not yet fitted."""
    from fairpc.models import MODELS

    if learner.model == LATENT:
        return _latent(learner, roles)
    if learner.model not in MODELS:
        known = ", ".join((*MODELS, LATENT))
        raise LearningError(f"there is no model {learner.model!r}: use {known}")
    if learner.given and learner.model not in DECIDING:
        raise OptionError(
            f"--given is for models with a hidden decision, and {learner.model} has none: take "
            f"--model FairPC, LatNB or {LATENT}, or leave --given out"
        )
    if learner.equal_mass and learner.model != "FairPC":
        raise OptionError(
            f"--equal-mass is for FairPC, and not for {learner.model}: leave one of the two out"
        )
    settings = learner.settings | {
        "sensitive": roles.sensitive,
        "positive": roles.positive,
        "numeric": tuple(roles.numeric),
        "categorical": tuple(c for c in roles.categorical if c not in roles.sensitive),
        "missing_values": roles.sentinels,
        "decimal": roles.decimal,
        "verbose": int(verbose),
    }
    if learner.model not in ("FairPC", "NLatPC"):
        chosen = settings.pop("structure"), settings.pop("n_components")
        del settings["equal_mass"]
        if chosen != ("auto", None):
            raise LearningError(
                f"{learner.model} has no structure to choose: leave out --structure and "
                "--components"
            )
    made: CircuitClassifier = MODELS[learner.model](**settings)
    return made


def _latent(learner: Learner, roles: Roles) -> LatentDecision:
    """Df from the scores of a classifier; what only circuits have is refused."""
    from fairpc.learners import CLASSIFIER_KINDS
    from fairpc.models import LatentDecision, TableClassifier

    usual = Learner()
    for name in ("structure", "components", "bins", "numbers", "monotone", "equal_mass"):
        if getattr(learner, name) != getattr(usual, name):
            raise OptionError(
                f"--{name.replace('_', '-')} is for circuits, and --model {LATENT} has a "
                "classifier instead: leave it out, or take --model FairPC"
            )
    kind: Any = learner.classifier or CLASSIFIER_KINDS[0]
    check_choice("--classifier", kind, CLASSIFIER_KINDS, OptionError)
    given: dict[str, Any] = {"missing_values": roles.sentinels, "random_state": learner.seed}
    # The first one is what LatentDecision takes by itself.
    own = None if kind == CLASSIFIER_KINDS[0] else TableClassifier(kind, **given)
    more: Any = {"given": learner.given, "mechanism": learner.mechanism, "decimal": roles.decimal}
    more |= {"sensitive": roles.sensitive, "positive": roles.positive}
    more["numeric"] = tuple(roles.numeric)
    return LatentDecision(own, threshold=learner.threshold, **more, **given)


@contextmanager
def refusing_copies() -> Iterator[None]:
    """A block in which a column that is a copy of the label is a TableError."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", SameAsLabelWarning)
        try:
            yield
        except SameAsLabelWarning as warning:
            raise TableError(str(warning)) from None


@contextmanager
def _whole_or_nothing(checkpoint: str | None, screen: Screen) -> Iterator[None]:
    """A model that was cut short, or could learn nothing, is no result, and is not written.

    Of a fit that was stopped and has a checkpoint, a note says how it goes on.
    """
    with refusing_copies():
        warnings.simplefilter("error", InterruptedWarning)
        try:
            yield
        except (InterruptedWarning, KeyboardInterrupt, SystemExit) as ended:
            if checkpoint is not None and Path(checkpoint).is_file():
                screen.note(f"the fit is saved in {checkpoint}: the same command resumes it")
            if isinstance(ended, InterruptedWarning):
                raise KeyboardInterrupt from None
            raise


def facts(
    model: FittedModel, rows: LabelledTable, seconds: float, weight: str | None = None
) -> Facts:
    """What was read and what was learned, as plain data."""
    features = model.coding_.features
    if type(model).__name__ == FROM_SCORES:
        features = model.estimators_[0][0].encoding_
    return {
        "model": type(model).__name__,
        **_read_facts(model.coding_, rows, weight, features),
        "learned": _learned(model),
        "thresholds": _thresholds(model),
        **_how(model),
        "hints": list(rows.hints),
        "warnings": list(model.warnings_),
        "seconds": seconds,
    }


def _thresholds(model: FittedModel) -> dict[str, float]:
    """The score of each group above which the decision is positive; none of many classes."""
    if len(model.classes_) > 2:
        return {}
    values = np.broadcast_to(model.threshold_.values, len(model.groups_)).tolist()
    return dict(zip(model.coding_.group_names, values, strict=True))


def _read_facts(
    coding: TableCoding, rows: LabelledTable, weight: str | None, features: Encoding
) -> Facts:
    """What was read, as plain data."""
    *counts, missing = rows.label_counts(coding.labels)
    return {
        "table": rows.source,
        "rows": rows.height,
        "columns": _columns(coding, features, rows.roles, weight),
        "label": {
            "column": coding.labels.name,
            "classes": [str(c) for c in coding.labels.classes],
            "counts": counts,
            "missing": missing,
            "positive": str(coding.labels.classes[coding.labels.positive]),
            "positive_chosen": rows.roles.positive is not None,
        },
        "groups": {
            "columns": list(coding.groups.column_names),
            "rows": dict(zip(coding.group_names, coding.groups.rows, strict=True)),
            "missing": rows.height - sum(coding.groups.rows),
            "small": [name for name, _ in coding.small_groups()],
        },
        "weight": weight,
    }


def _show_read(
    rows: LabelledTable, weight: str | None, read: list[Facts], coding: TableCoding
) -> None:
    """Print what was read, before the fit begins; and keep it in ``read``."""
    read.append(_read_facts(coding, rows, weight, coding.features))
    try:
        show_read(read[-1] | {"hints": list(rows.hints)})
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as ended:
        # Whoever read this has seen enough (``| head``); the model is wanted all the same. Rich
        # makes an end of the program of it.
        if not isinstance(ended.__context__ or ended, BrokenPipeError):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _how(model: FittedModel) -> Facts:
    """How the model was learned."""
    if type(model).__name__ == FROM_SCORES:
        classifier = model.estimators_[0][0].kind
        twice = model.second_round_ is not None
        return {"classifier": classifier, "folds": len(model.estimators_), "twice": twice}
    return {
        "log_likelihood_per_row": model.log_likelihood_,
        "iterations": int(model.n_iter_),
        "converged": bool(model.converged_),
    }


def _columns(
    coding: TableCoding, features: Encoding, roles: Roles, weight: str | None
) -> list[Facts]:
    """What encoding did, a record per column of the table."""
    records = {record["column"]: dict(record) for record in features.describe()}

    def add(name: str, kind: str | None, values: list[str], missing: Any, done: str) -> None:
        record = {"column": name, "used": kind is not None, "kind": kind, "values": values}
        records[name] = records.get(name, {}) | record | {"missing": missing, "done": done}

    for column in coding.groups.columns:
        done = "sensitive attribute, " + column.done
        add(column.name, "sensitive", list(column.labels), column.missing_share, done)
    label, classes = coding.labels.column, [str(c) for c in coding.labels.classes]
    add(coding.labels.name, "label", classes, label.missing_share, label.done)
    if weight is not None:
        add(weight, "weight", [], None, "weight of the rows")
    for name in roles.drop:
        add(name, None, [], None, "dropped: left out on request")
    return list(records.values())


def _learned(model: FittedModel) -> Facts:
    """The rates and the mechanism of a fitted model."""
    account = model.explain_bias()
    latent = type(model).__name__ in DECIDING
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
    possible: Facts = {}
    from_scores = type(model).__name__ == FROM_SCORES
    if from_scores:
        from fairpc.evidence import LEVEL

        lower, upper = model.fair_rate_set_
        possible = {"positive_rate_set": {"lower": lower, "upper": upper, "level": LEVEL}}
    return {
        **possible,
        "decision": "Df" if latent else "D",
        "decision_rate": dict(zip(account.classes, map(float, model.fair_rate_), strict=True)),
        "group_rate": dict(zip(account.groups, map(float, model.group_rate_), strict=True)),
        "mechanism": mechanism if latent else [],
        "sentences": list(account.sentences) if latent and not model.warnings_ else [],
        "strata": strata_facts(model),
    }


def show_read(found: Mapping[str, Any]) -> None:
    """Print what was read: the columns, the label and the groups."""
    columns, label, groups = found["columns"], found["label"], found["groups"]
    size = f"{counted(found['rows'], 'row')}, {counted(len(columns), 'column')}"
    say(f"{found['table']}: {size}\n", "bold")
    grid(("column", "what was done"), [(c["column"], c["done"]) for c in columns], right=False)
    classes = zip(label["classes"], label["counts"], strict=True)
    say(f"Label {label['column']!r}: {_sizes(classes, label['missing'])}")
    why = "as asked" if label["positive_chosen"] else "the last one; choose with --positive"
    say(f"Positive class: {label['positive']} ({why})", "bold")
    names = " × ".join(map(repr, groups["columns"]))
    say(f"Groups by {names}: {_sizes(groups['rows'].items(), groups['missing'])}")
    if groups["small"]:
        say(f"Few rows, read with care: {', '.join(groups['small'])}")
    for hint in found["hints"]:
        say(f"Hint: {hint}")
    say()


def _sizes(sizes: Iterable[tuple[str, int]], missing: int) -> str:
    """Rows of each class or group, and those without one, which are kept and summed over."""
    unknown = f"; not known in {counted(missing, 'row')}" if missing else ""
    return ", ".join(f"{name} ({n:,})" for name, n in sizes) + unknown


def show_learned(found: Mapping[str, Any]) -> None:
    """Print the rates and the mechanism."""
    model, facts = found["model"], found["learned"]
    say(f"{model} in {found['seconds']:.1f} s: {_how_learned(found)}", "bold")
    decision, positive = facts["decision"], found["label"]["positive"]
    tied = ", the same in every group under the model" if model != "TwoNB" else ""
    strata = facts["strata"]
    if strata is not None:
        tied = " in the whole table"
    say(f"P({decision} = {positive}) = {facts['decision_rate'][positive]:.3f}{tied}")
    if strata is not None:
        show_strata(strata, positive)
    possible = facts.get("positive_rate_set")
    if possible is not None and possible["lower"] <= possible["upper"]:
        say(
            f"By its own classifier, held-out labels leave {possible['lower']:.3f} to "
            f"{possible['upper']:.3f} possible ({possible['level']:.0%} confidence). An audit "
            "takes other classifiers and more splits of the rows: its range may differ."
        )
    say()
    cells, classes = facts["mechanism"], found["label"]["classes"]
    if not cells:
        return
    which = "" if strata is None else alike(strata)
    say(f"How labels depend on the latent decision Df and the group, P(D | Df, S){which}:\n")
    _show_mechanism(cells, classes, ("group",))
    if strata is not None and strata["stratum_mechanism"]:
        say("In each stratum, P(D | Df, S, stratum):\n")
        _show_mechanism(strata["stratum_mechanism"], classes, ("stratum", "group"))
    if len(facts["sentences"]) <= MAX_SENTENCES:
        for sentence in facts["sentences"]:
            say(sentence)
    _show_thresholds(found["thresholds"], found.get("selection_rates", {}), positive)
    within = "" if strata is None else " within strata"
    say(
        "\nThis is what the model learned under its assumptions: Df does not depend on S"
        f"{within}, and D depends on the features only through {_through(strata)}.\nOther "
        "mechanisms may fit as well, and the data may contradict the assumptions: `fairpc audit` "
        "checks both."
    )


def _show_thresholds(
    thresholds: Mapping[str, float], rates: Mapping[str, float], positive: str
) -> None:
    """Print what the decision takes, where that is not the usual, and whom it favours."""
    different = dict.fromkeys(thresholds.values())
    if len(different) > 1:
        each = ", ".join(f"{value:.3f} for {group}" for group, value in thresholds.items())
        say(f"\nThe decision is {positive} above these scores: {each}.")
    elif different and THRESHOLD not in different:
        say(f"\nThe decision is {positive} above a score of {next(iter(different)):.3f}.")
    if rates:
        each = ", ".join(f"{rate:.1%} of {group}" for group, rate in rates.items())
        why = ""
        if max(rates.values()) - min(rates.values()) > RATES_ALIKE:
            why = " They are not equal, because many rows have the same score."
        say(f"In this table it is {positive} for {each}.{why}")


def _through(strata: Mapping[str, Any] | None) -> str:
    own = strata is not None and strata["mechanism"] == "within"
    return "Df, S and the stratum" if own else "Df and S"


def _show_mechanism(
    cells: Sequence[Mapping[str, Any]], classes: Sequence[str], named: Sequence[str]
) -> None:
    """Print a row per group and decision, a column per label."""
    rows = [cells[i : i + len(classes)] for i in range(0, len(cells), len(classes))]
    grid(
        (*named, "Df", *(f"D = {c}" for c in classes)),
        [
            (
                *(row[0][name] for name in named),
                row[0]["decision"],
                *(f"{c['probability']:.3f}" for c in row),
            )
            for row in rows
        ],
    )


def _how_learned(found: Mapping[str, Any]) -> str:
    if "classifier" in found:
        twice = ", then Df behind the labels" if found["twice"] else ""
        return f"{WORDS[found['classifier']]}, {counted(found['folds'], 'fold')}{twice}"
    end = "" if found["converged"] else "; it stopped at the limit before it converged"
    steps = counted(found["iterations"], "iteration")
    return f"{steps} of EM{end}; log-likelihood per row {found['log_likelihood_per_row']:.4f}"
