"""Settings of an estimator: whether they are what they are said to be, and as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any, Final

import numpy as np

from fairpc.errors import LearningError
from fairpc.fair.knowledge import Knowledge

WHOLE: Final = ("n_init", "max_splits", "patience", "max_iter", "min_iter", "n_bins")
NUMBERS: Final = ("smoothing", "tol", "validation_fraction", "threshold", "rare")
COLUMNS: Final = ("sensitive", "numeric", "categorical")


def check_settings(settings: Mapping[str, Any]) -> None:
    """A LearningError names the first setting whose type is wrong; ranges are checked in use."""
    for name, value in settings.items():
        rule = _broken_rule(name, value)
        if rule:
            raise LearningError(f"{name} is {value!r}: give {rule}")


def check_beside(validation_data: Any, eval_set: Any, callback: Any) -> None:
    """The same for what ``fit`` is given beside its rows."""
    if not (eval_set is None or isinstance(eval_set, Mapping)):
        raise LearningError(
            f"eval_set is a {type(eval_set).__name__}: give a mapping from a name to (X, y, "
            "sensitive features)"
        )
    for triple in (validation_data, *(eval_set or {}).values()):
        if triple is not None and not (isinstance(triple, tuple | list) and len(triple) == 3):
            raise LearningError(
                "rows beside the training rows are given as (X, y, sensitive features); the last "
                "is None where the sensitive columns are in X"
            )
    if not (callback is None or callable(callback)):
        raise LearningError(f"callback is {callback!r}: give a function of one step of EM")


def _broken_rule(name: str, value: Any) -> str | None:
    """What a setting must be, where it is not."""
    rule, kept = None, True
    if name in WHOLE:
        rule, kept = "a whole number", _is_whole(value)
    elif name in NUMBERS:
        rule, kept = "a number", _is_number(value)
    elif name == "n_components":
        rule, kept = "a whole number, or None", value is None or _is_whole(value)
    elif name == "mechanism_prior":
        rule, kept = "a number, or None", value is None or _is_number(value)
    elif name == "equal_mass":
        rule, kept = "True or False", isinstance(value, bool | np.bool_)
    elif name == "verbose":
        rule, kept = "True, False or a whole number", isinstance(value, Integral | np.bool_)
    elif name in COLUMNS:
        rule = "the name or number of a column, or a list of them"
        kept = _is_column(value) or _is_list(value, _is_column)
        kept = kept or (name == "sensitive" and value is None)
    elif name == "missing_values":
        rule, kept = "a list of texts and numbers", _is_list(value, _is_value)
    elif name == "random_state":
        rule = "a whole number from 0 to 2**32 - 1, a generator of numpy, or None"
        known = np.random.Generator | np.random.RandomState
        seed = _is_whole(value) and 0 <= value < 2**32
        kept = seed or value is None or value is np.random or isinstance(value, known)
    return None if kept else rule


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_column(value: Any) -> bool:
    return isinstance(value, str) or _is_whole(value)


def _is_value(value: Any) -> bool:
    return isinstance(value, str) or _is_number(value)


def _is_list(value: Any, is_item: Any) -> bool:
    """Whether a value is a list of such items; a text is one word, not a list of its letters."""
    return isinstance(value, Iterable) and not isinstance(value, str) and all(map(is_item, value))


def plain(value: Any) -> Any:
    """A setting as JSON; None for what is none (a random generator has no spelling)."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Knowledge):
        return value.to_dict()
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value if isinstance(value, str | int | float | bool) else None
