"""What moved the score of one person, value by value, exactly; and a statement of these reasons.

Each change is the score with all that is known, minus the score with one value marginalised. Values
that go together share their effect, so the changes need not add up. The statement is written with
the notices of adverse action in mind that the Equal Credit Opportunity Act asks of creditors in
the United States (Regulation B, 12 CFR 1002.9), and of use wherever a person is owed reasons.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Final

import numpy as np

from fairpc.auditing import _blocks as blocks, _formats as text
from fairpc.auditing._appendix import DISCLAIMER
from fairpc.auditing._blocks import Document
from fairpc.auditing._documents import Answers, Outline, Pairs, Said
from fairpc.core import AuditError, FairpcError, Record
from fairpc.data import Frame, read_frame
from fairpc.models import Contribution, FittedQueries

MOST: Final = 4
"""Reasons that are put into words: more are not likely to help (comment 9(b)(2)-1)."""
_CHANGES: Final = 2  # digits of a percentage


@dataclass(frozen=True)
class Reason:
    """One known value, and how it moved the score."""

    column: str  #: the feature, or the sensitive columns
    value: str  #: as the model reads it: a level, or a bin
    given: str  #: as it was given
    change: float  #: the score minus the score without this value
    without: float  #: the score without it


@dataclass(frozen=True)
class Reasons(Record):
    """The score of one person, what was decided, and what moved the score."""

    model: str  #: class of the model
    model_hash: str  #: of its circuit
    latent: bool  #: whether the score is of Df; of the recorded label otherwise
    label: str  #: name of the label
    positive: str  #: the class that the score is of
    score: float  #: P(Df = positive | what is known)
    decision: str  #: what ``predict`` says
    #: scores above it are decided positively; None for more than two classes, of which the most
    #: probable is taken
    threshold: float | None
    bounds: tuple[float, float] | None  #: what the labels leave possible; None where not known
    no_bounds: str  #: why there are none; empty where there are
    lowered: tuple[Reason, ...]  #: values that lowered the score, the largest change first
    raised: tuple[Reason, ...]  #: values that raised it, the largest change first
    unmoved: tuple[Reason, ...]  #: values without which the score is the same
    group: Reason | None  #: the sensitive attribute; None where it was not given
    sensitive: tuple[str, ...]  #: names of the sensitive columns
    unknown: tuple[str, ...]  #: features that were not given, which are marginalised
    drift: tuple[str, ...]  #: what the fit check said: Df is not about the label
    date: str  #: when this was computed, UTC
    version: str  #: of fairpc

    @property
    def adverse(self) -> bool:
        """Whether the decision is another than the positive class."""
        return self.decision != self.positive


def reasons(model: FittedQueries, row: Any, *, sensitive_features: Any = None) -> Reasons:
    """What moved the score of the person in a frame with one row; columns may be absent."""
    if not isinstance(model, FittedQueries):
        raise AuditError(
            f"the model is a {type(model).__name__}: reasons need values marginalised, which "
            "FairPC, NLatPC, LatNB and TwoNB can; fit one of these"
        )
    parts = model.explain(row, sensitive_features=sensitive_features)
    coding, frame = model.coding_, read_frame(row)
    row = _completed(row, frame, coding.features.names)
    groups = model._groups(row, sensitive_features)
    proba = model.predict_proba(row, sensitive_features=sensitive_features)
    score = float(proba[0, coding.labels.positive])
    names = coding.groups.column_names
    groups_of = [_reason(part, score, frame, names) for part in parts if part.sensitive]
    moved = [_reason(part, score, frame, names) for part in parts if not part.sensitive]
    known = {part.feature for part in parts if not part.sensitive}
    bounds, no_bounds = _bounds(model, row, sensitive_features)
    return Reasons(
        model=type(model).__name__,
        model_hash=model._fair().fingerprint,
        latent=model._latent,
        label=coding.labels.name,
        positive=str(model.positive_class_),
        score=score,
        decision=str(model.predict(row, sensitive_features=sensitive_features)[0]),
        threshold=_threshold(model, groups),
        bounds=bounds,
        no_bounds=no_bounds,
        lowered=tuple(r for r in moved if r.change < 0),
        raised=tuple(r for r in moved if r.change > 0),
        unmoved=tuple(r for r in moved if r.change == 0),
        group=next(iter(groups_of), None),
        sensitive=names,
        unknown=tuple(name for name in coding.features.names if name not in known),
        drift=model.warnings_,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        version=version("fairpc"),
    )


def _completed(row: Any, frame: Frame, names: tuple[str, ...]) -> Any:
    """A row with empty cells in the columns that are absent."""
    absent = [name for name in names if name not in frame.names]
    if not absent or frame.from_array:
        return row
    import polars as pl

    return frame.to_polars().with_columns(pl.lit(None, pl.String).alias(name) for name in absent)


def _reason(part: Contribution, score: float, frame: Frame, sensitive: tuple[str, ...]) -> Reason:
    name = ", ".join(sensitive) if part.sensitive else part.feature
    given = str(part.value)
    if not part.sensitive and part.feature in frame.names:
        given = str(np.asarray(frame.column(part.feature))[0])
    return Reason(name, str(part.value), given, part.change, score - part.change)


def _threshold(model: FittedQueries, groups: Any) -> float | None:
    if len(model.classes_) != 2:
        return None
    found, known = model.threshold_, groups is not None and groups[0] >= 0
    if found.by_group and not known:
        return found.unknown
    return found.values[int(groups[0]) if found.by_group else 0]


def _bounds(
    model: FittedQueries, row: Any, sensitive_features: Any
) -> tuple[tuple[float, float] | None, str]:
    """The least and the largest score that the labels leave possible, or why they are not known."""
    try:
        (low, high), *_ = model.predict_bounds(row, sensitive_features=sensitive_features)
    except FairpcError as error:
        return None, str(error)
    if np.isnan(low) or np.isnan(high):
        return None, "the labels contradict the assumptions, so that nothing is possible"
    return (float(low), float(high)), ""


def statement_of_reasons(reasons: Reasons, answers: Answers | None = None) -> Document:
    """The reasons of one person's score as a document."""
    known = answers or Answers()
    principal, title = "Principal reasons", "Reasons for the decision"
    if not reasons.adverse:
        principal, title = "What lowered the score", "What moved the score; the decision is"
    said: dict[str, Said] = {
        "warnings": lambda: _warnings(reasons),
        "principal": lambda: _principal(reasons, known.words),
        "all": lambda: _all(reasons, known.words),
        "group": lambda: _group(reasons),
    }
    outline = Outline(known, {"principal": principal}, said, {"score": _score(reasons)})
    model = f"{text.name(reasons.model)} model {text.name(reasons.model_hash)[:19]}"
    return outline.document(
        "statement_of_reasons",
        f"{title} {text.quoted(reasons.decision)}",
        f"One person, {text.name(reasons.date[:10])}; {model}",
        disclaimer=DISCLAIMER,
        version=text.name(reasons.version),
    )


def of_what(reasons: Reasons) -> str:
    """What the score is: the probability that the fair decision is “good”."""
    what = "fair decision" if reasons.latent else "recorded label"
    return f"the probability that the {what} is {text.quoted(reasons.positive)}"


def in_words(reason: Reason, words: Mapping[str, str]) -> str:
    """A column and its value: duration is 48 (read as ≥ 25)."""
    name = words.get(reason.column) or text.short(reason.column)
    return f"{name}: {_value(reason)}"


def _value(reason: Reason) -> str:
    given, read = text.short(reason.given), text.short(reason.value)
    same = given == read
    with suppress(ValueError):
        same = same or float(given) == float(read)
    return given if same else f"{given} (read as {read})"


def _score(reasons: Reasons) -> Pairs:
    """The decision, and the score behind it."""
    pairs: Pairs = [
        ("Decision of the model", text.quoted(reasons.decision)),
        (f"Score, {of_what(reasons)}", text.share(reasons.score, _CHANGES)),
    ]
    if reasons.threshold is not None:
        pairs.append(
            (f"Decided {text.quoted(reasons.positive)} above", text.share(reasons.threshold))
        )
    bounds = f"not known: {reasons.no_bounds}"
    if reasons.bounds is not None:
        bounds = text.span(reasons.bounds)
    if reasons.latent:
        pairs.append(("Possible for all people with this score, sampling error apart", bounds))
    return pairs


def _warnings(reasons: Reasons) -> Iterator[blocks.Block]:
    if not reasons.adverse:
        yield blocks.Notice(
            f"The model decides {text.quoted(reasons.positive)}: there is no adverse decision.",
            ("What lowered the score is listed below all the same.",),
        )
    if reasons.drift:
        yield blocks.Notice("The score must be read with care.", reasons.drift, alert=True)


def _principal(reasons: Reasons, words: Mapping[str, str]) -> Iterator[blocks.Block]:
    if not reasons.lowered:
        yield blocks.Paragraph(
            "No known value lowered the score: without any one of them it would be the same or "
            "lower."
        )
        return
    for reason in reasons.lowered[:MOST]:
        yield blocks.Heading(in_words(reason, words))
        yield blocks.Paragraph(
            f"It lowered the score by {_points(-reason.change)} percentage points: "
            f"without it the score would be {text.share(reason.without, _CHANGES)} instead of "
            f"{text.share(reasons.score, _CHANGES)}."
        )
    if len(reasons.lowered) > MOST:
        yield blocks.Paragraph(
            f"{text.counted(len(reasons.lowered) - MOST, 'more value')} lowered the score by less; "
            "all are below."
        )


def _points(change: float) -> str:
    return text.number(100 * change, _CHANGES)


def _all(found: Reasons, words: Mapping[str, str]) -> Iterator[blocks.Block]:
    both = {"Lowered the score": found.lowered, "Raised the score": found.raised}
    for caption, reasons in both.items():
        if reasons:
            yield _table(caption, reasons, words)
    if found.unmoved:
        names = text.listed([r.column for r in found.unmoved])
        yield blocks.Paragraph(f"Known, without any change: {names}.")
    if found.unknown:
        yield blocks.Paragraph(f"Not known, and marginalised: {text.listed(found.unknown)}.")


def _table(caption: str, reasons: Sequence[Reason], words: Mapping[str, str]) -> blocks.TableBlock:
    rows = []
    for r in reasons:
        change = ("+" if r.change > 0 else "") + _points(r.change)
        name = words.get(r.column) or text.short(r.column)
        rows.append((name, _value(r), change, text.share(r.without, _CHANGES)))
    head = ("Column", "Value", "Change, points", "Score without it")
    return blocks.TableBlock(caption, head, rows, words={1})


def _group(reasons: Reasons) -> Iterator[blocks.Block]:
    names = text.listed(reasons.sensitive)
    if reasons.group is None:
        yield blocks.Paragraph(
            f"{names} was not given, and the score marginalises it. Then mean scores need not be "
            "equal between groups, even under the model."
        )
        return
    yield blocks.Notice(
        f"The score took {names} into account.",
        (
            f"In the group {text.short(reasons.group.value)} it is "
            f"{text.share(reasons.score, _CHANGES)}; if the group were not known it would be "
            f"{text.share(reasons.group.without, _CHANGES)}. The model uses the group so that "
            "the mean score is the same in each.",
            "In credit in the United States, sex, race and other prohibited bases may not be taken "
            "into account, but for narrow exceptions (12 CFR 1002.6(b)). Leave the attribute "
            "out here and in predictions where that holds, and look at the gap that remains.",
        ),
        alert=True,
    )
