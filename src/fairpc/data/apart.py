"""The label and the sensitive attribute must not be one thing under two names."""

from __future__ import annotations

import numpy as np

from fairpc.data.groups import Groups
from fairpc.data.labels import Labels
from fairpc.errors import TableError
from fairpc.errors.arrays import Codes


def check_apart(groups: Groups, labels: Labels, s: Codes, d: Codes) -> None:
    """Refuse a sensitive column that says what the label says; see ``same_as_label``."""
    same = same_as_label(groups, labels, s, d)
    if same is not None:
        raise TableError(same)


def same_as_label(groups: Groups, labels: Labels, s: Codes, d: Codes) -> str | None:
    """A sentence about a sensitive column that says what the label says, row by row; or None.

    ``s`` and ``d`` are the group and the class of each row. Where they go together
    one to one, there is nothing that a decision apart from the group could be
    learned from. A number that was cut into groups says more than they do, and is let pass.
    """
    known = (s >= 0) & (d >= 0)
    n_groups, n_classes = len(groups.cells), len(labels.classes)
    pairs = s[known].astype(np.int64) * n_classes + d[known]
    seen = np.bincount(pairs, minlength=n_groups * n_classes).reshape(n_groups, n_classes) > 0
    for j, column in enumerate(groups.columns):
        values = np.array([cell[j] for cell in groups.cells])
        together = np.stack([seen[values == v].any(axis=0) for v in np.unique(values)])
        together = together[together.any(axis=1)][:, together.any(axis=0)]
        one_to_one = (together.sum(axis=0) == 1).all() and (together.sum(axis=1) == 1).all()
        if one_to_one and len(together) > 1 and not column.binned:
            return (
                f"the sensitive column {column.name!r} says the same as the label "
                f"{labels.name!r} in every row: nothing about decisions can be learned from it, "
                "give another column"
            )
    return None
