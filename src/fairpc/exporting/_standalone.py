"""P(Df = class | row) by the tables of a model, with nothing but Python's own library.

The text of this module is the first part of an exported file, and the tables are the second.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from functools import lru_cache
from itertools import product
from typing import Any

TINY = 1e-200
MISSING = -1
_DATE = re.compile(
    r"(\d{4}-\d\d-\d\d|\d\d\.\d\d\.\d{4})(?:[ T](\d\d:\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?)?", re.ASCII
)
_EPOCH = datetime(1970, 1, 1)


class Column:
    """How the values of one column become codes."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.name: str = data["name"]
        self.kind: str = data["kind"]
        self.texts: dict[str, int] = data["texts"]
        self.numbers: dict[float, int] = dict(data["numbers"])
        self.edges: list[float] | None = data["edges"]
        self.other: int = data["other"]
        self.marks = {mark.strip() for mark in data["marks"] if isinstance(mark, str)}
        self.marked_numbers = {mark for mark in data["marks"] if not isinstance(mark, str)}
        self.written: dict[str, str] | None = data["written"]

    def code(self, value: Any) -> int:
        """Code of a value; -1 where it is missing, or a level that was not there at fit."""
        if value is None or value != value:
            return MISSING
        if isinstance(value, str):
            return self._text_code(value)
        if isinstance(value, date):
            return self._date_code(value)
        if not isinstance(value, int | float | Decimal) and not hasattr(value, "__float__"):
            raise ValueError(f"{self.name!r} is {value!r}: give text, a number, a date or None")
        if self.kind == "date":
            raise ValueError(f"{self.name!r} is {value!r}: give a date, or text like 2024-05-31")
        if self.kind != "number":
            return self._named(value)
        return self._number_code(value if isinstance(value, int) else float(value))

    def _text_code(self, text: str) -> int:
        if text.strip() in self.marks:
            return MISSING
        if text in self.texts:
            return self.texts[text]
        if not text:
            return MISSING
        if self.kind == "date":
            return self._date_code(text)
        if self.kind != "number":
            if text.strip() in self.texts:
                raise ValueError(f"{self.name!r} is {text!r}: take the blanks around it away")
            return self.other
        number = _number(text, self.written)
        if number is not None:
            return self._number_code(number)
        like = f" like {self.written['example']}" if self.written else ""
        raise ValueError(
            f"{self.name!r} is {text!r}: give a number{like}, or None if it is not known"
        )

    def _named(self, value: Any) -> int:
        """A number or a boolean where values are known by their text."""
        if isinstance(value, bool):
            names = {text.lower(): text for text in self.texts}
            return self.texts.get(names.get(str(value).lower(), ""), self.other)
        if value in self.marked_numbers:
            return MISSING
        whole = isinstance(value, int) or float(value).is_integer()
        return self.texts.get(str(int(value) if whole else float(value)), self.other)

    def _number_code(self, number: float) -> int:
        if math.isnan(number) or number in self.marked_numbers:
            return MISSING
        if math.isinf(number):
            raise ValueError(f"{self.name!r} is {number}: numbers must be finite, None is unknown")
        if self.edges is None:
            return self.numbers.get(number, self.other)
        return bisect_right(self.edges, number)

    def _date_code(self, value: Any) -> int:
        if self.edges is None or self.kind != "date":
            raise ValueError(f"{self.name!r} is {value!r}: it held no dates at fit")
        instant = _microseconds(self.name, value)
        return MISSING if instant in self.marked_numbers else bisect_right(self.edges, instant)


def _number(text: str, written: Mapping[str, str] | None) -> float | None:
    """The number that a text is, written as at fit; None where it is none."""
    bare = text.strip()
    if written is not None:
        bare, unit = bare.replace("\N{MINUS SIGN}", "-"), re.escape(written["unit"])
        if unit:
            bare = re.sub(rf"^([+-]?)\s*{unit}\s*", r"\1", bare)
            bare = re.sub(rf"\s*{unit}$", "", bare)
        if not re.search(written["pattern"], bare):
            return None
        for mark in written["separators"]:
            bare = bare.replace(mark, "")
        bare = bare.replace(written["decimal"], ".")
    try:
        # Python takes 1_000 for a number, and digits of all scripts, and a table does not.
        return float(bare) if bare.isascii() and "_" not in bare else None
    except ValueError:
        return None


def _microseconds(name: str, value: Any) -> int:
    """Of a date or the text of one, since 1970."""
    if isinstance(value, str):
        found = _DATE.fullmatch(value)
        if found is None:
            raise ValueError(f"{name!r} is {value!r}: give a date, or text like 2024-05-31")
        day, minute, second, fraction = found.groups()
        day = "-".join(reversed(day.split(".")))
        text = f"{day} {minute or '00:00'}:{second or '00'}.{(fraction or '').ljust(6, '0')}"
        value = datetime.strptime(text, "%Y-%m-%d %H:%M:%S.%f")
    elif not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    elif value.tzinfo is not None:
        value = value.astimezone(timezone.utc).replace(tzinfo=None)  # noqa: UP017 - old Pythons
    whole: int = (value - _EPOCH) // timedelta(microseconds=1)
    return whole


class Forest:
    """P(x | f, s) by the boxes that hold a row; a box is a bit of a whole number."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.sets: list[list[list[int]]] = data["sets"]
        self.set_of: list[list[int]] = data["set_of"]
        self.shares, self.values, self.weight = data["shares"], data["values"], data["weight"]
        self.every = (1 << len(self.weight[0])) - 1
        self.holding = [
            self._holding(sets, set_of, len(self.values[0][j][0][0]))
            for j, (sets, set_of) in enumerate(zip(self.sets, self.set_of, strict=True))
        ]
        self.mass = lru_cache(maxsize=None)(self._mass)

    @staticmethod
    def _holding(sets: list[list[int]], set_of: list[int], n_values: int) -> list[int]:
        """The boxes that allow each value of a feature."""
        boxes = [0] * len(sets)
        for box, number in enumerate(set_of):
            boxes[number] |= 1 << box
        result = [0] * n_values
        for values, some in zip(sets, boxes, strict=True):
            for value in values:
                result[value] |= some
        return result

    def _mass(self, g: int, f: int, j: int, number: int) -> list[float]:
        """P(x_j in a set | c, f, s) of each cluster."""
        inside = self.sets[j][number]
        return [math.fsum(p[v] for v in inside) for p in self.values[g][j][f]]

    def log_densities(self, g: int, codes: list[int]) -> list[float]:
        """log P(x | f, s) of each class."""
        boxes, missing = self.every, []
        for j, code in enumerate(codes):
            if code < 0:
                missing.append(j)
            else:
                boxes &= self.holding[j][code]
        inside = []
        while boxes:
            low = boxes & -boxes
            inside.append(low.bit_length() - 1)
            boxes ^= low
        return [self._log_density(g, f, codes, missing, inside) for f in range(len(self.shares[g]))]

    def _log_density(
        self, g: int, f: int, codes: list[int], missing: list[int], inside: list[int]
    ) -> float:
        clusters = []
        for c, share in enumerate(self.shares[g][f]):
            factors = [self.values[g][j][f][c][v] for j, v in enumerate(codes) if v >= 0]
            clusters.append(math.fsum(map(_log, (share, *factors))) if share else -math.inf)
        top = max(clusters)
        if top == -math.inf:
            return top
        scaled, total = [math.exp(log - top) for log in clusters], 0.0
        for box in inside:
            held = scaled
            for j in missing:
                mass = self.mass(g, f, j, self.set_of[j][box])
                held = [a * b for a, b in zip(held, mass, strict=True)]
            total += self.weight[g][box][f] * sum(held)
        return top + _log(total)


class Circuit:
    """P(x | f, s) by sums and products."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.nodes: list[list[Any]] = data["nodes"]
        self.roots: list[list[int]] = data["roots"]
        self.below = [self._below(roots) for roots in self.roots]

    def _below(self, roots: list[int]) -> list[int]:
        """The nodes that some roots need, children first."""
        found, left = set(), list(roots)
        while left:
            node = left.pop()
            if node not in found:
                found.add(node)
                left += self.nodes[node][1] if self.nodes[node][0] != "leaf" else []
        return sorted(found)

    def log_densities(self, g: int, codes: list[int]) -> list[float]:
        """log P(x | f, s) of each class."""
        values = self._upward(g, codes)
        found = [values[root] for root in self.roots[g]]
        if min(found) > TINY:
            return [math.log(value) for value in found]
        logs = self._upward_in_logs(g, codes)
        return [logs[root] for root in self.roots[g]]

    def _upward(self, g: int, codes: list[int]) -> dict[int, float]:
        values: dict[int, float] = {}
        for n in self.below[g]:
            kind, children, weights = self.nodes[n]
            if kind == "leaf":
                values[n] = weights[codes[children]]
            elif kind == "product":
                total = 1.0
                for c in children:
                    total *= values[c]
                values[n] = total
            else:
                values[n] = sum(w * values[c] for c, w in zip(children, weights, strict=True))
        return values

    def _upward_in_logs(self, g: int, codes: list[int]) -> dict[int, float]:
        logs: dict[int, float] = {}
        for n in self.below[g]:
            kind, children, weights = self.nodes[n]
            if kind == "leaf":
                logs[n] = _log(weights[codes[children]])
            elif kind == "product":
                logs[n] = sum(logs[c] for c in children)
            else:
                parts = [logs[c] + _log(w) for c, w in zip(children, weights, strict=True)]
                logs[n] = _log_sum(parts)
        return logs


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def _log_sum(logs: list[float]) -> float:
    top = max(logs)
    if top == -math.inf:
        return top
    return top + math.log(math.fsum(math.exp(log - top) for log in logs))


class Scorer:
    """A model that was exported."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.classes: list[Any] = data["classes"]
        self.features = [Column(column) for column in data["features"]]
        self.sensitive = [Column(column) for column in data["sensitive"]]
        self.groups = {tuple(cell): s for s, cell in enumerate(data["cells"])}
        self.strata: list[int] = data["strata"]
        self.sizes: list[int] = data["sizes"]
        self.rates: list[list[float]] = data["rates"]
        self.rest: list[int] = data["rest"]
        kind = Forest if data["densities"]["kind"] == "forest" else Circuit
        self.densities = kind(data["densities"])

    def predict_proba(self, row: Mapping[str, Any]) -> list[float]:
        """P(Df = class | row) of each class; what is missing is marginalised."""
        codes = [column.code(row.get(column.name)) for column in self.features]
        cell = tuple(column.code(row.get(column.name)) for column in self.sensitive)
        rest = [codes[j] for j in self.rest]
        joint: list[list[float]] = [[] for _ in self.classes]
        for g in self._subgroups(self.groups.get(cell, MISSING), codes):
            logs = self.densities.log_densities(g, rest)
            for f, log in enumerate(logs):
                joint[f].append(log + _log(self.rates[g][f]))
        found = [_log_sum(logs) for logs in joint]
        top = max(found)
        if top == -math.inf:
            raise ValueError("the row has probability zero under the model: check its values")
        shares = [math.exp(log - top) for log in found]
        return [share / sum(shares) for share in shares]

    def _subgroups(self, s: int, codes: list[int]) -> list[int]:
        """Those that what is known of a row allows."""
        groups = range(len(self.groups)) if s < 0 else [s]
        choices = []
        for j, size in zip(self.strata, self.sizes, strict=True):
            choices.append(range(size) if codes[j] < 0 else [codes[j]])
        result = []
        for s, *values in product(groups, *choices):
            for value, size in zip(values, self.sizes, strict=True):
                s = s * size + value
            result.append(s)
        return result

    def predict_proba_rows(self, rows: Iterable[Mapping[str, Any]]) -> list[list[float]]:
        """``predict_proba`` of each of some rows."""
        return [self.predict_proba(row) for row in rows]


def read(*texts: str) -> dict[str, Any]:
    """The tables, each written as JSON."""
    return {name: value for text in texts for name, value in json.loads(text).items()}
