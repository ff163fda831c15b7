"""Selection rates and impact ratios as New York City's rules on automated employment tools ask.

Local Law 144 of 2021 (Administrative Code § 20-870 and following) and the rules of the Department
of Consumer and Worker Protection, 6 RCNY § 5-300 to § 5-304. They ask for rates and ratios by sex,
by race or ethnicity, and by both, and set no threshold for a ratio; none is printed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fairpc.auditing import _blocks as blocks, _formats as text
from fairpc.auditing._audit import Audit
from fairpc.auditing._blocks import Blank, Document
from fairpc.auditing._documents import Answers, Said, document
from fairpc.auditing._gaps import Categories, CategoryRate
from fairpc.auditing._table_facts import TableFacts
from fairpc.core import OptionError

LEAST_SHARE: Final = 0.02
"""Categories with less of the data may be left out of impact ratios (§ 5-301(d))."""

_NAMES: Final = {
    "n": "Applicants",
    "n_selected": "Selected",
    "selection_rate": "Selection rate",
    "scoring_rate": "Scoring rate",
}
_BOTH: Final = (
    "Give the columns of sex and of race or ethnicity (sensitive=[…, …]), and audit again."
)


def bias_audit_tables(audit: Audit, answers: Answers | None = None) -> Document:
    """The tables of a bias audit, from one audit and what the auditor says."""
    known, data = answers or Answers(), audit.data
    left_out = _left_out(audit, known)
    title = f"Decisions{' of a fairpc model' * data.fitted} on {data.label}"
    date = text.name(audit.provenance.date[:10])
    subtitle = f"New York City, selection rates and impact ratios; rows audited {date}"
    same = blocks.Paragraph("The rows are those that the model was fitted to.")
    said: dict[str, Said] = {
        "who": lambda: _who(data),
        "rates": lambda: _rates(audit, known, left_out),
        "under": lambda: _under(audit, known, left_out),
        "same rows": lambda: [same] if data.same_rows_as_fit else [],
    }
    return document("bias_audit_tables", audit, known, title, subtitle, said)


def _who(data: TableFacts) -> Iterator[blocks.Block]:
    """Whose decisions these are, and who is not in the calculations."""
    if data.fitted:
        yield blocks.Notice(
            "These are not the recorded decisions.",
            (
                "They are what the model of fairpc would decide. Unless it is the tool in use, "
                "audit the decisions that were made: fairpc audit TABLE --decision COL.",
            ),
            alert=True,
        )
    unknown = data.n_rows - data.n_grouped
    if unknown:
        columns = " or ".join(text.short(name, 40) for name in data.sensitive)
        yield blocks.Paragraph(
            f"{text.counted(unknown, 'person', 'people')} of unknown category are not in the "
            f"calculations below: they lack a known value of {columns}, or have a combination "
            "that the model was not fitted to."
        )
    if data.n_rows < data.n_table:
        yield blocks.Paragraph(
            f"The table has {text.count(data.n_table)} rows; the numbers are of a random sample."
        )
    if data.n_persons is not None:
        yield blocks.Paragraph(
            f"The rows are about {text.counted(data.n_persons, 'person', 'people')}, some of whom "
            "repeat: rows are counted, not people."
        )
    if data.weighted:
        yield blocks.Paragraph("Rows carry weights: rates are weighted, numbers are of rows.")


def _rates(audit: Audit, known: Answers, left_out: frozenset[str]) -> Iterator[blocks.Block]:
    if audit.parity is None:
        yield blocks.absent(audit, "parity")
        return
    roles, blanks = _roles(audit, known)
    for title, columns in roles:
        yield blocks.Heading(title)
        for part in audit.parity.categories:
            if set(part.attributes) == set(columns):
                yield from _rate_tables(part, left_out)
    yield from blanks
    if len(audit.data.sensitive) < 2:
        yield blocks.Notice(
            "The tables by both attributes are not here.",
            (
                f"The {'model was fitted' if audit.data.fitted else 'audit was made'} with "
                f"{text.listed(audit.data.sensitive)} alone. {_BOTH}",
            ),
            alert=True,
        )


def _roles(
    audit: Audit, known: Answers
) -> tuple[list[tuple[str, tuple[str, ...]]], list[blocks.Block]]:
    """Which tables there are, under which title; and what the auditor still has to say."""
    sensitive, named = audit.data.sensitive, dict[str, str]()
    blanks = list[blocks.Block]()
    for title, key in (("Sex", "ll144.sex"), ("Race or ethnicity", "ll144.race")):
        answer = known[key]
        if isinstance(answer, Blank):
            blanks.append(answer)
        elif answer not in sensitive:
            columns = ", ".join(map(repr, sensitive))
            raise OptionError(
                f"{key} is {answer!r}: the audit has the sensitive columns {columns}, name one"
            )
        elif answer in named:
            raise OptionError(f"ll144.sex and ll144.race are both {answer!r}: name two columns")
        else:
            named[answer] = title
    # Sex and race first; other attributes only where one of the two is not named.
    alone = [(n,) for n in (named if len(named) == 2 else sensitive)]
    crossed = [p.attributes for p in _first_class(audit) if len(p.attributes) == 2]
    both = [pair for pair in crossed if len(named) < 2 or set(pair) == set(named)]
    called = {n: named.get(n) or text.short(n, 40) for n in sensitive}
    return [(" × ".join(map(called.__getitem__, of)), of) for of in (*alone, *both)], blanks


def _first_class(audit: Audit) -> list[Categories]:
    found = () if audit.parity is None else audit.parity.categories
    return [part for part in found if part.label == found[0].label]


def _key(part: Categories, category: CategoryRate) -> str:
    """A category by attribute and level, "sex=F, race=B": a level alone may be one of two."""
    return ", ".join(f"{a}={v}" for a, v in zip(part.attributes, category.levels, strict=True))


def impact_ratios(
    part: Categories, left_out: frozenset[str], rate: str = "selection_rate"
) -> tuple[float | None, ...]:
    """Each rate over the largest among the categories that are not left out (§ 5-300)."""
    rates = [None if _key(part, c) in left_out else getattr(c, rate) for c in part.categories]
    largest = max((r for r in rates if r is not None), default=0.0)
    return tuple(r / largest if largest and r is not None else None for r in rates)


def _rate_tables(part: Categories, left_out: frozenset[str]) -> Iterator[blocks.TableBlock]:
    """Those selected, then those who score above the median."""
    for caption, keys in (
        (f"Selected as {text.quoted(part.label)}", ("n", "n_selected", "selection_rate")),
        (f"Scored above the median, {text.number(part.median)}", ("n", "scoring_rate")),
    ):
        rows = []
        for c, ratio in zip(part.categories, impact_ratios(part, left_out, keys[-1]), strict=True):
            numbers = [getattr(c, key) for key in keys]
            notes = ["left out"] * (_key(part, c) in left_out) + ["few rows"] * c.small
            rows.append((", ".join(c.levels), *numbers, text.number(ratio), ", ".join(notes)))
        head = ("Category", *(_NAMES[key] for key in keys), "Impact ratio", "Note")
        by = " × ".join(text.short(name, 40) for name in part.attributes)
        yield blocks.TableBlock(f"{caption}, by {by}", head, rows).without_empty_remarks()


def _left_out(audit: Audit, known: Answers) -> frozenset[str]:
    """Categories that the auditor leaves out: each must exist, and be under 2% of the rows."""
    wanted = known.lists.get("ll144.leave_out", ())
    there = {_key(part, c): c for part in _first_class(audit) for c in part.categories}
    for name in wanted:
        if name not in there:
            raise OptionError(
                f"ll144.leave_out names {name!r}, which is not a category of the audit: use one of "
                f"{', '.join(map(repr, list(there)[:8]))}"
            )
        share = there[name].share or 0.0
        if share >= LEAST_SHARE:
            raise OptionError(
                f"ll144.leave_out names {name!r}, which is {share:.1%} of the rows: only "
                "categories under 2% may be left out"
            )
    return frozenset(wanted)


def _under(audit: Audit, known: Answers, left_out: frozenset[str]) -> Iterator[blocks.Block]:
    parts = _first_class(audit)
    small = [(p, c) for p in parts for c in p.categories if (c.share or 0.0) < LEAST_SHARE]
    if not small:
        yield blocks.Paragraph("No category has less than 2% of the rows whose category is known.")
        return
    yield blocks.Paragraph(
        "An auditor may leave a category with less than 2% of the data out of the impact ratios; "
        "its number and rate are then still reported, with the reason (§ 5-301(d))."
    )
    rows = []
    for p, c in small:
        kept = "left out" if _key(p, c) in left_out else "kept"
        share = text.share(c.share, 2)
        rows.append((_key(p, c), c.n, share, c.selection_rate, c.scoring_rate, kept))
    head = ("Category", "Applicants", "Share", "Selection rate", "Scoring rate", "Impact ratio")
    yield blocks.TableBlock("Categories with less than 2% of the rows", head, rows, words={5})
    if left_out:
        yield blocks.Heading("Why they are left out")
        yield from known.blocks("ll144.justification")
