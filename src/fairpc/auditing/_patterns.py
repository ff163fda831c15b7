"""Affected subgroups: discrimination patterns of the model, and the rows they are about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from fairpc.auditing import _blocks as blocks, _formats as text
from fairpc.auditing._job import Job
from fairpc.auditing._rows import AuditedRows, taken
from fairpc.core import Record
from fairpc.data import SMALL
from fairpc.models import (
    MIN_SHARE,
    SIZE,
    THRESHOLD,
    CircuitClassifier,
    Outcome,
    Pattern,
    Patterns,
    Question,
    find_patterns,
)

MOST_WORK: Final = 4e9
"""Multiplications that a further feature may take: about half a second of one core."""

_IN_ROWS: Final = {True: "yes", False: "no", None: text.NOTHING}


@dataclass(frozen=True)
class PatternRow(Pattern):
    """A pattern of the model, and the audited rows that it is about."""

    n_rows: int  #: audited rows of the group with these values
    n_alike: int  #: audited rows of any known group with these values
    #: of the first: share labelled positive, or mean score of the decision; None without such rows
    row_rate: float | None
    row_rate_of_all: float | None  #: the same of the second
    #: whether these two differ by more than the threshold, too, in the same direction
    in_rows: bool | None


@dataclass(frozen=True)
class PatternTable(Record):
    """Patterns of one outcome, and why there are no others."""

    of: Outcome  #: "decision" or "label"
    positive: str  #: the class whose probability is compared
    size: int  #: most features of a pattern, besides the group
    threshold: float  #: above which a difference makes a pattern
    min_share: float  #: least P(group, features)
    n_found: int  #: patterns in all
    n_candidates: int  #: groups with values of up to so many features
    n_evaluated: int  #: candidates that were evaluated; the others were ruled out
    #: the largest difference, then of each percentage point the pattern of most people, unless one
    #: of a larger difference is of more
    patterns: tuple[PatternRow, ...]
    account: str  #: what was searched, and why nothing was missed

    _computed = ("sentence",)

    @property
    def sentence(self) -> str:
        """The largest in words."""
        what = f"the {self.of} {self.positive!r}"
        if not self.patterns:
            return (
                f"Under the model, naming the group moves the probability of {what} by no more "
                f"than {text.gap(self.threshold)}, whatever else is known, up to "
                f"{text.counted(self.size, 'feature')}, where at least {self.min_share:.1%} of the "
                "people are concerned."
            )
        first = self.patterns[0]
        people = ", ".join(f"{k} {v!r}" for k, v in {**first.group, **first.features}.items())
        on_rows = ""
        if first.row_rate is not None:
            means = "mean scores" if self.of == "decision" else "shares"
            rates = f"{text.share(first.row_rate)} and {text.share(first.row_rate_of_all)}"
            on_rows = f" In the audited rows the {means} are {rates}."
        return (
            f"Under the model, the largest difference is that of people with {people}: {what} is "
            f"{text.share(first.rate)} probable for them, and {text.share(first.rate_of_all)} for "
            f"all people with the same values, {text.gap(abs(first.difference))} "
            f"{'more' if first.difference > 0 else 'less'}.{on_rows}"
        )


@dataclass(frozen=True)
class PatternFacts:
    """Affected subgroups, under the model."""

    decisions: PatternTable  #: of Df; of D where there is no latent fair decision
    labels: PatternTable | None  #: of D; None where that is the decision
    cautions: tuple[str, ...]  #: what a pattern does not say


def pattern_facts(job: Job) -> PatternFacts:
    """Patterns of decisions and of labels, of groups that 30 of the audited rows would be in."""
    model = job.circuits("a classifier cannot marginalise what a pattern does not name")
    decisions = _table(job, model, "decision")
    labels = _table(job, model, "label") if model._latent else None
    return PatternFacts(decisions, labels, blocks.sentences("patterns"))


def _table(job: Job, model: CircuitClassifier, of: Outcome) -> PatternTable:
    rows = job.rows
    min_share = min(max(MIN_SHARE, SMALL / rows.n_rows), 0.5)
    size = min(SIZE, len(rows.features.names))
    asked = Question(of, rows.positive, size, THRESHOLD, min_share, "pareto", None, MOST_WORK)
    found = find_patterns(model.distribution_, model.coding_, asked)
    each = (_on_rows(rows, found, i) for i in _one_per_point(found))
    named = tuple(replace(row, group=_called(job, row.group)) for row in each)
    return taken(PatternTable, found, positive=rows.positive_class, patterns=named)


def _called(job: Job, group: Mapping[str, str]) -> dict[str, str]:
    """A group with the names that were given to its values."""
    names = {column: (job.given_names or {}).get(column) for column in group}
    known = {column: of for column, of in names.items() if isinstance(of, Mapping)}
    return {column: known.get(column, {}).get(level, level) for column, level in group.items()}


def _one_per_point(patterns: Patterns) -> list[int]:
    """The first pattern, and of those that differ by the same points the one of most people.

    They come with falling difference and growing share; most are the next one with one more value.
    """
    points = [round(100 * abs(pattern.difference)) for pattern in patterns.patterns]
    last_of = {point: i for i, point in enumerate(points)}
    return sorted({*range(len(points))[:1], *last_of.values()})


def _on_rows(rows: AuditedRows, patterns: Patterns, i: int) -> PatternRow:
    """A pattern with the rows that have its values."""
    alike = rows.s >= 0
    for j, v in enumerate(patterns.codes[i].tolist()):
        if v >= 0:
            alike &= rows.x[:, j] == v
    inside = alike & patterns.members[i][rows.s]
    if patterns.of == "label":
        known, values = rows.d >= 0, (rows.d == rows.positive) * 1.0
    else:
        known, values = rows.every, rows.scores[:, rows.positive]
    pattern = patterns.patterns[i]
    rate, of_all = (rows.mean(values, where & known) for where in (inside, alike))
    in_rows = None
    if rate is not None and of_all is not None:
        way = 1.0 if pattern.difference > 0 else -1.0
        in_rows = way * (rate - of_all) > patterns.threshold
    return PatternRow(
        **vars(pattern),
        n_rows=rows.number(inside),
        n_alike=rows.number(alike),
        row_rate=rate,
        row_rate_of_all=of_all,
        in_rows=in_rows,
    )


@blocks.section("patterns", "Affected subgroups")
def show_patterns(audit: blocks.Audit, facts: PatternFacts) -> Iterator[blocks.Block]:
    """Where naming the group moves a probability most."""
    yield blocks.Paragraph(
        "Take people who share some values, say an occupation and a marital status. Then name "
        "their group. By how much does that move what the model expects of them? A large "
        "difference is called a discrimination pattern."
    )
    tables = {"the decision of the model": facts.decisions}
    if facts.labels is not None:
        tables["the recorded label, as the model describes it"] = facts.labels
    for of, part in tables.items():
        yield blocks.Heading(f"In {of}")
        yield blocks.Paragraph(part.sentence)
        if part.patterns:
            yield _pattern_table(of, part)
        yield blocks.Paragraph(f"Nothing was missed. {part.account}", "note")
    yield blocks.Points(facts.cautions)


def _pattern_table(of: str, part: PatternTable) -> blocks.TableBlock:
    head = ["People", "Share", "Model, them", "Model, all alike", "Difference, points"]
    head += ["Rows", "Rows, them", "Rows, all alike", "In the rows"]
    rows = []
    for p in part.patterns:
        of_model = p.share, p.rate, p.rate_of_all, text.points(p.difference)
        of_rows = p.n_rows, p.row_rate, p.row_rate_of_all, _IN_ROWS[p.in_rows]
        rows.append([_people(p), *of_model, *of_rows])
    positive = text.quoted(part.positive)
    few = any(pattern.n_rows < SMALL for pattern in part.patterns)
    on_rows = f"the share labelled {positive}" if part.of == "label" else "mean scores"
    note = (
        f"Model: the probability of {positive} for them and for all people with the same values, "
        f"whatever their group. Rows: {on_rows} of the same, and whether these differ by more than "
        f"{text.number(100 * part.threshold, 0)} points, too, the same way."
    )
    if len(rows) < part.n_found:
        note += (
            f" Shown: {len(rows)} of {part.n_found:,}, of each percentage point the one of most "
            "people."
        )
    if few:
        note += f" Where there are fewer than {SMALL} rows, they say little."
    return blocks.TableBlock(
        f"Patterns in {of}: {positive}", head, rows, words={8}, note=note, longest=400
    )


def _people(pattern: PatternRow) -> str:
    """The group, then the values beside it."""
    parts = []
    for values in filter(None, (pattern.group, pattern.features)):
        named = (f"{text.short(k, 40)}: {text.short(v, 40)}" for k, v in values.items())
        parts.append(", ".join(named))
    return "; ".join(parts)
