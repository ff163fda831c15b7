"""Parity within strata: what is claimed, tested and learned there; what a rejection hangs on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fairpc.auditing import _strata as facts
from fairpc.auditing import _text as text
from fairpc.auditing import _view as view
from fairpc.auditing._audit import Audit
from fairpc.auditing._decidable_section import possible
from fairpc.auditing._drawing import Area, Mark, Plane, Point, Row, areas, estimates

_DRAWN: Final = 12
_LONG: Final = 16
_OUTCOME: Final = {True: "contradicted", False: "not contradicted", None: "not tested"}
_REMOVES: Final = {True: "no", False: "yes", None: "not tested"}

_NONE: Final = (
    f"{text.NOTHING}: nothing fits exactly, or it is not known; the test says whether chance "
    "explains that."
)


def _gist(_: Audit, found: facts.StrataFacts) -> str:
    if found.own is not None:
        return f"{len(found.own.strata)} strata of {text.listed(found.own.columns)}"
    return "Which columns would remove the rejection"


@view.section("strata", "Within strata", _gist)
def strata(audit: Audit, found: facts.StrataFacts) -> Iterator[view.Block]:
    """What holds within strata of the model, and which columns a rejection hangs on."""
    if found.own is not None:
        yield from _own(audit, found.own)
    if found.candidates is not None:
        yield view.Heading("Which columns would remove the rejection?")
        yield from _candidates(found.candidates)
    elif found.own is not None and "strata.candidates" in audit.left_out:
        yield view.absent(audit, "strata.candidates")


def _own(audit: Audit, own: facts.OwnStrata) -> Iterator[view.Block]:
    columns = " × ".join(text.short(name, 40) for name in own.columns)
    bent = "In all strata of a group labels are bent alike."
    if own.mechanism == "within":
        bent = "In each stratum labels may be bent in their own way."
    yield view.Paragraph(
        f"This model lets the fair decision depend on {columns}. People with the same value are a "
        "stratum. Within a stratum the fair decision has the same rate in every group, by "
        "construction. In the whole table the rates of the groups may differ, because the groups "
        f"are spread differently over the strata. {bent}",
        "lead",
    )
    yield view.Notice("These strata must be argued for.", (own.argued,))
    yield view.KeyNumbers(_key_numbers(own))
    yield view.Points([own.sentences[0], *_tested(own), *own.sentences[1:]])
    if own.labels:
        yield _parts(own)
    yield _rates(audit, own)
    yield _groups(own)
    if own.subgroups:
        yield _subgroups(audit, own)
    if own.joint is not None:
        yield _joint(own, own.joint)


def _key_numbers(own: facts.OwnStrata) -> list[tuple[str, str]]:
    within = None if own.test is None else own.test.rejected
    return [
        ("Strata", str(len(own.strata))),
        ("Parity in the whole table", _OUTCOME[own.plain_rejected]),
        ("Parity within strata", _OUTCOME[within]),
    ]


def _tested(own: facts.OwnStrata) -> Iterator[str]:
    test = own.test
    if test is None:
        yield f"Within strata the assumptions were not tested. {view.sentence(own.untested)}"
        return
    if test.rejected:
        yield (
            "Within strata, these rows contradict a fair decision that is independent of the group "
            f"(p {test.p_words}): {test.outcome}."
        )
    else:
        yield (
            "Within strata, these rows do not contradict a fair decision that is independent of "
            f"the group (p {test.p_words}). That does not show that there is one: some violations "
            "cannot be seen however many rows there are."
        )
    if test.untested:
        yield f"Too few rows of some group to inform the test: {text.listed(test.untested)}."
    if own.n_unknown:
        yield f"Left out: {text.counted(own.n_unknown, 'row')} whose stratum is not known."


def _parts(own: facts.OwnStrata) -> view.Figure:
    """Mix and within, for labels and for scores of every pair of groups."""
    rows, cells = [], []
    for of, parts in (("labels", own.labels), ("scores", own.scores)):
        for one in parts:
            pair = f"{text.short(one.last, 20)} − {text.short(one.first, 20)}"
            for name, value, ends in (
                ("mix of strata", one.mix, one.mix_interval),
                ("within strata", one.within, one.within_interval),
            ):
                shown = text.points(value)
                rows.append(Row(f"{of}, {name}: {pair}", value, ends, int(of == "scores"), shown))
            middle = (
                text.bracketed(value, ends, text.points)
                for value, ends in ((one.mix, one.mix_interval), (one.within, one.within_interval))
            )
            lost = text.count(one.n_left_out)
            cells.append((f"{of}: {pair}", text.points(one.raw), *middle, lost))
    explained = (
        "A gap between two groups is the sum of two parts, in percentage points: what comes from "
        "the different mix of strata, and the mean gap between people of the same stratum. The "
        "lines are intervals. The model takes the first part of the gap in labels as given and "
        "explains the second by how labels were bent."
    )
    head = ("Gap", "Whole", "Mix of strata", "Within strata", "Rows left out")
    note = f"Computed on {text.counted(own.n_rows, 'row')}; scores are the model's own."
    numbers = view.Table("Gaps between groups, in points, cut in two", head, cells, note=note)
    picture = estimates(rows[:_DRAWN], text.points_tick, marks=(Mark(0.0, "no gap"),))
    return view.Figure("How much of the gap is the mix of strata?", explained, picture, numbers)


def _rates(audit: Audit, own: facts.OwnStrata) -> view.Table:
    label = text.quoted(own.positive)
    head = ["Stratum", f"Fair decision {label}, learned", "Possible"]
    for name in own.names:
        head += [f"Rows, {text.short(name, 20)}", f"Labelled {label}, {text.short(name, 20)}"]
    rows = []
    for one in own.strata:
        cells = [text.short(one.stratum), text.share(one.decision_rate), text.span(one.possible)]
        for n, rate in zip(one.n, one.label_rates, strict=True):
            cells += [text.count(n), text.share(rate)]
        rows.append(cells)
    note = (
        "Learned: P(Df | stratum), the same in every group under the model. "
        f"{possible(audit.decidable.identified)}"
    )
    if any(one.possible is None for one in own.strata):
        note += f" {_NONE}"
    if any(one.small for one in own.strata):
        note += " Strata with under 30 rows of some group are to be read with care."
    caption = "Rates in each stratum: fair decisions as learned, labels as recorded"
    return view.Table(caption, head, rows, words={2}, note=note, folded=len(rows) > _LONG)


def _groups(own: facts.OwnStrata) -> view.Table:
    label = text.quoted(own.positive)
    shared = own.mechanism == "shared"
    head = ["Group", f"Fair decision {label}, whole table"]
    for given in ("although fair decision is not", "as fair decision is"):
        head += [f"Labelled {label} {given}", *(["Possible"] if shared else [])]
    rows = []
    for g in own.groups:
        cells = [text.short(g.group), text.share(g.decision_rate)]
        for value, ends in ((g.b0, g.b0_set), (g.b1, g.b1_set)):
            cells += [text.share(value), *([text.span(ends)] if shared else [])]
        rows.append(cells)
    note = "The rates of the groups in the whole table differ by their mix of strata alone."
    if not shared:
        note += " Each stratum has a mechanism of its own; this is their mean."
    elif own.test is not None:
        level = text.share(own.test.level, 0)
        note += f" Possible: the joint set of all groups, with {level} confidence."
        if own.test.rejected:
            note = f"{note} It is empty: nothing fits the labels of every group."
    caption = "Rates and mechanism of each group as learned, beside what labels leave possible"
    return view.Table(caption, head, rows, words={3, 5} if shared else (), note=note)


def _subgroups(audit: Audit, own: facts.OwnStrata) -> view.Table:
    label = text.quoted(own.positive)
    head = ["Stratum", "Group", f"Labelled {label} although fair decision is not", "Possible"]
    head += [f"Labelled {label} as fair decision is", "Possible"]
    rows = [
        (
            text.short(one.stratum),
            text.short(one.group),
            text.share(one.b0),
            text.span(one.b0_possible),
            text.share(one.b1),
            text.span(one.b1_possible),
        )
        for one in own.subgroups
    ]
    note = possible(audit.decidable.identified)
    if any(one.b0_possible is None for one in own.subgroups):
        note += f" {_NONE}"
    caption = "Mechanism of each group in each stratum as learned, beside what is possible"
    return view.Table(caption, head, rows, words={1, 3, 5}, note=note, folded=len(rows) > 2 * _LONG)


def _joint(own: facts.OwnStrata, joint: facts.JointSet) -> view.Figure:
    """The possible mechanisms of the largest group, with strata and without."""
    learned = next(g for g in own.groups if g.group == joint.group)
    name, label = text.short(joint.group, 40), text.quoted(own.positive)
    sets = (
        Area("possible without strata", joint.plain),
        Area("possible within strata", joint.within),
    )
    empty = [area.name.removeprefix("possible ") for area in sets if not area.corners]
    void = f" Nothing is possible {' and '.join(empty)}: there is no area." if empty else ""
    explained = (
        f"Each point of an area is a mechanism that the labels of group {name}, the largest, leave "
        f"possible: along, how often {label} was recorded although the fair decision is not; up, "
        f"how often it was recorded where the fair decision is. The mark is what was learned.{void}"
    )
    plane = Plane(f"P(D = {text.short(own.positive, 14)} | Df otherwise)", "P(D | Df alike)")
    picture = areas(plane, sets, Point("learned", learned.b0, learned.b1))
    cells = [
        ("without strata", text.number(joint.plain_area)),
        ("within strata", text.number(joint.area)),
    ]
    caption = "Area of the possible mechanisms; all that are conceivable have 0.5"
    numbers = view.Table(caption, ("Parity", "Area"), cells)
    title = f"Mechanisms that labels leave possible, group {name}"
    return view.Figure(title, explained, picture, numbers)


def _candidates(found: facts.Candidates) -> Iterator[view.Block]:
    yield view.Paragraph(
        "Parity in the whole table is contradicted. Would it still be if fair decisions could "
        f"depend on one of the columns? {found.sentence}"
    )
    yield view.Notice("Not a way to choose strata.", (found.warning,))
    rows = []
    for one in found.columns:
        cells = [text.short(one.column), str(one.n_strata), text.count(one.smallest)]
        cells += [_REMOVES[one.rejected], text.p_value(one.p_value)]
        rows.append([*cells, text.share(one.mix), view.sentence(one.why) if one.why else ""])
    head = ["Column", "Strata", "Fewest rows of a group", "Removes the rejection", "p"]
    head += ["Share of the gap that is mix", "Why it was not tested"]
    if not any(one.why for one in found.columns):
        head, rows = head[:-1], [row[:-1] for row in rows]
    note = (
        f"Computed on {text.counted(found.n_rows, 'row')}, each test at the "
        f"{text.share(1 - found.level, 0)} level. Numbers are cut into about four bins. The last "
        "share may be negative or above 100%, where the mix and the gaps within strata go opposite "
        "ways."
    )
    if found.n_untried:
        note += (
            f" {text.counted(found.n_untried, 'further column')} not tried: in Python, "
            "fairpc.evidence.compare_strata tries any."
        )
    caption = "Each column taken as strata"
    yield view.Table(caption, head, rows, words={3, 6}, note=note, folded=len(rows) > 2 * _LONG)
