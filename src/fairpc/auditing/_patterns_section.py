"""Who is hit: a table of patterns for decisions, one for labels, and what they do not say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from fairpc.auditing import _text as text
from fairpc.auditing import _view as view
from fairpc.auditing._audit import Audit
from fairpc.auditing._patterns import FoundPattern, PatternFacts, PatternTable

_FEW: Final = 30
_IN_ROWS: Final = {True: "yes", False: "no", None: text.NOTHING}


@view.section(
    "patterns",
    "Who is hit: patterns of groups and values",
    lambda _, found: f"{text.counted(found.decisions.n_found, 'pattern')} in the decisions",
)
def patterns(audit: Audit, found: PatternFacts) -> Iterator[view.Block]:
    """Where naming the group moves a probability most."""
    yield view.Paragraph(
        "Take people who share some values, say an occupation and a marital status. Then name "
        "their group. By how much does that move what the model expects of them? A large "
        "difference is called a discrimination pattern.",
        "lead",
    )
    tables = {"the decision of the model": found.decisions}
    if found.labels is not None:
        tables["the recorded label, as the model describes it"] = found.labels
    for of, part in tables.items():
        yield view.Heading(f"In {of}")
        yield view.Paragraph(part.sentence)
        if part.patterns:
            yield _table(of, part)
        yield view.Paragraph(f"Nothing was missed. {part.account}", "note")
    yield view.Heading("How to read this")
    yield view.Points(found.cautions)


def _table(of: str, part: PatternTable) -> view.Table:
    head = ["People", "Share", "Model, them", "Model, all alike", "Difference, points"]
    head += ["Rows", "Rows, them", "Rows, all alike", "In the rows"]
    rows = []
    for pattern in part.patterns:
        shares = pattern.share, pattern.rate, pattern.rate_of_all
        of_rows = pattern.row_rate, pattern.row_rate_of_all
        rows.append(
            [
                _people(pattern),
                *map(text.share, shares),
                text.points(pattern.difference),
                text.count(pattern.n_rows),
                *map(text.share, of_rows),
                _IN_ROWS[pattern.in_rows],
            ]
        )
    positive = text.quoted(part.positive)
    few = any(pattern.n_rows < _FEW for pattern in part.patterns)
    on_rows = f"the share labelled {positive}" if part.of == "label" else "mean scores"
    note = (
        f"Model: the share of all people, and the probability of {positive} for them and for all "
        "people with the same values, whatever their group. Rows: how many of the audited rows "
        f"they are, {on_rows} of them and of all rows with the same values, and whether these "
        f"differ by more than {text.number(100 * part.threshold, 0)} points, too, the same way. "
        "After the first line, of patterns within one percentage point the one of most people is "
        "shown, unless a larger difference concerns more."
    )
    if few:
        note += f" Where there are fewer than {_FEW} rows, they say little."
    return view.Table(f"Patterns in {of}: {positive}", head, rows, words={8}, note=note)


def _people(pattern: FoundPattern) -> str:
    """The group, then the values beside it."""
    named = _words(pattern.group)
    return f"{named}; {_words(pattern.features)}" if pattern.features else named


def _words(values: Mapping[str, str]) -> str:
    return ", ".join(
        f"{text.short(name, 40)}: {text.short(value, 40)}" for name, value in values.items()
    )
