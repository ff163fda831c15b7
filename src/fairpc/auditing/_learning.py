"""How the model was learned: the course of EM and where it ends from random starts.

Or, of a classifier, how its scores became those of Df.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, cast

import numpy as np

from fairpc.auditing import _blocks as blocks
from fairpc.auditing import _formats as text
from fairpc.auditing._drawing import Plane, Row, Series, curves, estimates, limits
from fairpc.auditing._intervals import refit_cost
from fairpc.auditing._job import Job
from fairpc.auditing._mechanism import MechanismFacts
from fairpc.core import AuditError
from fairpc.learners import Calibration
from fairpc.models import (
    CircuitClassifier,
    LatentDecision,
    SecondRound,
    Stability,
    TableClassifier,
    stability,
)

STARTS: Final = 10
START_UPDATES: Final = 200
START_WORK: Final = 5e11
"""``refit_cost`` × updates that random starts may take unasked: about five seconds of one core."""
_STARTS_TAKE_LONG: Final = (
    "fitting this model again to these rows from random starts takes long: "
    f"audit(…, n_starts={STARTS}) does it anyway, and so does fairpc.stability"
)
_HISTORY_POINTS: Final = 201
_CURVE_POINTS: Final = 51
_LISTED: Final = 12  # iterations in a table
_LINES: Final = 6  # curves in a picture
_DRAWN: Final = 12  # rows of a picture
_SEEN: Final = 5e-4  # a smaller difference of two shares does not show in their digits
_NAMES: Final = {
    "objective": "Objective, prior included",
    "log_likelihood": "Log-likelihood",
    "validation_log_likelihood": "Log-likelihood of validation rows",
}
_KINDS: Final = {
    "hgb": "gradient boosting",
    "logistic": "logistic regression",
    "forest": "a random forest",
}
_CALIBRATED: Final = {
    "isotonic": "calibrated within each group by isotonic regression",
    "sigmoid": "calibrated within each group by a sigmoid",
    None: "taken as calibrated within each group, as the settings say",
}
_POINTS: Final = {
    "between": "Of the rates of Df that they leave open, the middle of those between the groups' "
    "recorded rates was chosen, then the mechanism that alters the fewest labels.",
    "prior": "Of what they leave open, the mechanism that alters the fewest labels was chosen, by "
    "a prior.",
    "middle": "Of what they leave open, the middle was chosen.",
}


@dataclass(frozen=True)
class Learning:
    """How a circuit was learned."""

    n_iter: int  #: updates of EM
    converged: bool  #: whether it stopped by itself
    iterations: tuple[int, ...]  #: those that are listed; thinned where there are many
    #: name -> value per listed iteration: "objective", "log_likelihood", …
    curves: Mapping[str, tuple[float, ...]]
    #: per listed iteration P(D = d | Df = f, S = s), [s, f, d]; empty without Df
    mechanism: tuple[list[list[list[float]]], ...]
    choices: tuple[str, ...]  #: how the structure was chosen, in words

    @property
    def sentences(self) -> tuple[str, ...]:
        """In words, as documents say it."""
        ended = "It stopped by itself" if self.converged else "It was stopped by the limit"
        updates = f"Parameters were learned by {text.counted(self.n_iter, 'update')} of EM."
        return (*self.choices, f"{updates} {ended}.")


def _of_circuit(job: Job) -> Learning:
    """The history of the fit, thinned."""
    model = cast(CircuitClassifier, job.model)
    history = model.history_
    n = len(history["objective"])
    listed = np.unique(np.linspace(0, n - 1, min(n, _HISTORY_POINTS)).round().astype(np.intp))
    curves = {
        name: tuple(values[listed].tolist())
        for name, values in history.items()
        if values.ndim == 1 and len(values) == n
    }
    mechanism = history.get("mechanism", np.empty(0))
    latent = model._latent and len(mechanism) == n
    return Learning(
        n_iter=model.n_iter_,
        converged=bool(model.converged_),
        iterations=tuple(listed.tolist()),
        curves=curves,
        mechanism=tuple(mechanism[listed].tolist()) if latent else (),
        choices=() if model.choices_ is None else model.choices_.sentences,
    )


@dataclass(frozen=True)
class CalibrationCurve:
    """From scores of the classifier to P(D = positive) in one group."""

    group: str
    scores: tuple[float, ...]
    rates: tuple[float, ...]


@dataclass(frozen=True)
class ScoreLearningFacts:
    """How scores of a classifier became those of Df."""

    classifier: str  #: in words
    n_folds: int  #: classifiers, each learned without a fold; their scores are averaged
    per_group: bool  #: whether each group has its own
    calibration: str | None  #: "isotonic", "sigmoid"; None where scores were taken as they are
    select: str  #: the point of the identified set: "between", "prior" or "middle"
    straight: bool  #: whether the point alters hardly any label, so that D = Df was kept
    #: the same for P(S | x), for rows whose group is not known; None where such rows are refused
    group_classifier: str | None
    positive: str  #: the class
    curves: tuple[CalibrationCurve, ...]  #: per group
    sentences: tuple[str, ...]  #: in words


def learning(job: Job) -> Learning | ScoreLearningFacts:
    """What there is to say of the fit."""
    return _of_scores(job.model) if isinstance(job.model, LatentDecision) else _of_circuit(job)


def _of_scores(model: LatentDecision) -> ScoreLearningFacts:
    found, names = model.score_map_, model.coding_.group_names
    curves = tuple(_curve(*each) for each in zip(names, found.calibrations, strict=True))
    groups = model.group_estimators_
    return ScoreLearningFacts(
        classifier=_words(model.estimators_[0][0]),
        n_folds=len(model.estimators_),
        per_group=bool(model.per_group),
        calibration=model.calibration,
        select=model.select,
        straight=found.straight,
        group_classifier=_words(groups[0]) if groups else None,
        positive=str(model.positive_class_),
        curves=curves,
        sentences=_sentences(model),
    )


def _curve(group: str, calibration: Calibration) -> CalibrationCurve:
    """Over the scores of the steps, where there are steps."""
    steps = calibration.scores if len(calibration.rates) else np.array([0.0, 1.0])
    scores = np.linspace(steps[0], steps[-1], _CURVE_POINTS)
    rates = np.clip(calibration(scores), 0.0, 1.0)
    return CalibrationCurve(group, tuple(scores.tolist()), tuple(rates.tolist()))


def _sentences(model: LatentDecision) -> tuple[str, ...]:
    n, own = len(model.estimators_), ", one for each group" if model.per_group else ""
    point = _POINTS[model.select]
    if model.score_map_.straight:
        point += (
            " That point alters hardly any label, so the scores are those of the label, with the "
            "same mean in every group. It is a convention: the ranges of the mechanism say how "
            "many labels may be altered."
        )
    hidden = "Rows whose group is not known are refused."
    if model.group_estimators_:
        hidden = (
            "Where the group is not known, the score is a mean over the groups, weighted by how "
            f"likely {_words(model.group_estimators_[0])} finds each of them from the features."
        )
    source, second = "the same scores", list[str]()
    if model.second_round_ is not None:
        source = "the scores of the label alone"
        second.append(_second_round(model.second_round_))
    return (
        f"The label was learned from features and group by {_words(model.estimators_[0][0])}{own}, "
        f"{text.counted(n, 'time')}, each time without one fold of the rows. Scores are means over "
        "these.",
        *second,
        f"Scores of the rows left out were {_CALIBRATED[model.calibration]}.",
        f"P(Df) and the mechanism come from {source}. {point}",
        hidden,
    )


def _second_round(second_round: SecondRound) -> str:
    """What was learned once the mechanism was known."""
    names = [_words(classifier) for classifier in second_round.estimators[0]]
    shares = " and ".join(
        f"{share:.0%} by {name}" for name, share in zip(names, second_round.shares[1:], strict=True)
    )
    return (
        "Once the mechanism was known, Df was learned behind the labels in the same folds: "
        f"scores are made {second_round.shares[0]:.0%} by the classifiers of the label, {shares} "
        "of Df. Under these shares the labels of the rows left out are likeliest."
    )


def _words(classifier: Any) -> str:
    """What a classifier is."""
    if isinstance(classifier, TableClassifier):
        return _KINDS[classifier.kind]
    steps = getattr(classifier, "steps", None)
    name = type(steps[-1][1] if steps else classifier).__name__
    return f"{name} at the end of a pipeline" if steps else name


def spread_over_starts(job: Job) -> Stability:
    """Where EM ends from random starts, the structure kept, a fifth of the rows held out.

    Up to 10 starts unless told otherwise, as many as are quick.
    """
    model, rows, n_starts = job.model, job.sample, job.settings.n_starts
    if not isinstance(model, CircuitClassifier):
        raise AuditError(
            f"{type(model).__name__} is not learned by EM over X, so it has no random starts: "
            "bounds of its scores come from rows that its classifiers have not seen"
        )
    if not model._latent:
        raise AuditError(f"{type(model).__name__} has no hidden decision, so no random starts")
    if n_starts == 0:
        raise AuditError("random starts were not asked for")
    if not (rows.d >= 0).any():
        raise AuditError("no label is known: the model cannot be fitted again to these rows")
    if n_starts is None:
        n_starts = min(STARTS, int(START_WORK / (refit_cost(model, rows) * START_UPDATES)) - 1)
        if n_starts < 2:
            raise AuditError(_STARTS_TAKE_LONG)
    return stability(
        model,
        rows.table,
        rows.labels,
        sensitive_features=rows.sensitive,
        sample_weight=rows.weights,
        fair_labels=rows.fair_labels,
        clusters=rows.persons,
        n_starts=n_starts,
        n_folds=0,
        n_steps=START_UPDATES,
        random_state=job.settings.random_state,
        callback=job.within("decidable.stability"),
    )


def _learned(_: blocks.Audit, learning: Learning | ScoreLearningFacts) -> str:
    if isinstance(learning, ScoreLearningFacts):
        return f"From scores of {learning.classifier}"
    return f"EM with {text.counted(learning.n_iter, 'update')}"


@blocks.section("learning", "How the model was learned", _learned)
def show_learning(
    audit: blocks.Audit, learning: Learning | ScoreLearningFacts
) -> Iterator[blocks.Block]:
    """The course of EM, or how scores of a classifier became those of Df."""
    yield blocks.Points(learning.sentences)
    if isinstance(learning, ScoreLearningFacts):
        yield _calibration(learning)
    elif len(learning.iterations) > 1:
        names = sorted(learning.curves, key=lambda name: (name != "objective", name))
        finite = [name for name in names if all(map(math.isfinite, learning.curves[name]))]
        figures = [_objective(learning, finite)] if finite else []
        if learning.mechanism and audit.mechanism is not None:
            figures.append(_show_mechanism(audit.mechanism, learning))
        yield blocks.Side(figures)
    else:
        yield blocks.Paragraph("There is only one iteration, so there is no curve.")


def _calibration(learning: ScoreLearningFacts) -> blocks.Figure:
    """P(D = positive) as each group's calibration reads the scores."""
    label = text.short(learning.positive, 20)
    sentence = (
        f"What a score of the classifier for {text.quoted(learning.positive)} was found to mean in "
        "each group, on rows that it had not seen."
    )
    if len(learning.curves) > _LINES:
        sentence += f" The first {_LINES} of {len(learning.curves)} groups are drawn."
    drawn = [Series(one.group, one.scores, one.rates) for one in learning.curves[:_LINES]]
    cells = [
        (one.group, one.scores[i], one.rates[i])
        for one in learning.curves
        for i in _few(one.scores)
    ]
    title, head = "Calibration within groups", ("Group", "Score", f"P(D = {label})")
    numbers = blocks.TableBlock("Rate of the label by score", head, cells, folded=True)
    plane = Plane("score of the classifier", f"P(D = {label})")
    picture = curves(plane, drawn, diagonal="the score as it is")
    return blocks.Figure(title, sentence, picture, numbers)


def _objective(learning: Learning, shown: list[str]) -> blocks.Figure:
    """Each curve from its own first value: what is learned is the difference."""
    steps, names = learning.iterations, [_NAMES.get(name, name) for name in shown]
    known = [learning.curves[name] for name in shown]
    gains = [[value - values[0] for value in values] for values in known]
    sentence = (
        f"Change of each quantity since the start, in nats a row. {names[0]}: "
        f"{text.figures(gains[0][-1])} above the start at the end."
    )
    cells = [
        (text.count(steps[i]), *(text.number(values[i], 5) for values in known))
        for i in _few(steps)
    ]
    caption = "Likelihood and objective, nats a row"
    numbers = blocks.TableBlock(caption, ["Iteration", *names], cells, folded=True)
    x_limits, y_limits = (steps[0], max(steps[-1], 1)), limits([*chain(*gains)])
    what, tick = "nats a row since the start", text.number_tick
    plane = Plane("iteration", what, x_limits, y_limits, x_form=tick, y_form=tick)
    series = [Series(name, steps, values) for name, values in zip(names, gains, strict=True)]
    title, alone = "Objective and likelihood", "Objective over iterations"
    return blocks.Figure(title, sentence, curves(plane, series), numbers, alone)


def _show_mechanism(facts: MechanismFacts, course: Learning) -> blocks.Figure:
    steps, positive = course.iterations, facts.classes.index(facts.positive)
    lines = [
        Series(
            f"{text.short(group, 20)}, Df = {text.short(decision, 20)}",
            steps,
            [step[s][f][positive] for step in course.mechanism],
        )
        for s, group in enumerate(facts.groups)
        for f, decision in enumerate(facts.classes)
    ]
    sentence = (
        f"Probability that a row is labelled {text.quoted(facts.positive)}, by group and latent "
        "decision."
    )
    ends = [cell.probability for cell in facts.cells if cell.label == facts.positive]
    if max(abs(one.y[-1] - end) for one, end in zip(lines, ends, strict=True)) > _SEEN:
        sentence += (
            " The last update is not the end: what the held-out labels leave moved the values to "
            "those in the section on the mechanism."
        )
    if len(lines) > _LINES:
        sentence += f" The first {_LINES} of {len(lines)} are drawn."
    cells = [(text.count(steps[i]), *(text.share(one.y[i]) for one in lines)) for i in _few(steps)]
    head = ["Iteration", *(one.name for one in lines)]
    numbers = blocks.TableBlock("The mechanism over iterations", head, cells, folded=True)
    what = f"P(D = {text.short(facts.positive, 20)} | Df, S)"
    plane = Plane("iteration", what, (steps[0], max(steps[-1], 1)), x_form=text.number_tick)
    title, alone = "The mechanism while it was learned", "Mechanism over iterations"
    return blocks.Figure(title, sentence, curves(plane, lines[:_LINES]), numbers, alone)


def _few(steps: Sequence[float]) -> list[int]:
    """Places of about a dozen of many, the first and the last among them."""
    n = len(steps)
    return sorted({round(k * (n - 1) / (_LISTED - 1)) for k in range(_LISTED)})


def show_stability(audit: blocks.Audit, stability: Stability) -> Iterator[blocks.Block]:
    """What moved when EM started elsewhere."""
    yield blocks.Points(stability.summary().splitlines())
    yield _starts(stability, stability.classes.index(audit.data.positive))
    used, n_all = audit.decidable.stability_rows, audit.data.n_rows
    if used < n_all:
        yield blocks.Paragraph(
            f"Fitted to a random sample of {text.count(used)} of the "
            f"{text.counted(n_all, 'audited row')}.",
            "note",
        )


def _starts(stability: Stability, positive: int) -> blocks.Figure:
    label = text.short(stability.classes[positive], 30)
    rows, cells = [], []
    for s, group in enumerate(stability.groups):
        for f, decision in enumerate(stability.classes):
            again = [stability.model, *stability.starts]
            own, *values = (float(run.mechanism[s, f, positive]) for run in again)
            ends = min(own, *values), max(own, *values)
            name = f"{text.short(group, 20)}, Df = {text.short(decision, 20)}"
            rows.append(Row(name, own, ends, s, note=text.share(own)))
            cells.append((name, *map(text.share, (own, *ends))))
    explained = (
        f"Mark: probability of the label {label} in the model, fitted on to the same rows as the "
        "random starts, so that they compare. Line: from the lowest to the highest value over it "
        f"and {text.counted(len(stability.starts), 'random start')}."
    )
    if len(rows) > _DRAWN:
        explained += f" The first {_DRAWN} of {len(rows)} are drawn."
    title = "The mechanism over random starts"
    head = ("Group and latent decision", "From the model", "Lowest", "Highest")
    numbers = blocks.TableBlock(title, head, cells, folded=len(cells) > _DRAWN)
    picture = estimates(rows[:_DRAWN], text.share_tick, extent=(0.0, 1.0))
    return blocks.Figure(title, explained, picture, numbers)
