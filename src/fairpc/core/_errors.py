"""What fairpc raises. Each message says the object, the rule and the repair."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Final

MOST_SHOWN: Final = 1500  # characters of a message; what was given may be as long as it likes
_UNSHOWN: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)
"""What a terminal obeys instead of showing it: controls, marks of direction; halves of a pair."""


class FairpcError(Exception):
    """Base of every error that fairpc raises on purpose."""

    def __str__(self) -> str:
        return brief(super().__str__())


def brief(text: str) -> str:
    """A message as it may be shown, of a length that is read."""
    if len(text) > MOST_SHOWN:  # the object is at the beginning, the repair at the end
        text = f"{text[: 2 * MOST_SHOWN // 3]} … {text[-MOST_SHOWN // 3 :]}"
    return shown(text)


def shown(text: str) -> str:
    """A line as a terminal may have it: what it would obey is spelt out, as JSON does."""
    return _UNSHOWN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class CircuitError(FairpcError, ValueError):
    """A circuit that is not well formed; ``node`` is the first node at fault, if there is one."""

    def __init__(self, message: str, node: int | None = None) -> None:
        super().__init__(message)
        self.node = node


class PropertyError(FairpcError, ValueError):
    """A query was asked of a circuit that lacks the structural property it needs."""


class CodesError(FairpcError, ValueError):
    """Rows that are not codes of the variables: wrong shape, a value out of range, a bad weight."""


class EvidenceError(FairpcError, ValueError):
    """A conditional was asked on evidence of probability zero; ``row`` is the first such row."""

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


class FileFormatError(FairpcError, ValueError):
    """A file that is truncated, altered, too large, or not what its name says."""


class MissingExtraError(FairpcError, ImportError):
    """An optional dependency is not installed; the message names the extra that brings it."""


class LearningError(FairpcError, ValueError):
    """A table from which nothing can be learned, or an option of a learner out of its range."""


class OptionError(FairpcError, ValueError):
    """An option that is none of the values it can take."""


class TableError(FairpcError, ValueError):
    """A table, label or group column that cannot be encoded; names the column, rule and repair."""


class NotAnsweredError(FairpcError, AttributeError):
    """A model was asked for what it has no answer to; names one that has."""


class AdvisingWarning(UserWarning):
    """A warning that says what to do."""

    def __str__(self) -> str:
        return brief(super().__str__())


class ColumnWarning(AdvisingWarning):
    """A column is read otherwise than it is written, or perhaps than it is meant; names it, and
    how to have it as it is."""


class DroppedWarning(ColumnWarning):
    """Columns are not used; names them and says why."""


class GroupWarning(UserWarning):
    """Groups are many, or have few rows: what is learned of them takes long and says little."""


class ClassWarning(UserWarning):
    """The label has many classes: what is learned of them takes long and says little."""


class TableWarning(UserWarning):
    """A value was read as missing because it was not there at fit; names the column and value."""


class SameAsLabelWarning(AdvisingWarning):
    """A sensitive column or a feature says what the label says; names both."""


class LeakWarning(AdvisingWarning):
    """Features give the label or the group away; names them and what to do."""


class DriftWarning(UserWarning):
    """After a fit, Df seems to describe the features and not the label; names the numbers."""


class ContradictionWarning(UserWarning):
    """The rows contradict the assumptions of a latent fair decision; names what does not fit."""


class InterruptedWarning(RuntimeWarning):
    """A fit was interrupted (Ctrl-C): what it had so far is given back."""


def warn_caller(message: Warning | str, category: type[Warning] | None = None) -> None:
    """Warn at the line that called fairpc, however deep inside the reason was found.

    That is the line outside of the first call of ours: what we call may call us again.
    """
    frame, level, outside = inspect.currentframe(), 0, 1
    while frame is not None:
        level += 1
        if f"{frame.f_globals.get('__name__')}.".startswith("fairpc."):
            outside = level + 1
        frame = frame.f_back
    warnings.warn(message, category, stacklevel=outside)


class MetricError(FairpcError, ValueError):
    """Arrays of which a metric, a test or a split makes no sense."""


class QueryError(FairpcError, ValueError):
    """A query in words that cannot be read, or that names what the model does not have."""


class AuditError(FairpcError, ValueError):
    """A model, table or option of which no audit can be made."""


class ComparisonError(FairpcError, ValueError):
    """Methods or folds that cannot be compared."""


class ClusterError(FairpcError, RuntimeError):
    """Workers that are not there, or that could not do what they were given."""


class ForkError(FairpcError, RuntimeError):
    """A forked process was asked for what needs threads that it does not have."""


class PlotError(FairpcError, ValueError):
    """A picture of something that is not there."""


NONE: Final = "practically none"
"""What a sentence says of labels whose estimated number rounds to zero."""


def refuse(error: type[FairpcError], faults: Iterable[tuple[object, str]]) -> None:
    """Raise an error with the sentence of the first fault that is there."""
    for there, sentence in faults:
        if there:
            raise error(sentence)


def counted(n: int, word: str, plural: str | None = None) -> str:
    """1 row, 2 rows, 48,842 rows."""
    return f"{n:,} {word if n == 1 else plural or word + 's'}"


def ranged(low: float, high: float, digits: int = 0) -> str:
    """15 to 33; with a digit more where both read alike, and once where they still do: 97.6."""
    least, most = f"{low:,.{digits}f}", f"{high:,.{digits}f}"
    if least != most:
        return f"{least} to {most}"
    finer, finest = (f"{end:,.{digits + 1}f}" for end in (low, high))
    if finer != finest:
        return f"{finer} to {finest}"
    return least if finer.endswith("0") else finer


def quoted(names: Sequence[Any], most: int) -> str:
    """'a', 'b', …: the first names of a list."""
    return ", ".join(map(repr, names[:most])) + (", …" if len(names) > most else "")
