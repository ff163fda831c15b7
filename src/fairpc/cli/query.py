"""``fairpc query``: an exact answer to one question about a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairpc.cli.models import loaded
from fairpc.cli.screen import Voice, console, grid, print_json, say
from fairpc.query import Answer, Query, Vocabulary, parse

if TYPE_CHECKING:
    from fairpc.estimators.base import CircuitClassifier


def run(model_file: str, text: str, *, voice: Voice) -> None:
    """Answer a query in words."""
    query = parse(text)
    model = loaded(model_file, then="QUERY")
    answer = vocabulary(model).answer(query)
    if voice.json:
        print_json(_facts(text, query, answer))
    elif voice.quiet:
        for _, probability in answer.rows:
            print(repr(probability))  # noqa: T201 - the result itself
    else:
        _show(query, answer)


def vocabulary(model: CircuitClassifier) -> Vocabulary:
    """The words that a query about a model may use."""
    coding = model.coding_
    return Vocabulary(model.distribution_, coding.features, coding.labels, coding.groups)


def _facts(text: str, query: Query, answer: Answer) -> dict[str, Any]:
    names = [term.name for term in query.targets]
    single = all(term.value is not None for term in query.targets)
    return {
        "query": text,
        "probability": answer.rows[0][1] if single else None,
        "rows": [
            dict(zip(names, values, strict=True)) | {"probability": probability}
            for values, probability in answer.rows
        ],
        "given_probability": answer.given_probability,
        "read_as": [{"term": str(r.term), "values": list(r.values)} for r in answer.readings],
    }


def _show(query: Query, answer: Answer) -> None:
    out = console()
    known = [str(term) for term in query.given if term.value is not None]
    condition = f" | {', '.join(known)}" if known else ""
    for reading in answer.readings:
        if [reading.term.value] != list(reading.values):
            say(f"{reading.term} is read as {', '.join(map(repr, reading.values))}", out)
    if all(term.value is not None for term in query.targets):
        asked = ", ".join(map(str, query.targets))
        say(f"P({asked}{condition}) = {answer.rows[0][1]:.6f}", out, "bold")
    else:
        names = [term.name for term in query.targets]
        head = (*names, f"P({', '.join(names)}{condition})")
        grid(out, head, [(*values, f"{p:.6f}") for values, p in answer.rows])
    if known:
        say(f"P({', '.join(known)}) = {answer.given_probability:.6f}", out)
