"""What lies behind the numbers: how the model was learned, its circuit, its limits, provenance.

The circuit also travels with the page, so that the browser can answer questions with it.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final
from xml.etree import ElementTree as ET

import numpy as np
from markupsafe import Markup

from fairpc.auditing import _background as facts
from fairpc.auditing import _text as text
from fairpc.auditing import _view as view
from fairpc.auditing._audit import Audit
from fairpc.auditing._drawing import Plane, Series, curves
from fairpc.auditing._learning import Learning, ScoreLearning
from fairpc.auditing._mechanism import MechanismFacts
from fairpc.auditing._svg import element, limits
from fairpc.core import Array

_NAMES: Final = {
    "objective": "Objective, prior included",
    "log_likelihood": "Log-likelihood",
    "validation_log_likelihood": "Log-likelihood of validation rows",
}
_FROM_SCORES: Final = "LatentDecision"
_LISTED: Final = 12
_LINES: Final = 6

_TAGS: Final = {"svg", "g", "polygon", "ellipse", "path", "text"}
_PLACES: Final = {"width", "height", "viewBox", "x", "y", "cx", "cy", "rx", "ry", "d", "points"}
_STYLES: Final = {"fill", "stroke", "stroke-dasharray", "text-anchor", "font-family", "font-size"}
_ATTRIBUTES: Final = {"transform"} | _PLACES | _STYLES

INDICATOR: Final = 0
SUM: Final = 2
_UNSIGNED: Final = (("u1", 1 << 8), ("u2", 1 << 16), ("u4", 1 << 32))


def _learned(_: Audit, found: Learning | ScoreLearning) -> str:
    if isinstance(found, ScoreLearning):
        return f"From scores of {found.classifier}"
    return f"EM with {text.counted(found.n_iter, 'update')}"


@view.section("learning", "How the model was learned", _learned)
def learning(audit: Audit, found: Learning | ScoreLearning) -> Iterator[view.Block]:
    """The course of EM, or how scores of a classifier became those of Df."""
    if isinstance(found, ScoreLearning):
        yield view.Points(found.sentences)
        yield _calibration(found)
        return
    ended = "and stopped by itself" if found.converged else "and was stopped at its limit"
    yield view.Paragraph(f"EM made {text.counted(found.n_iter, 'update')} {ended}.")
    if found.choices:
        yield view.Paragraph("How the structure was chosen:")
        yield view.Points(found.choices)
    if len(found.iterations) > 1:
        names = sorted(found.curves, key=lambda name: (name != "objective", name))
        finite = [name for name in names if all(map(math.isfinite, found.curves[name]))]
        figures = [_objective(found, finite)] if finite else []
        if found.mechanism and audit.mechanism is not None:
            figures.append(_mechanism(audit.mechanism, found))
        yield view.Side(figures)
    else:
        yield view.Paragraph("There is only one iteration, so there is no curve.")


def _calibration(found: ScoreLearning) -> view.Figure:
    """P(D = positive) as each group's calibration reads the scores."""
    label = text.short(found.positive, 20)
    sentence = (
        f"What a score of the classifier for {text.quoted(found.positive)} was found to mean in "
        "each group, on rows that it had not seen."
    )
    if len(found.curves) > _LINES:
        sentence += f" The first {_LINES} of {len(found.curves)} groups are drawn."
    drawn = [Series(one.group, one.scores, one.rates) for one in found.curves[:_LINES]]
    cells = [
        (text.short(one.group), text.share(one.scores[i]), text.share(one.rates[i]))
        for one in found.curves
        for i in _few(one.scores)
    ]
    title, head = "Calibration within groups", ("Group", "Score", f"P(D = {label})")
    numbers = view.Table("Rate of the label by score", head, cells, folded=True)
    plane = Plane("score of the classifier", f"P(D = {label})")
    picture = curves(plane, drawn, diagonal="the score as it is")
    return view.Figure(title, sentence, picture, numbers)


def _objective(found: Learning, shown: list[str]) -> view.Figure:
    """Each curve from its own first value: what is learned is the difference."""
    steps, names = found.iterations, [_NAMES.get(name, name) for name in shown]
    known = [found.curves[name] for name in shown]
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
    numbers = view.Table(caption, ["Iteration", *names], cells, folded=True)
    x_ends, y_ends = (steps[0], max(steps[-1], 1)), limits([*chain(*gains)])
    what, tick = "nats a row since the start", text.number_tick
    plane = Plane("iteration", what, x_ends, y_ends, x_form=tick, y_form=tick)
    series = [Series(name, steps, values) for name, values in zip(names, gains, strict=True)]
    title, alone = "Objective and likelihood", "Objective over iterations"
    return view.Figure(title, sentence, curves(plane, series), numbers, alone)


def _mechanism(found: MechanismFacts, course: Learning) -> view.Figure:
    steps, positive = course.iterations, found.classes.index(found.positive)
    lines = [
        Series(
            f"{text.short(group, 20)}, Df = {text.short(decision, 20)}",
            steps,
            [step[s][f][positive] for step in course.mechanism],
        )
        for s, group in enumerate(found.groups)
        for f, decision in enumerate(found.classes)
    ]
    sentence = (
        f"Probability that a row is labelled {text.quoted(found.positive)}, by group and latent "
        "decision."
    )
    if len(lines) > _LINES:
        sentence += f" The first {_LINES} of {len(lines)} are drawn."
    cells = [(text.count(steps[i]), *(text.share(one.y[i]) for one in lines)) for i in _few(steps)]
    head = ["Iteration", *(one.name for one in lines)]
    numbers = view.Table("The mechanism over iterations", head, cells, folded=True)
    what = f"P(D = {text.short(found.positive, 20)} | Df, S)"
    plane = Plane("iteration", what, (steps[0], max(steps[-1], 1)), x_form=text.number_tick)
    title, alone = "The mechanism while it was learned", "Mechanism over iterations"
    return view.Figure(title, sentence, curves(plane, lines[:_LINES]), numbers, alone)


def _few(steps: Sequence[float]) -> list[int]:
    """Places of about a dozen of many, the first and the last among them."""
    n = len(steps)
    return sorted({round(k * (n - 1) / (_LISTED - 1)) for k in range(_LISTED)})


@view.section("circuit", "The circuit", lambda _, found: text.counted(found.n_nodes, "node"))
def circuit(_: Audit, found: facts.CircuitFacts) -> Iterator[view.Block]:
    """What the model is made of."""
    yield view.Paragraph(
        f"The model is a {text.name(found.model)}: one circuit of sums and products over "
        f"{text.counted(len(found.variables), 'variable')}. Every probability in this "
        "report that holds under the model is an exact evaluation of it."
    )
    names = ("Nodes", "Edges", "Parameters", "Depth", "Components per cell")
    sizes = (found.n_nodes, found.n_edges, found.n_parameters, found.depth, found.n_components)
    yield view.KeyNumbers([*zip(names, map(text.count, sizes), strict=True)])
    note = "The circuit is not drawn: with Graphviz installed, the next audit draws it."
    if found.svg:
        drawn = ET.fromstring(text.visible(found.svg))  # noqa: S314 - drawn by Graphviz
        yield view.Drawing("Drawing of the circuit, root on top", _copied(drawn))
        note = "Sums are marked +, products ×. Only the top of a large circuit is drawn."
    yield view.Paragraph(note, "note")
    yield view.Plain(found.summary)


def _copied(part: ET.Element) -> Markup:
    """A drawing with known shapes and attributes only."""
    tag = part.tag.rpartition("}")[2]
    if tag not in _TAGS:
        return Markup("")
    kept = {name: value for name, value in part.attrib.items() if name in _ATTRIBUTES}
    inside = [part.text.strip()] if part.text and part.text.strip() else []
    return element(tag, *inside, *map(_copied, part), **kept)


@view.section(
    "limits", "Assumptions and limits", lambda *_: "What is assumed, what follows, what does not"
)
def limits_of(_: Audit, found: facts.Limits) -> Iterator[view.Block]:
    """What is assumed, what follows, what does not."""
    for title, sentences in (
        ("What the model assumes", found.assumptions),
        ("What then holds exactly", found.guaranteed),
        ("What does not follow", found.limits),
    ):
        if sentences:
            yield view.Heading(title)
            yield view.Points(sentences)


@view.section("provenance", "Provenance", lambda *_: "Hashes, versions, settings, date")
def provenance(audit: Audit, found: facts.Provenance) -> Iterator[view.Block]:
    """What would be needed to do the audit again: hashes, versions, settings, date."""
    hashes = "The hashes identify the model and the rows; equal hashes mean equal content."
    yield view.Paragraph(hashes)
    learned = "Map of scores" if found.model == _FROM_SCORES else "Circuit and parameters"
    identity = {
        "Model": found.model,
        learned: found.model_hash,
        "Training rows, encoded": found.training_hash,
        "Audited rows, encoded": found.audited_hash,
        "Date": found.date,
        "Platform": found.platform,
    }
    yield _pairs("Identity", identity)
    yield _pairs("Versions", found.versions)
    yield _pairs("Settings of the model", found.settings, folded=True)
    yield _pairs("Settings of the audit", found.audit_settings, folded=True)
    times = {name: f"{value:,.1f} s" for name, value in found.seconds.items()}
    yield _pairs("Time of each part", times, folded=True)


def _pairs(caption: str, values: Mapping[str, Any], *, folded: bool = False) -> view.Table:
    def shown(value: Any) -> str:
        return text.name(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))

    cells = [(name, shown(value)) for name, value in values.items()]
    return view.Table(caption, ("What", "Value"), cells, words={1}, folded=folded)


@view.section(
    "what_if", "What if: ask the model", lambda *_: "Set what is known of a person; exact answers"
)
def what_if(audit: Audit, found: facts.WhatIf) -> Iterator[view.Block]:
    """A form with every feature and the group; anything may stay unknown."""
    yield view.Paragraph(
        "Set what is known about a person and leave the rest unknown. The page evaluates the "
        "circuit here, exactly; nothing leaves this file.",
        "lead",
    )
    yield view.Paragraph(
        "The answers are those of the model, with its assumptions and its errors. A value "
        "that changes a probability here need not change anything in a person's life."
    )
    yield view.WhatIf(
        [
            (v.column, _name(v, audit), [*map(text.short, v.values)], _field(v))
            for v in _asked(found)
        ]
    )


def _field(variable: facts.Variable) -> str:
    """The kind of field into which a number or a date is written; none for other values."""
    return variable.kind if variable.edges and variable.kind is not None else ""


def questions(audit: Audit) -> dict[str, Any] | None:
    """The circuit and the names, as the script of the page reads them."""
    found = audit.what_if
    if found is None:
        return None
    columns = {v.role: v for v in found.variables if v.role != "feature"}
    return {
        "circuit": packed_circuit(found.circuit),
        "roles": {
            "group": columns["group"].column,
            "decision": found.decision,
            "observed": columns["label"].column,
            "positive": found.positive,
        },
        "classes": [text.short(value, 40) for value in columns["label"].values],
        "decisionName": "P(Df | known)" if "decision" in columns else "P(D | known)",
        "observedName": "P(D | known)",
        "variables": [
            {
                "column": v.column,
                "name": _name(v, audit),
                "values": [text.short(value, 60) for value in v.values],
                "edges": list(v.edges),
            }
            for v in _asked(found)
        ],
    }


def _asked(found: facts.WhatIf) -> list[facts.Variable]:
    """The group, then the features."""
    return [v for role in ("group", "feature") for v in found.variables if v.role == role]


def _name(variable: facts.Variable, audit: Audit) -> str:
    if variable.role == "group":
        return f"{text.listed(audit.data.sensitive)} (group)"
    return text.short(variable.name, 60)


def packed_circuit(circuit: Mapping[str, Any]) -> dict[str, Any]:
    """A circuit as text that a browser turns into typed arrays without losing a digit.

    Each array is its type and the base64 of its bytes. What follows from the kind of a node is
    left out: indicators have a variable and a value, other nodes a number of children, sums the
    place of their first weight.
    """
    nodes = {name: np.asarray(values) for name, values in circuit["nodes"].items()}
    kind = nodes["kind"]
    counts = np.diff(nodes["child_ptr"])
    blocks = nodes["block"][kind == SUM]
    return {
        "arities": list(circuit["variables"]["arities"]),
        "kind": whole_numbers(kind),
        "variable": whole_numbers(nodes["variable"][kind == INDICATOR]),
        "value": whole_numbers(nodes["value"][kind == INDICATOR]),
        "n_children": whole_numbers(counts[kind != INDICATOR]),
        "child": whole_numbers(nodes["child"]),
        "start": whole_numbers(nodes["block_ptr"][blocks]),
        "theta": _packed("f8", np.asarray(circuit["parameters"])),
    }


def whole_numbers(values: Array) -> str:
    """Whole numbers from 0 in the narrowest type that holds the largest."""
    largest = int(values.max(initial=0))
    return _packed(next(name for name, limit in _UNSIGNED if largest < limit), values)


def _packed(name: str, values: Array) -> str:
    little_endian = values.astype(f"<{name}")
    return f"{name}:{base64.b64encode(little_endian.tobytes()).decode('ascii')}"
