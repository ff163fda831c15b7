"""``fairpc inspect``, ``query`` and ``export``: what a model file holds, what it answers, and the
same as a file that does without fairpc."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Final

import fairpc.cli._options as opt
import fairpc.cli._tables as tables
from fairpc import evidence, models
from fairpc.cli._learned import SURE
from fairpc.cli._screen import Screen, grid, print_json, say
from fairpc.core import NotAnsweredError, counted

LISTED_BINS: Final = 6
"""Bins of an answer that are all listed; of more, those that count in part."""
SHOWN: Final = 6
"""Values of a column that are listed on a terminal; JSON has all."""
SEEN: Final = 5e-4
"""By so much a point may leave its range by rounding."""
NO_RANGE: Final = "point only, if the assumptions hold: no range is available"


def inspect(model_file: opt.ModelFile, screen: Screen) -> None:
    """Say what a model file holds: columns, levels, smallest cells, and what they disclose.

    Example: fairpc inspect loans.fairpc
    """
    found = models.disclosure(tables.loaded(model_file, then="nothing else"))
    facts = models.file_facts(model_file)
    if screen.json:
        print_json(facts | found.to_dict())
        return
    say(
        f"{facts['file']}: a {found.model} in {facts['bytes']:,} bytes, {facts['format']}, "
        f"written by {facts['written_by']}",
        "bold",
    )
    say(f"Checksum {facts['checksum']}: the file is as it was written, by whomever\n")
    held = [
        (column.column, column.role, column.kind, _listed(column.kind, column.values))
        for column in found.columns
    ]
    grid(("column", "role", "kind", "values"), held, right=False)
    if found.not_held:
        say(f"Known by name alone: {', '.join(found.not_held)}\n")
    grid(("group", "rows"), [(name, f"{n:,}") for name, n in found.groups.items()])
    for sentence in found.sentences:
        say(f"- {sentence}")


def _listed(kind: str, values: tuple[str, ...]) -> str:
    if kind in ("number", "date"):
        return f"{len(values)} bins, {values[0]} to {values[-1]}" if values else "cuts of trees"
    more = f" and {len(values) - SHOWN} more" if len(values) > SHOWN else ""
    return ", ".join(value or "(empty)" for value in values[:SHOWN]) + more


def query(
    model_file: opt.ModelFile,
    question: Annotated[
        str, opt.argument("QUERY", "'Df=good | age=37, sex=?': what you ask, a bar, what you know.")
    ],
    screen: Screen,
) -> None:
    """Ask a model for an exact probability.

    Df is the fair decision, D the recorded label, S the group; other names are columns. A name
    without a value asks for all its values. Numbers fall into their bins; < <= > >= work at the
    edges of bins. '?' means not known. Put values with commas or bars into quotes.

    Examples: "Df=good | sex=female", "Df | age=37, job=?", "D, Df | S=male"
    """
    asked = models.parse(question)
    model = tables.loaded(model_file, then="QUERY")
    if isinstance(model, models.LatentDecision):
        raise NotAnsweredError(
            f"{model_file} holds a LatentDecision, which has no distribution of the features to "
            "ask: take a model that `fairpc fit --model FairPC` wrote"
        )
    answer = model._words().answer(asked)
    for warning in model.warnings_ if _assumed(answer) else ():
        screen.note(warning)  # of a fit that must not be read as what happened
    if screen.json:
        print_json(_answer_facts(question, asked, answer, model.warnings_))
    elif screen.quiet:
        for (_, probability), range_ in zip(answer.rows, answer.ranges, strict=True):
            print(*map(repr, (probability, *(range_ or ()))))  # noqa: T201 - the result itself
    else:
        _show_answer(asked, answer)


def _answer_facts(
    text: str, query: models.Query, answer: models.Answer, warnings: Sequence[str]
) -> dict[str, Any]:
    names = [term.name for term in query.targets]
    single = all(term.value is not None for term in query.targets)
    return {
        "query": text,
        "probability": answer.rows[0][1] if single else None,
        **_ends(answer.ranges[0] if single else None),
        "rows": [
            dict(zip(names, values, strict=True)) | {"probability": probability} | _ends(range_)
            for (values, probability), range_ in zip(answer.rows, answer.ranges, strict=True)
        ],
        "given_probability": answer.given_probability,
        **{f"given_{name}": end for name, end in _ends(answer.given_range).items()},
        "depends_on_mechanism": _assumed(answer),
        "warnings": list(warnings) if _assumed(answer) else [],
        "level": evidence.LEVEL,
        "read_as": [{"term": str(r.term), "values": list(r.values)} for r in answer.readings],
    }


def _ends(range_: tuple[float, float] | None) -> dict[str, float | None]:
    """Both ends of a range; None where there is none."""
    low, high = models.NOT_KNOWN if range_ is None else range_
    known = low <= high
    return {"lower": low if known else None, "upper": high if known else None}


def _end(end: float | None) -> str:
    return "–" if end is None else f"{end:.6f}"


def _assumed(answer: models.Answer) -> bool:
    """Whether a probability is that of a fair decision, which no table holds."""
    return any(range_ is not None for range_ in (*answer.ranges, answer.given_range))


def _with_range(probability: float, range_: tuple[float, float] | None) -> str:
    """A probability; its range first where it depends on the mechanism."""
    if range_ is None:
        return f"{probability:.6f}"
    low, high = range_
    if not low <= high:
        return f"{probability:.6f} ({NO_RANGE})"
    point = f"point by convention: {probability:.6f}"
    if not low - SEEN <= probability <= high + SEEN:
        point = f"the point, {probability:.6f}, is outside: do not quote it"
    return f"{low:.6f} to {high:.6f} ({SURE}; {point})"


def _show_answer(query: models.Query, answer: models.Answer) -> None:
    unknown = [r.term for r in answer.readings if r.values == (models.UNKNOWN,)]
    known = [str(t) for t in query.given if t.value is not None and t not in unknown]
    condition = f" | {', '.join(known)}" if known else ""
    for reading in answer.readings:
        # Of a long list of bins the whole ones say what the interval says.
        long = len(reading.values) > LISTED_BINS
        values = [v for v in reading.values if not long or v.startswith(models.PART)]
        if values and [reading.term.value] != values:
            more = "whole bins and " if long else ""
            say(f"{reading.term} is read as {more}{', '.join(map(repr, values))}")
    if all(term.value is not None for term in query.targets):
        asked = ", ".join(map(str, query.targets))
        shown = _with_range(answer.rows[0][1], answer.ranges[0])
        say(f"P({asked}{condition}) = {shown}", "bold")
    else:
        names = [term.name for term in query.targets]
        head = (*names, f"P({', '.join(names)}{condition})")
        cells = [(*values, f"{p:.6f}") for values, p in answer.rows]
        if any(range_ is not None for range_ in answer.ranges):
            head = (*head[:-1], f"{head[-1]}, point", "from", "to")
            each = zip(cells, answer.ranges, strict=True)
            cells = [(*own, *(_end(end) for end in _ends(of).values())) for own, of in each]
        grid(head, cells)
        if len(cells[0]) > len(names) + 1:
            known_ends = any(cell[-1] != _end(None) for cell in cells)
            say(f"from, to: {SURE}; points by convention" if known_ends else f"A {NO_RANGE}")
    if known:
        shown = _with_range(answer.given_probability, answer.given_range)
        say(f"P({', '.join(known)}) = {shown}")


def export(
    model_file: opt.ModelFile,
    output: Annotated[str, opt.output("The file to write, NAME.onnx.")],
    *,
    screen: Screen,
) -> None:
    """Write a model as a file of ONNX, which scores rows without fairpc.

    Columns are given as they are in the table, and what is missing is marginalised, exactly.

    Example: fairpc export loans.fairpc -o loans.onnx
    """
    from fairpc import exporting

    exporting.check_suffix(output)
    tables.check_output(output, model_file)
    model = tables.loaded(model_file, then="-o FILE")
    written = exporting.export(model, output)
    if screen.json:
        print_json({"model_file": model_file, **asdict(written)})
    elif screen.prints_text:
        say(
            f"{output} gives P(Df = class | row) for {', '.join(written.classes)}, from "
            f"{counted(len(written.inputs), 'column')}: {', '.join(written.inputs)}."
        )
        say(f"Next, in Python: onnxruntime.InferenceSession({output!r})")
