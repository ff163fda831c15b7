"""``fairpc fit``: a table in, a model file out, and an account of what was read and learned."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from inspect import signature
from shlex import quote
from time import perf_counter
from typing import Annotated, Any, Final

import fairpc.cli._options as opt
import fairpc.cli._tables as tables
from fairpc import core, data, models
from fairpc.cli._labelled import LabelledTable, classes_in, labelled, streamed, under_types
from fairpc.cli._learned import DECIDING, facts, show_columns, show_learned
from fairpc.cli._review_files import IN_PARTS, read_reviews, reviewed_cells
from fairpc.cli._screen import Screen, print_json, say
from fairpc.core import LearningError, OptionError, TableError

HELD: Final = ("FairPC", "LatNB")
"""Models that a fit holds to reviewed rows."""


def fit(
    table: opt.Table,
    roles: opt.ColumnOptions,
    output: Annotated[str, opt.output("The model file to write.")],
    learner: opt.ModelOptions,
    naming: opt.Naming,
    text: opt.TextFormat,
    scheduler: opt.Scheduler = None,
    max_memory: opt.MaxMemory = None,
    held_to: opt.ReviewedFiles = None,
    verbose: Annotated[
        bool, opt.option(None, "Also print how each column was read.", "--verbose", "-v")
    ] = False,
    *,
    screen: Screen,
) -> None:
    """Learn a model from a table of past decisions, and say how its labels were altered.

    Example: fairpc fit loans.csv --label approved --positive yes --sensitive sex -o loans.fairpc
    """
    tables.check_output(output, table)
    estimator(learner, roles, {})  # a wrong name is refused before the table is read
    in_memory = learner.model == opt.LATENT
    if in_memory:
        _refuse_streaming(max_memory, scheduler)
    if held_to and learner.model not in HELD:
        raise OptionError(
            f"--reviewed is for --model {' or '.join(HELD)}, and not for {learner.model}: take one "
            "of these, or leave --reviewed out"
        )
    warned = data.Warned()
    with (
        tables.opened(table, text) as files,
        tables.client_of(scheduler) as client,
        tables.about(files.source),
    ):
        names = tables.display_names(naming, files)
        large = scheduler is not None or max_memory is not None or tables.is_large(files)
        if (parted := large and not in_memory) and learner.equal_rates:
            raise OptionError(
                "--equal-rates needs the whole table in memory, and this one is read in parts: "
                "leave it out, or choose the thresholds in Python"
            )
        if parted and held_to:
            raise OptionError(IN_PARTS)
        rows = (
            streamed(files, roles, client, learner, names)
            if parted
            else labelled(files, roles, learner, names)
        )
        learner = replace(learner, given=list(rows.given))
        model = estimator(learner, rows.roles, names, verbose=screen.shows_progress)
        known: dict[str, Any] = {"max_memory": max_memory}
        if held_to:
            known["reviewed"] = _answers_of(held_to, rows, files, screen)
        began = perf_counter()
        with warned.watching(), _whole_or_nothing():
            if screen.prints_text:  # the verdict says it
                warnings.simplefilter("ignore", core.ContradictionWarning)
                warnings.simplefilter("ignore", core.DriftWarning)
            if in_memory:
                _fit_classifiers(model, rows, screen)
            else:
                if verbose:  # the table of columns says what is not used
                    warnings.simplefilter("ignore", core.DroppedWarning)
                model.fit(rows.X, rows.y, sample_weight=rows.weights, **known)
            rates = _equalised(model, rows, in_memory) if learner.equal_rates else []
        seconds = perf_counter() - began
    said = {**vars(text), "weight": rows.weight}
    model.table_options_ = {name: value for name, value in said.items() if value is not None}
    model.save(output)
    # JSON has the values of the table, as its next reader does.
    shown = facts(model, rows, seconds, model.names_ if screen.prints_text else {})
    shown["selection_rates"] = dict(zip(shown["groups"]["rows"], rates, strict=bool(rates)))
    if screen.json:
        print_json(shown | {"model_file": output})
    elif screen.prints_text:
        show_learned(shown)
        if verbose:
            show_columns(shown)
        say(models.group_is_input(model.coding_))
        say(f"Model: {output} ({shown['model']}, {seconds:.1f} s)")
        given = opt.as_typed(text, reviewed=held_to)
        say(f"Next: fairpc audit {quote(output)} {quote(table)}{given} -o report.html", "bold")
    screen.notes(warned)


def _answers_of(
    paths: list[str], rows: LabelledTable, files: data.TableFiles, screen: Screen
) -> models.Reviewed:
    """What reviewers said of the table."""
    label, positive = rows.roles.label, rows.roles.positive
    classes = classes_in(rows.labels[label])
    others = [c for c in classes if c != positive]
    if positive is None or len(others) != 1:
        raise TableError(f"the label has {len(classes)} classes: a review needs two")
    meant = label, (others[0], positive)
    return read_reviews(paths, reviewed_cells(files), files.source, meant, screen)[0]


def _refuse_streaming(max_memory: str | None, scheduler: str | None) -> None:
    """An OptionError where a table is to be read in parts, which classifiers do not."""
    given = {"max_memory": max_memory, "scheduler": scheduler}
    for name, value in given.items():
        if value is not None:
            raise OptionError(
                f"--{name.replace('_', '-')} is for tables that are read in parts, and --model "
                f"{opt.LATENT} reads its table whole: leave it out, or take --model FairPC"
            )


def _fit_classifiers(model: models.FittedModel, rows: LabelledTable, screen: Screen) -> None:
    with core.showing_progress(type(model).__name__, shown=screen.shows_progress) as model._say:
        try:
            model.fit(under_types(rows), rows.y, sample_weight=rows.weight)
        finally:
            del model._say


def _equalised(model: models.FittedModel, rows: LabelledTable, in_memory: bool) -> list[float]:
    """Choose a threshold for each group; and how many of each are then above it."""
    own = under_types(rows) if in_memory else rows.X
    scores, groups = model.choose_threshold(own, equalise=True)._scores(own)
    decided = model.threshold_.decide(scores, groups)
    return [float(decided[groups == s].mean()) for s in range(len(model.groups_))]


def estimator(
    learner: opt.ModelOptions,
    roles: opt.ColumnOptions,
    names: data.Names,
    *,
    verbose: bool = False,
) -> models.FittedModel:
    """The model that is asked for, not yet fitted; what it has no use for is refused."""
    kinds: dict[str, Any] = {**models.MODELS, opt.LATENT: models.LatentDecision}
    if learner.model not in kinds:
        raise LearningError(f"there is no model {learner.model!r}: use {', '.join(kinds)}")
    known = set(signature(kinds[learner.model]).parameters)
    latent = learner.model in (*DECIDING, opt.LATENT)
    if learner.given and learner.model not in ("FairPC", opt.LATENT):
        raise OptionError(
            f"--given is for forest circuits and scores: take --model FairPC or {opt.LATENT}, or "
            "leave --given out"
        )
    if not latent:
        known -= {"delta", "mechanism_prior"}
    given = learner.settings(known) | roles.settings | {"verbose": int(verbose)}
    given = {name: value for name, value in given.items() if name in known}
    if learner.classifier not in (None, "hgb"):  # which LatentDecision takes by itself
        how = {name: given[name] for name in ("missing_values", "random_state")}
        given["estimator"] = models.TableClassifier(learner.classifier, **how)
    made: models.FittedModel = kinds[learner.model](**given, names=names or None)
    return made


@contextmanager
def _whole_or_nothing() -> Iterator[None]:
    """A model that was cut short, or could learn nothing, is not a result, and is not written."""
    with warnings.catch_warnings():
        for kind in (core.SameAsLabelWarning, core.InterruptedWarning):
            warnings.simplefilter("error", kind)
        try:
            yield
        except core.SameAsLabelWarning as copied:
            raise TableError(str(copied)) from None
        except core.InterruptedWarning:
            raise KeyboardInterrupt from None
