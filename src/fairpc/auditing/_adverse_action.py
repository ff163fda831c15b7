"""Reasons for one person: what lowered the score most, in words, with the exact change.

Written with the notices of adverse action in mind that the Equal Credit Opportunity Act asks of
creditors in the United States (Regulation B, 12 CFR 1002.9), and of use wherever a person is owed
reasons.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from fairpc.auditing import _text as text
from fairpc.auditing import _view as view
from fairpc.auditing._answers import Answers
from fairpc.auditing._document import Document, Entries, section
from fairpc.auditing._reasons import Reason, Reasons
from fairpc.auditing._verdict import DISCLAIMER

MOST: Final = 4
"""Reasons that are put into words: more are not likely to help (comment 9(b)(2)-1)."""
_CHANGES: Final = 2  # digits of a percentage

_IS_NOT: Final = (
    "It is not a notice of adverse action. The creditor adds what the law asks for, and answers "
    "for it.",
    "It does not say why a decision is right, or what would change it. A reason is a value that "
    "lowered the score: without it, and with all else as it is, the score would be higher.",
    "It is not legal advice. See 15 U.S.C. 1691(d) and 12 CFR 1002.9 with its official "
    "interpretation; check the text in force.",
)
_CAUTIONS: Final = (
    "Each change is exact under the model: the score with all that is known, minus the score when "
    "this one value is not known. It is not what another value would give.",
    "Values that go together share their effect. Each may change little although together they "
    "matter, and the changes do not add up to the score.",
    "The official interpretation of Regulation B names other ways to choose reasons, by comparison "
    "with other applicants, and allows methods with substantially similar results. Whether this "
    "is one is for the creditor to show.",
    "The reasons must be those of the decision. If people, rules or other scores took part in it, "
    "theirs belong here, too.",
    "A feature may stand for a sensitive attribute. That it is named as a reason does not show "
    "that it may be used.",
)


def statement_of_reasons(found: Reasons, answers: Answers | None = None) -> Document:
    """The reasons of one person's score as a document."""
    known = Answers() if answers is None else answers
    return Document(
        kind="Statement of reasons",
        title=f"Reasons for the decision {text.quoted(found.decision)}",
        subtitle=f"One person, {text.name(found.date[:10])}; {text.name(found.model)} model "
        f"{text.name(found.model_hash)[:19]}",
        disclaimer=DISCLAIMER,
        is_not=_IS_NOT,
        sections=(
            section("decision", "The decision", *_decision(found, known)),
            section("reasons", "Principal reasons", *_principal(found, known.words)),
            section("all", "All values, and what each changed", *_all(found, known.words)),
            section("group", "The sensitive attribute", *_group(found)),
            section("cautions", "Cautions", view.Points(_CAUTIONS)),
        ),
        version=text.name(found.version),
    )


def of_what(found: Reasons) -> str:
    """What the score is the probability of: P(Df = good)."""
    return f"P({'Df' if found.latent else 'D'} = {text.short(found.positive, 40)})"


def in_words(reason: Reason, words: Mapping[str, str]) -> str:
    """A column and its value: duration is 48 (read as ≥ 25)."""
    name = words.get(reason.column) or text.short(reason.column)
    return f"{name}: {_value(reason)}"


def _value(reason: Reason) -> str:
    given, read = text.short(reason.given), text.short(reason.value)
    return given if given == read or _equal(given, read) else f"{given} (read as {read})"


def _equal(given: str, read: str) -> bool:
    """Whether two texts are the same number."""
    try:
        return float(given) == float(read)
    except ValueError:
        return False


def _decision(found: Reasons, known: Answers) -> Iterator[view.Block]:
    pairs = [
        ("Creditor", known["notice.creditor"]),
        ("Applicant", known["notice.applicant"]),
        ("Action taken, and its date", known["notice.action"]),
        ("Supervising agency", known["notice.agency"]),
        ("Decision of the model", text.quoted(found.decision)),
        (f"Score, {of_what(found)}", text.share(found.score, _CHANGES)),
    ]
    if found.threshold is not None:
        pairs.append((f"Decided {text.quoted(found.positive)} above", text.share(found.threshold)))
    bounds = f"not known: {found.no_bounds}"
    if found.bounds is not None:
        bounds = text.span(found.bounds)
    if found.latent:
        pairs.append(("What the labels leave possible", bounds))
    yield Entries("Score and decision", pairs)
    if not found.adverse:
        yield view.Notice(
            f"The model decides {text.quoted(found.positive)}: there is no adverse decision.",
            ("What lowered the score is listed below all the same.",),
        )
    if found.drift:
        yield view.Notice("The score must be read with care.", found.drift, alert=True)


def _principal(found: Reasons, words: Mapping[str, str]) -> Iterator[view.Block]:
    if not found.lowered:
        yield view.Paragraph(
            "No known value lowered the score: without any one of them it would be the same or "
            "lower."
        )
        return
    score = of_what(found)
    for reason in found.lowered[:MOST]:
        yield view.Heading(in_words(reason, words))
        yield view.Paragraph(
            f"It lowered the score, {score}, by {_points(-reason.change)} percentage points: "
            f"without it the score would be {text.share(reason.without, _CHANGES)} instead of "
            f"{text.share(found.score, _CHANGES)}."
        )
    if len(found.lowered) > MOST:
        yield view.Paragraph(
            f"{text.counted(len(found.lowered) - MOST, 'more value')} lowered the score by less; "
            "all are below."
        )


def _points(change: float) -> str:
    return text.number(100 * change, _CHANGES)


def _signed(change: float) -> str:
    return ("+" if change > 0 else "") + _points(change)


def _all(found: Reasons, words: Mapping[str, str]) -> Iterator[view.Block]:
    for caption, reasons in (
        ("Lowered the score", found.lowered),
        ("Raised the score", found.raised),
    ):
        if reasons:
            yield _table(caption, reasons, words)
    if found.unmoved:
        names = text.listed([r.column for r in found.unmoved])
        yield view.Paragraph(f"Known, without any change: {names}.")
    if found.unknown:
        yield view.Paragraph(f"Not known, and summed out: {text.listed(found.unknown)}.")


def _table(caption: str, reasons: Sequence[Reason], words: Mapping[str, str]) -> view.Table:
    rows = [
        (
            words.get(r.column) or text.short(r.column),
            _value(r),
            _signed(r.change),
            text.share(r.without, _CHANGES),
        )
        for r in reasons
    ]
    head = ("Column", "Value", "Change, points", "Score without it")
    return view.Table(caption, head, rows, words={1})


def _group(found: Reasons) -> Iterator[view.Block]:
    names = text.listed(found.sensitive)
    if found.group is None:
        yield view.Paragraph(
            f"{names} was not given, and the score sums it out. Then mean scores need not be "
            "equal between groups, even under the model."
        )
        return
    yield view.Notice(
        f"The score took {names} into account.",
        (
            f"In the group {text.short(found.group.value)} it is "
            f"{text.share(found.score, _CHANGES)}; if the group were not known it would be "
            f"{text.share(found.group.without, _CHANGES)}. The model uses the group so that "
            "the mean score is the same in each.",
            "In credit, sex, race and other prohibited bases may not be taken into account, but "
            "for narrow exceptions (12 CFR 1002.6(b)). Leave the attribute out here and in "
            "predictions where that holds, and look at the gap that remains.",
        ),
        alert=True,
    )
