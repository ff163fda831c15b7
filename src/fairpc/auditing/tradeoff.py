"""The audited model beside other methods, all on rows they were not fitted to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fairpc.auditing.rows import AuditedRows
from fairpc.comparison import Comparison, compare, default_baselines
from fairpc.errors import AuditError
from fairpc.estimators.base import CircuitClassifier
from fairpc.refits.workbench import Report

CAPTION: Final = (
    "Accuracy, F1 and AUC are measured against the observed label, which may be biased: more "
    "agreement is not simply better."
)


@dataclass(frozen=True)
class TradeOff:
    """Agreement with the label against gaps between groups, method by method.

    Attributes:
        audited: name of the audited model among the methods.
        how: how each number comes from rows that a method has not seen.
        caption: what the numbers are measured against.
        n_rows, n_folds: what was compared on.
        methods: per method the mean over folds of each score, and its ``…_sd``.
        failures: method -> why it could not be run.
        filled: methods whose missing cells were filled, because they take none.
    """

    audited: str
    how: str
    caption: str
    n_rows: int
    n_folds: int
    methods: tuple[Mapping[str, Any], ...]
    failures: Mapping[str, str]
    filled: tuple[str, ...]


def trade_off(
    model: CircuitClassifier,
    rows: AuditedRows,
    *,
    same_rows_as_fit: bool,
    n_all: int,
    cv: int,
    random_state: int,
    progress: Report | None,
) -> TradeOff:
    """Compare on folds of the given rows.

    The training rows of the model are no test of it: it is fitted again on each training part,
    with its settings. On other rows it is taken as it is; whether some of them are training rows
    a fingerprint cannot tell, so that is said. No method sees columns that the fit did not have.
    """
    if not (rows.d >= 0).any():
        raise AuditError("no label is known: methods cannot be compared without")
    from sklearn.frozen import FrozenEstimator

    name = type(model).__name__
    audited = model if same_rows_as_fit else FrozenEstimator(model)
    methods = {name: audited} | default_baselines(random_state)
    found = compare(
        methods, rows.as_at_fit(), rows.labels, sensitive_features=rows.sensitive, cv=cv,
        groups=rows.persons, positive=model.positive_class_, random_state=random_state,
        progress=progress,
    )  # fmt: skip
    return TradeOff(
        audited=name,
        how=_how(found, model, same_rows_as_fit, n_all, rows.weights is not None),
        caption=CAPTION,
        n_rows=found.n_rows,
        n_folds=found.n_folds,
        methods=found.means(),
        failures=found.failures,
        filled=found.filled,
    )


def _how(
    found: Comparison,
    model: CircuitClassifier,
    same_rows_as_fit: bool,
    n_all: int,
    weighted: bool,
) -> str:
    name = type(model).__name__
    sample = "" if found.n_rows == n_all else f"a random sample of {found.n_rows:,} of "
    alike = ", which count alike here" if weighted else ""
    rows = f"{sample}the {n_all:,} audited rows{alike}, in {found.n_folds} folds"
    if same_rows_as_fit:
        chosen = ""
        if model.threshold_.values != (model.threshold,):
            chosen = f" Its threshold there is that of its settings, {model.threshold:g}."
        return (
            f"On {rows}: every method, {name} with the settings of the audited model, was fitted "
            f"again without the rows of a fold and tested on them.{chosen}"
        )
    return (
        f"On {rows}: {name} is the audited model as it is, not fitted again; its numbers are of "
        "rows that it has not seen only if none of these was among the rows of its fit. The other "
        "methods were fitted to the audited rows outside a fold and tested on it."
    )
