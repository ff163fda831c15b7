"""Affected subgroups in the rows: alike in a column or two, and decided apart by group.

Looked for in some rows and measured in the others, so that the search does not make them large.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from fairpc.auditing import _blocks as blocks, _formats as text
from fairpc.auditing._job import MAX_TEST_ROWS, Job
from fairpc.auditing._rows import AuditedRows
from fairpc.core import Bools, Floats, Ints, Record
from fairpc.data import SMALL
from fairpc.evidence import Interval, parity

_SHOWN: Final = 8
_CROSSED: Final = 25
"""Columns that are crossed with each other: those which tell most by themselves."""
_REPEATED: Final = 2
"""Subgroups that name the same column, at most: others are of much the same people."""
_SURE: Final = 2.0
"""Standard errors by which a difference is taken to be smaller while they are looked for."""


@dataclass(frozen=True)
class Subgroup:
    """People who are alike in some columns, and two groups of them that are decided apart."""

    features: Mapping[str, str]  #: column -> what they share: a level or a bin
    n_rows: int  #: of both groups, among the rows that were not searched
    less: str  #: the group that was selected less often in the rows that were searched
    more: str
    less_rate: float  #: share decided positive, in the other rows
    more_rate: float
    difference: float  #: the second less the first
    interval: Interval  #: of the difference; those of all subgroups hold together
    recorded: float | None  #: the same difference of recorded labels, where both groups have some


@dataclass(frozen=True)
class SubgroupFacts(Record):
    """The subgroups whose groups are decided farthest apart."""

    subgroups: tuple[Subgroup, ...]  #: the surest first
    n_candidates: int  #: subgroups and pairs of groups that were looked at
    n_searched: int  #: rows in which they were looked for
    n_measured: int  #: other rows, in which they were measured
    positive: str
    level: float
    sentence: str  #: the first in words


@dataclass(frozen=True)
class _Found:
    sure: float  #: the difference, less its sampling error
    columns: tuple[int, ...]
    values: tuple[int, ...]
    less: int
    more: int


def subgroup_facts(job: Job) -> SubgroupFacts:
    """Subgroups of one or two columns, as far as 30 rows of each of two groups are in them."""
    rows = job.drawn
    kept = rows.comparable(rows.s >= 0)
    searched = _searched(rows, job.settings.random_state) & kept
    found, n = _search(rows, searched, max(SMALL, job.min_cell))
    each = 1 - (1 - job.settings.level) / max(len(found), 1)
    others = kept & ~searched
    measured = (_measured(rows, others, one, each, max(SMALL, job.min_cell)) for one in found)
    shown = sorted((s for s in measured if s), key=lambda s: -s.interval[0])
    return SubgroupFacts(
        subgroups=tuple(shown),
        n_candidates=n,
        n_searched=rows.number(searched),
        n_measured=rows.number(others),
        positive=rows.positive_class,
        level=job.settings.level,
        sentence=_in_words(job, shown),
    )


def _searched(rows: AuditedRows, seed: int) -> Bools:
    """Half of the rows, or of the persons, at random; fewer of a large table."""
    n = len(rows.s)
    who = np.arange(n) if rows.persons is None else rows.persons
    order = np.random.default_rng(seed).permutation(int(who.max()) + 1)
    return np.asarray(order[who] < min(0.5, MAX_TEST_ROWS / n) * len(order))


def _search(rows: AuditedRows, searched: Bools, least: int) -> tuple[list[_Found], int]:
    """The surest subgroup of each column and pair of columns; and how many were looked at."""
    each = [_of_columns(rows, searched, (j,), least) for j in range(len(rows.features.names))]
    singles = {j: found for j, (found, _) in enumerate(each) if found is not None}
    n, every = sum(seen for _, seen in each), list(singles.values())
    first = sorted(singles, key=lambda j: -singles[j].sure)[:_CROSSED]
    for pair in combinations(sorted(first), 2):
        found, seen = _of_columns(rows, searched, pair, least)
        n += seen
        # Two columns must say more than each of them.
        if found is not None and found.sure > max(singles[j].sure for j in pair):
            every.append(found)
    kept: list[_Found] = []
    for one in sorted((one for one in every if one.sure > 0), key=lambda one: -one.sure):
        named = [j for before in kept for j in before.columns]
        if len(kept) < _SHOWN and all(named.count(j) < _REPEATED for j in one.columns):
            kept.append(one)
    return kept, n


def _of_columns(
    rows: AuditedRows, searched: Bools, columns: tuple[int, ...], least: int
) -> tuple[_Found | None, int]:
    """The values and groups that are farthest apart for sure."""
    here = searched & (rows.x[:, columns] >= 0).all(axis=1)
    sizes = tuple(rows.features.arities[j] for j in columns)
    k, n_groups = int(np.prod(sizes)), len(rows.groups)
    cell = np.ravel_multi_index(tuple(rows.x[here][:, columns].T.astype(np.intp)), sizes)
    place = rows.s[here].astype(np.intp) * k + cell
    weights = rows.each_weight[here]

    def summed(values: Floats | None) -> Floats:
        return np.bincount(place, values, n_groups * k).reshape(n_groups, k).astype(np.float64)

    n, whole = summed(rows.each_count[here]), summed(weights)
    chosen = summed(weights * (rows.decided[here] == rows.positive))
    rate = chosen / np.maximum(whole, 1e-300)
    smooth = (n * rate + 1) / (n + 2)  # a rate of 0 or 1 in these rows is not certain
    spread = smooth * (1 - smooth) / np.maximum(n, 1)
    best: _Found | None = None
    seen = 0
    for a, b in combinations(range(n_groups), 2):
        enough = np.flatnonzero(np.minimum(n[a], n[b]) >= least)
        if not len(enough):
            continue
        seen += len(enough)
        gap = (rate[b] - rate[a])[enough]
        sure = np.abs(gap) - _SURE * np.sqrt((spread[a] + spread[b])[enough])
        i = int(np.argmax(sure))
        if best is None or sure[i] > best.sure:
            values = tuple(int(v) for v in np.unravel_index(enough[i], sizes))
            best = _Found(float(sure[i]), columns, values, *((a, b) if gap[i] > 0 else (b, a)))
    return best, seen


def _measured(
    rows: AuditedRows, others: Bools, found: _Found, level: float, least: int
) -> Subgroup | None:
    """The subgroup in rows that were not searched; None where these are few."""
    ends = found.less, found.more
    both = others & np.isin(rows.s, ends) & (rows.x[:, found.columns] == found.values).all(axis=1)
    if min(rows.number(both & (rows.s == g)) for g in ends) < least:
        return None
    ids: Ints = (rows.s[both] == found.more).astype(np.int64)
    decided, labelled = rows.decided == rows.positive, rows.d == rows.positive
    values = decided[both].astype(np.float64)
    gap = parity(values, ids, level=level, **rows.weighing(both)).largest
    less, more = (rows.mean(decided, both & (rows.s == g)) for g in ends)
    was, were = (rows.mean(labelled, both & (rows.d >= 0) & (rows.s == g)) for g in ends)
    columns = [rows.features.columns[j] for j in found.columns]
    return Subgroup(
        features={c.name: c.labels[v] for c, v in zip(columns, found.values, strict=True)},
        n_rows=rows.number(both),
        less=rows.groups[found.less],
        more=rows.groups[found.more],
        less_rate=float(less or 0),
        more_rate=float(more or 0),
        difference=gap.difference,
        interval=gap.difference_interval,
        recorded=None if was is None or were is None else were - was,
    )


def _in_words(job: Job, shown: list[Subgroup]) -> str:
    """The surest difference, if one is sure."""
    if not shown or shown[0].interval[0] <= 0:
        return (
            "No people who are alike in one or two columns were found whose groups are decided "
            "apart for sure."
        )
    one, who = shown[0], job.names.who
    low, high = map(text.size, one.interval)
    return (
        f"Among people with {_people(one)}, {text.share(one.less_rate)} of {who(one.less)} and "
        f"{text.share(one.more_rate)} of {who(one.more)} are decided "
        f"{job.names.said[job.rows.positive_class]}, {text.size(one.difference)} points apart "
        f"({low} to {high})."
    )


def _people(one: Subgroup) -> str:
    named = (f"{text.short(c, 40)} {text.quoted(v)}" for c, v in one.features.items())
    return " and ".join(named)


@blocks.section("subgroups", "Affected subgroups")
def show_subgroups(audit: blocks.Audit, facts: SubgroupFacts) -> Iterator[blocks.Block]:
    """People who are alike in a column or two, and how far apart their groups are decided."""
    yield blocks.Paragraph(facts.sentence, "lead")
    head = ("People", "Rows", "Less often", "More often", "Difference, points", "Of labels, points")
    cells = []
    for one in facts.subgroups:
        less = f"{text.short(one.less, 30)} {text.share(one.less_rate)}"
        more = f"{text.short(one.more, 30)} {text.share(one.more_rate)}"
        apart = f"{text.points(one.difference)} ({text.span(one.interval, text.points)})"
        cells.append((_people(one), one.n_rows, less, more, apart, text.points(one.recorded)))
    note = (
        f"Of {facts.n_candidates:,} subgroups those with the surest differences were looked for in "
        f"{text.counted(facts.n_searched, 'row')} and measured in the other "
        f"{facts.n_measured:,}, so the search does not make them large. In brackets: intervals "
        f"that hold together at the {text.share(facts.level, 0)} level. Of labels: the same "
        "difference between the recorded labels."
    )
    if cells:
        caption = f"Shares decided {text.quoted(facts.positive)} among people who are alike"
        yield blocks.TableBlock(caption, head, cells, words={2, 3}, note=note, longest=400)
    yield blocks.Points(blocks.sentences("subgroups"))
