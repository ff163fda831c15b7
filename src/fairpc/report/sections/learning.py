"""Learning curves: the objective and the mechanism, iteration by iteration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fairpc.report import text
from fairpc.report.drawing.curves import Plane, Series, around, curves
from fairpc.report.sections.absent import Facts
from fairpc.report.view import Block, Figure, Paragraph, Points, Section, Side, Table

TITLE = "Learning curves"

_NAMES: Final = {
    "objective": "Objective, prior included",
    "log_likelihood": "Log-likelihood",
    "validation_log_likelihood": "Log-likelihood of validation rows",
}
_LISTED: Final = 12
_LINES: Final = 6


def learning(facts: Facts) -> Section:
    """The course of the fit."""
    found = facts["learning"]
    ended = "and stopped by itself" if found["converged"] else "and was stopped at its limit"
    blocks: list[Block] = [Paragraph(f"EM made {text.counted(found['n_iter'], 'update')} {ended}.")]
    if found["choices"]:
        blocks.append(Paragraph("How the structure was chosen:"))
        blocks.append(Points(tuple(found["choices"])))
    if len(found["iterations"]) > 1:
        blocks.append(Side(tuple(_figures(facts, found))))
    else:
        blocks.append(Paragraph("There is one iteration only, hence no curve."))
    return Section("learning", TITLE, tuple(blocks))


def _figures(facts: Facts, found: Facts) -> Iterator[Figure]:
    steps = found["iterations"]
    names = sorted(found["curves"], key=lambda name: (name != "objective", name))
    known = {
        name: list(found["curves"][name])
        for name in names
        if all(value is not None for value in found["curves"][name])
    }
    if known:
        yield _objective(steps, known)
    if found["mechanism"] and facts["mechanism"] is not None:
        yield _mechanism(facts, steps, found["mechanism"])


def _objective(steps: list[int], known: dict[str, list[float]]) -> Figure:
    """Each curve from its own first value: what is learned is the difference."""
    gains = {name: [v - values[0] for v in values] for name, values in known.items()}
    name, first = next(iter(gains.items()))
    sentence = (
        f"Change of each quantity since the start, in nats a row. {_NAMES.get(name, name)}: "
        f"{text.figures(first[-1])} above the start at the end."
    )
    listed = _few(steps)
    head = ["Iteration", *(_NAMES.get(name, name) for name in known)]
    cells = [
        (text.count(steps[i]), *(text.number(values[i], 5) for values in known.values()))
        for i in listed
    ]
    numbers = Table.of("Likelihood and objective, nats a row", head, cells, folded=True)
    plane = Plane(
        "iteration", "nats a row since the start", (steps[0], max(steps[-1], 1)),
        around([v for values in gains.values() for v in values]), text.number_tick,
        text.number_tick,
    )  # fmt: skip
    series = [Series(_NAMES.get(name, name), steps, values) for name, values in gains.items()]
    svg = curves("Objective over iterations", sentence, plane, series)
    return Figure("Objective and likelihood", sentence, svg, numbers)


def _mechanism(facts: Facts, steps: list[int], course: list[list[list[list[float]]]]) -> Figure:
    found = facts["mechanism"]
    positive = found["classes"].index(found["positive"])
    label = text.short(found["positive"], 20)
    lines = [
        Series(
            f"{text.short(group, 20)}, Df = {text.short(decision, 20)}",
            steps,
            [float(step[s][f][positive]) for step in course],
        )
        for s, group in enumerate(found["groups"])
        for f, decision in enumerate(found["classes"])
    ]
    sentence = (
        f"Probability that a row is labelled {text.quoted(found['positive'])}, by group and latent "
        "decision."
    )
    if len(lines) > _LINES:
        sentence += f" The first {_LINES} of {len(lines)} are drawn."
    cells = [(text.count(steps[i]), *(text.share(one.y[i]) for one in lines)) for i in _few(steps)]
    head = ["Iteration", *(one.name for one in lines)]
    numbers = Table.of("The mechanism over iterations", head, cells, folded=True)
    plane = Plane("iteration", f"P(D = {label} | Df, S)", (steps[0], max(steps[-1], 1)), (0.0, 1.0),
                  text.number_tick)  # fmt: skip
    svg = curves("Mechanism over iterations", sentence, plane, lines[:_LINES])
    return Figure("The mechanism while it was learned", sentence, svg, numbers)


def _few(steps: list[int]) -> list[int]:
    """Places of about a dozen iterations, the first and the last among them."""
    n = len(steps)
    return sorted({round(k * (n - 1) / (_LISTED - 1)) for k in range(_LISTED)})
