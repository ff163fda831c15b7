"""How tables become codes: rows of any frame to codes and back, and how that is learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from fairpc.core import (
    Bools,
    Codes,
    DroppedWarning,
    Floats,
    GroupWarning,
    TableError,
    TableWarning,
    counted,
    quoted,
    warn_caller,
)
from fairpc.data._column import AS_MISSING, Coded, Column, Dropped, code_columns
from fairpc.data._fit_column import (
    FEW_PEOPLE,
    FEW_ROWS,
    IDENTIFIES,
    EncodingOptions,
    fit_column,
    warn_of_codes,
)
from fairpc.data._frame import Frame, check_rows, read_frame
from fairpc.data._groups import SMALL, Groups, few_labelled, groups_of, warn_of_groups
from fairpc.data._labels import Labels, labels_of, warn_of_classes
from fairpc.data._leaks import column_copies, label_leaks, warn_leak
from fairpc.data._names import GivenNames, Names, checked_names
from fairpc.data._source import Roles, Source, Watcher, shown_name
from fairpc.data._summary import (
    Crossing,
    Summary,
    Unlabelled,
    hidden_labels,
    summarise_source,
    values_at,
    weighted,
)
from fairpc.data._table import MISSING, Distinct, Packing, check_codes, no_weight
from fairpc.data._values import Sentinel, read_values

LEFT_OUT: Final = "left out on request"


@dataclass(frozen=True)
class Encoding(Coded):
    """How a table becomes codes."""

    columns: tuple[Column, ...]  #: the columns that are used, in the order of the table
    dropped: tuple[Dropped, ...]  #: the columns that are not, each with the reason
    names_in: tuple[str, ...]  #: all columns of the table that was fitted, in order
    from_array: bool = False  #: that table was an array: columns are known by position
    missing_values: tuple[Sentinel, ...] = ()  #: values that mean "missing", besides null and NaN

    def __post_init__(self) -> None:
        used = [column.name for column in self.columns]
        all_names = [*used, *(d.name for d in self.dropped)]
        if sorted(all_names) != sorted(self.names_in) or len(set(all_names)) < len(all_names):
            raise TableError(
                "the columns of the encoding are not those of its table: "
                "each column of the table is used or dropped, once"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that are used."""
        return tuple(column.name for column in self.columns)

    @property
    def arities(self) -> tuple[int, ...]:
        """Number of codes per column that is used."""
        return tuple(column.arity for column in self.columns)

    @property
    def ordered(self) -> tuple[bool, ...]:
        """Whether the codes of each column that is used are bins, which have an order."""
        return tuple(column.binned for column in self.columns)

    def column(self, name: str) -> Column:
        """The column of this name; a TableError if it is not used."""
        for column in self.columns:
            if column.name == name:
                return column
        unknown = f"column {name!r} is not in the table: use one of {quoted(self.names, 10)}"
        raise TableError(next((d.message for d in self.dropped if d.name == name), unknown))

    def transform(self, frame: Any, *, allow_absent: bool = False, warn: bool = True) -> Codes:
        """Codes of the rows of a frame, shape (rows, columns used), column-major; -1 = missing.

        Columns that are not used are ignored. A column that is absent is an
        error, or missing in every row if ``allow_absent``. A level that was not
        seen at fit counts as missing, with a warning that names it, if ``warn``.
        """
        table = self.aligned(read_frame(frame))
        lacking = None if allow_absent else absent
        return code_columns(self.columns, table, self.missing_values, lacking, warn=warn)

    def inverse(
        self, codes: npt.ArrayLike, numbers: Mapping[str, Floats] | None = None
    ) -> dict[str, list[Any]]:
        """Rows of codes as levels and labels of bins, a list per column; given numbers as such."""
        checked = check_codes(codes, self.arities, self.names)
        known = numbers or {}
        return {
            c.name: c.shown_numbers(known[c.name]) if c.name in known else c.decode(checked[:, j])
            for j, c in enumerate(self.columns)
        }

    def numbers(self, frame: Any) -> dict[str, Floats]:
        """Numbers of the binned columns; NaN where missing, or known by their bin alone."""
        table = self.aligned(read_frame(frame))
        by_column = {c.name: np.full(table.n_rows, np.nan) for c in self.columns if c.binned}
        for name in by_column.keys() & set(table.names):
            values = read_values(name, table.column(name), self.missing_values)
            if not values.missing().all():
                by_column[name] = self.column(name).exact_numbers(values)
        return by_column

    def log_density(self, codes: Codes) -> Floats:
        """log P(x | bin) of the numbers of each row, summed over columns; 0 without any.

        It is per unit of a number, or per day of a date.
        """
        total: Floats = np.zeros(len(codes))
        for j, column in enumerate(self.columns):
            if column.binned:  # a code of -1 takes the last place: what is missing adds nothing
                total += np.append(column.intervals.log_density(column.unit), 0.0)[codes[:, j]]
        return total

    def drawn(self, codes: Codes, rng: np.random.Generator) -> dict[str, Floats]:
        """Numbers of the binned columns, each drawn from its bin."""
        return {
            column.name: column.intervals.quantiles(codes[:, j], rng.random(len(codes)))
            for j, column in enumerate(self.columns)
            if column.binned
        }

    def medians(self, codes: Codes) -> dict[str, Floats]:
        """Numbers of the binned columns, each the median of its bin."""
        return {
            column.name: column.intervals.quantiles(codes[:, j], 0.5)
            for j, column in enumerate(self.columns)
            if column.binned
        }

    def describe(self) -> list[dict[str, Any]]:
        """One record per column of the table: what was done with it."""
        facts: dict[str, tuple[Any, ...]] = {
            d.name: (d.name, False, None, [], None, f"dropped: {d.reason}") for d in self.dropped
        }
        for c in self.columns:
            missing = f", {c.missing_share:.1%} missing" if c.missing_share else ""
            facts[c.name] = c.name, True, c.kind, list(c.labels), c.missing_share, c.done + missing
        names = ("column", "used", "kind", "values", "missing", "done")
        return [dict(zip(names, facts[name], strict=True)) for name in self.names_in]

    def lines(self) -> list[str]:
        """One line per column of the table: what was done with it."""
        return [f"{record['column']}: {record['done']}" for record in self.describe()]

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-safe data; what is dropped as pairs."""
        return super().to_dict() | {"dropped": [[d.name, d.reason] for d in self.dropped]}

    def aligned(self, table: Frame) -> Frame:
        """The frame under the names of the fit: an array is known by position."""
        if not (table.from_array or self.from_array) or table.names == self.names_in:
            return table
        if len(table.names) != len(self.names_in):
            raise TableError(
                f"the table has {len(table.names)} columns and had {len(self.names_in)} at fit: "
                "columns of an array are known by position, give all of them"
            )
        if not table.from_array:
            warn_caller(
                "the table has names of columns, and the model was fitted to an array without: "
                "columns are taken by their position, whatever their names",
                TableWarning,
            )
        return Frame(self.names_in, table.columns, table.n_rows, table.from_array)


def absent(name: str) -> str:
    """What is said of a column that a table lacks."""
    return (
        f"column {name!r} is absent: the table must have the columns it was fitted with; add it, "
        "with empty cells where nothing is known"
    )


CODING_FIELDS: Final = ("sensitive", "features", "labels", "groups")


@dataclass(frozen=True, eq=False)
class TableCoding(Coded):
    """How a table becomes codes."""

    features: Encoding
    labels: Labels
    groups: Groups
    sensitive: tuple[str, ...] = ()  #: columns of X that are S; none if they are given apart
    unlabelled: Unlabelled = ()  #: at fit; files do not say whose labels were too few

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        return super().from_dict(data | {"unlabelled": []} if isinstance(data, dict) else data)

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in super().to_dict().items() if name != "unlabelled"}

    def evidence(
        self, X: Any, sensitive_features: Any = None, *, allow_absent: bool = False
    ) -> tuple[Codes | None, Codes]:
        """Codes of S, None where it is not given, and of X."""
        frame = read_frame(X)
        features = self.features.transform(frame, allow_absent=allow_absent)
        return self.group_codes(X, frame, sensitive_features), features

    def unknown_groups(self, frame: Frame, sensitive_features: Any) -> Bools:
        """Rows of a group that is not one of these, though no part of it is missing."""
        inside = bool(self.sensitive) and set(self.sensitive) <= set(frame.names)
        given = frame.select(self.sensitive) if inside else sensitive_features
        return np.zeros(frame.n_rows, np.bool_) if given is None else self.groups.unknown(given)

    def group_codes(
        self, X: Any, frame: Frame, sensitive_features: Any, *, warn: bool = True
    ) -> Codes | None:
        """Groups of the rows: from columns of X, or given apart; None if neither is there."""
        if self.sensitive:
            check_not_both(sensitive_features)
            if not set(self.sensitive) & set(frame.names):
                return None
            own = frame.select(self.sensitive)
            return self.groups.transform(own, allow_absent=True, warn=warn)
        if sensitive_features is None:
            return None
        check_rows(X, frame, sensitive_features, "sensitive feature")
        return self.groups.transform(sensitive_features, warn=warn)

    @property
    def group_names(self) -> tuple[str, ...]:
        """What groups are called where people read of them, beside the label: "afam=yes"."""
        return self.groups.readable_names(self.labels.classes)

    def names_of(self, given: GivenNames | None) -> Names:
        """What people call the label, the sensitive columns and their values, checked."""
        known = {column.name: column.labels for column in self.groups.columns}
        return checked_names(given, {self.labels.name: self.labels.column.labels} | known)

    def called(self, names: Names) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The classes and the groups under these names; what has none keeps its own."""
        label, groups = names.get(self.labels.name, {}), []
        for name, cell in zip(self.group_names, self.groups.cells, strict=True):
            each = zip(self.groups.columns, cell, strict=True)
            parts = [(column.name, column.labels[v]) for column, v in each]
            own = [names.get(column, {}).get(level) for column, level in parts]
            if any(own):
                name = ", ".join(o or "=".join(part) for o, part in zip(own, parts, strict=True))
            groups.append(name)
        return tuple(label.get(c, c) for c in map(str, self.labels.classes)), tuple(groups)

    def small_groups(self) -> tuple[tuple[str, int], ...]:
        """Groups with fewer than 30 training rows, and how many they have."""
        rows = zip(self.group_names, self.groups.rows, strict=True)
        return tuple((name, n) for name, n in rows if n < SMALL)


@dataclass(frozen=True, eq=False)
class RowEncoder:
    """Batches of a table to distinct rows of codes."""

    coding: TableCoding  #: how the table becomes codes
    roles: Roles  #: which columns are what
    whole: bool = True  #: whether weights count rows
    warn: bool = True  #: whether levels and groups are named that the coding does not know

    @property
    def packing(self) -> Packing:
        """Of the columns S, D and the features."""
        coding = self.coding
        groups, classes = len(coding.groups.names), len(coding.labels.classes)
        return Packing((groups, classes, *coding.features.arities), unit=not self.whole)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        roles = self.roles
        more = () if roles.weight is None else (roles.weight,)
        features = roles.names if self.positional else self.coding.features.names
        return tuple(dict.fromkeys((roles.label, *roles.sensitive, *more, *features)))

    @property
    def positional(self) -> bool:
        """Whether columns are known by position, in the table or at the fit of the coding."""
        features = self.coding.features
        unnamed = features.from_array and not set(features.names) <= set(self.roles.names)
        return self.roles.positional or (unnamed and bool(self.roles.names))

    def codes(self, frame: Frame) -> list[Codes]:
        """Columns of codes of the rows of a batch."""
        coding, roles = self.coding, self.roles
        table = frame
        if self.positional:
            table = replace(frame.select(roles.names), from_array=True)
        s = np.full(frame.n_rows, -1, np.int16)
        if roles.sensitive:
            names, by_place = tuple(map(shown_name, roles.sensitive)), roles.groups_positional
            groups = replace(frame.select(roles.sensitive), names=names, from_array=by_place)
            inside = bool(coding.sensitive)
            s = coding.groups.transform(groups, allow_absent=inside, warn=self.warn)
        d = coding.labels.transform(frame.column(roles.label))
        if coding.unlabelled:
            d = np.where(hidden_labels(frame, roles, coding.unlabelled), MISSING, d)
        return [s, d, *coding.features.transform(table, warn=self.warn).T]

    def __call__(self, frame: Frame) -> Distinct:
        """The distinct rows of a batch, those without weight left out."""
        frame, weights = weighted(frame, self.roles)
        if not frame.n_rows:
            return Distinct.empty(self.packing)
        return self.packing.distinct(self.codes(frame), weights)


def check_not_both(sensitive_features: Any) -> None:
    """A TableError where groups are given apart although columns were named."""
    if sensitive_features is not None:
        raise TableError(
            "sensitive columns were named and sensitive_features given: use one of the two"
        )


def identifiers(encoding: Encoding) -> dict[str, str]:
    """Columns that were dropped because they tell rows apart, one by one or a few, and why.

    To a classifier each value is a column, which takes long and tells nothing of other rows.
    """
    return {
        each.name: IDENTIFIES if each.reason.startswith(IDENTIFIES) else each.reason
        for each in encoding.dropped
        if each.reason.startswith((IDENTIFIES, FEW_ROWS, FEW_PEOPLE))
    }


def fit_coding(
    source: Source,
    roles: Roles,
    *,
    positive: Any = None,
    options: EncodingOptions | None = None,
    watch: Watcher | None = None,
    again: bool = False,
    given_whole: bool = False,
    names: GivenNames | None = None,
) -> tuple[TableCoding, bool]:
    """Learn how a table becomes codes, in one pass; and whether its weights count rows.

    Columns that give the label away are warned of, unless the table was coded before (``again``).
    So are columns that are dropped, unless a classifier is ``given`` the table ``whole``.
    ``names`` say what people call values of the label and of groups.
    """
    summary = summarise_source(source, roles, watch)
    if not summary.weight:
        raise no_weight()
    if not roles.features:
        raise TableError(
            f"the table has n_features = {len(roles.sensitive)}, all of them sensitive: give "
            "features too"
        )
    crossing, sentinels = summary.groups, roles.missing_values
    options = options or EncodingOptions()
    crossed = crossing.columns, crossing.rows, crossing.weights, sentinels, options.min_cell
    groups = groups_of(*crossed, labelled=crossing.labelled, again=again, names=names)
    unlabelled = _unlabelled(crossing, groups, options.min_cell, again=again)
    if unlabelled:
        # Bins and classes, too, depend on labels.
        summary = summarise_source(source, roles, watch, unlabelled)
    n_labels = len(summary.labels.data) + bool(summary.label_weights[-1])
    found, known = values_at(summary.labels, np.arange(n_labels)), summary.label_weights[:n_labels]
    labels = labels_of(shown_name(roles.label), found, known, positive, sentinels, names)
    classes, n_classes = labels.column.codes(summary.labels), len(labels.classes)
    features = fit_features(source, roles, summary, options, classes, n_classes)
    if not again:
        for column in features.columns:
            warn_of_codes(column, summary.columns[column.name])
        if not given_whole:
            warn_of_dropped([d for d in features.dropped if d.reason != LEFT_OUT])
        warn_of_groups(groups, options.min_cell)
        warn_of_classes(labels, len(groups.names))
        for leak in label_leaks(summary, classes.astype(np.int64), n_classes, features.columns):
            warn_leak(leak, f"the label {labels.name!r}")
    sensitive = tuple(name for name in roles.sensitive if name in (roles.names or source.names))
    coding = TableCoding(features, labels, groups, sensitive, unlabelled)
    coding.names_of(names)
    return coding, summary.whole


def _unlabelled(crossing: Crossing, groups: Groups, min_cell: int, *, again: bool) -> Unlabelled:
    """Combinations of sensitive values whose labels are those of few people.

    A total would tell of them what groups do not. Those of groups that stay, and of people whose
    group is missing, are among them, unless the whole table is that small or they were half of all
    labels.
    """
    if min_cell == 1 or crossing.rows.sum() < 10 * min_cell:
        return ()
    codes, lacking = groups.crossed_codes(crossing.columns), np.zeros(len(crossing.rows), np.bool_)
    for values in crossing.columns.values():
        lacking |= values.missing()
    known = lacking | (codes >= 0)
    labelled = np.bincount(codes[known] + 1, crossing.labelled[known], len(groups.names) + 1)
    few = few_labelled(labelled, min_cell)
    if 2 * labelled[few].sum() >= crossing.labelled.sum():
        few[:] = False
    names = [n for n, own in zip(groups.names, few[1:].tolist(), strict=True) if own]
    if names and not again:
        warn_caller(
            f"{counted(len(names), 'group has', 'groups have')} fewer than {min_cell} labelled "
            f"rows ({', '.join(names[:3])}): their labels count {AS_MISSING}; min_cell=1 keeps "
            "them",
            GroupWarning,
        )
    hidden = (crossing.labelled > 0) & np.where(known, few[codes + 1], True)
    columns = [values.taken(hidden).listed() for values in crossing.columns.values()]
    return tuple(zip(*columns, strict=True))


def warn_of_dropped(dropped: Sequence[Dropped]) -> None:
    """Say which columns are not used, and why."""
    if dropped:
        each = "; ".join(f"{d.name!r} ({d.reason})" for d in dropped[:10])
        more = f" and {len(dropped) - 10} more" if len(dropped) > 10 else ""
        n = counted(len(dropped), "column is", "columns are")
        warn_caller(DroppedWarning(f"{n} not used: {each}{more}"))


def fit_features(
    source: Source,
    roles: Roles,
    summary: Summary,
    options: EncodingOptions,
    classes: Codes,
    n_classes: int,
) -> Encoding:
    """How the features of a table become codes; ``classes`` are those of the distinct labels.

    Columns with one value, identifiers (a different value in every row) and
    one-to-one copies of an earlier column are dropped; ``Encoding.dropped`` says why.
    """
    codes = None
    if options.binning == "label" and n_classes > 1:
        codes = np.append(classes, -1).astype(np.int64)
    reading = summary.scale, codes
    apart = {roles.label, roles.weight}
    names = roles.names or tuple(name for name in source.names if name not in apart)
    fitted: dict[str, Column | Dropped] = {
        name: fit_column(name, summary.columns[name], options.of_column(name), *reading)
        if name in summary.columns
        else Dropped(name, LEFT_OUT)
        for name in names
    }
    columns = [c for c in fitted.values() if isinstance(c, Column)]
    copies = column_copies(source, roles, summary, columns)
    for name, original in copies.items():
        fitted[name] = Dropped(name, f"it is a one-to-one copy of column {original!r}")
    used = tuple(c for c in fitted.values() if isinstance(c, Column))
    dropped = tuple(d for d in fitted.values() if isinstance(d, Dropped))
    if not used:
        reasons = "; ".join(d.message for d in dropped[:3])
        raise TableError(f"no column is left to learn from: {reasons}")
    return Encoding(used, dropped, names, source.from_array, roles.missing_values)
