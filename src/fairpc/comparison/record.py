"""The record of a comparison: scores per method and fold, their means, a picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from fairpc.errors import ComparisonError, MissingExtraError
from fairpc.errors.arrays import check_choice
from fairpc.evidence.plain import fields_of, plain
from fairpc.plots import trade_off

if TYPE_CHECKING:
    import polars as pl

CAPTION: Final = (
    "Every number is of rows that the method was not fitted to. Accuracy, F1 and AUC are measured "
    "against the observed label, which may be biased: more agreement is not simply better."
)
_SCORES: Final = (
    "accuracy", "f1", "auc", "log_likelihood", "discrimination", "selection_gap", "fit_seconds",
)  # fmt: skip


@dataclass(frozen=True)
class FoldScore:
    """One method on the test rows of one fold; None where a number is not defined.

    Attributes:
        n_test: test rows with a known label and group.
        accuracy, f1, auc: against the observed label; F1 and AUC of the positive class.
        log_likelihood: mean log P(x, s, d) of the test rows, in nats; of distributions only.
        discrimination: largest difference between groups of the mean score of the positive class.
        selection_gap: the same of positive decisions.
        fit_seconds: time of the fit.
    """

    method: str
    fold: int
    n_test: int
    accuracy: float
    f1: float | None
    auc: float | None
    log_likelihood: float | None
    discrimination: float | None
    selection_gap: float | None
    fit_seconds: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """What a comparison found.

    Attributes:
        scores: per method and fold.
        failures: method -> why it could not be run; such a method has no scores.
        filled: methods that take no missing cells; theirs were filled (a level of its own, or
            the mean of the training rows).
        positive: the class that F1, AUC and gaps are of.
        n_rows, n_folds: what was compared on.
        caption: what the numbers mean.
    """

    scores: tuple[FoldScore, ...]
    failures: Mapping[str, str]
    filled: tuple[str, ...]
    positive: str
    n_rows: int
    n_folds: int
    caption: str = CAPTION

    @cached_property
    def methods(self) -> tuple[str, ...]:
        """Methods that could be run, in the order in which they were given."""
        return tuple(dict.fromkeys(score.method for score in self.scores))

    def means(self) -> tuple[dict[str, Any], ...]:
        """Per method the mean over folds of each score, and its standard deviation (``…_sd``)."""
        result = []
        for method in self.methods:
            mine = [score for score in self.scores if score.method == method]
            row: dict[str, Any] = {"method": method, "folds": len(mine)}
            for name in _SCORES:
                known = [getattr(s, name) for s in mine if getattr(s, name) is not None]
                row[name] = float(np.mean(known)) if known else None
                row[f"{name}_sd"] = float(np.std(known, ddof=1)) if len(known) > 1 else None
            result.append(row)
        return tuple(result)

    @property
    def frame(self) -> pl.DataFrame:
        """:meth:`means` as a polars frame, a row per method."""
        import polars as pl

        return pl.DataFrame(self.means(), infer_schema_length=None)

    @property
    def per_fold(self) -> pl.DataFrame:
        """The scores as a polars frame, a row per method and fold."""
        import polars as pl

        rows = [fields_of(score) for score in self.scores]
        return pl.DataFrame(rows, infer_schema_length=None)

    def to_frame(self, library: Literal["polars", "pandas", "pyarrow"] = "polars") -> Any:
        """:attr:`frame` in a library of choice."""
        check_choice("library", library, ("polars", "pandas", "pyarrow"), ComparisonError)
        if library == "polars":
            return self.frame
        try:
            return self.frame.to_pandas() if library == "pandas" else self.frame.to_arrow()
        except ImportError as error:
            raise MissingExtraError(
                f"{library} is not installed: pip install 'fairpc[frames]'"
            ) from error

    def to_dict(self) -> dict[str, Any]:
        """Means, scores per fold, failures and caption as plain data, for JSON."""
        return fields_of(self) | {"means": plain(self.means())}

    def plot(self, ax: Any = None) -> Any:
        """Accuracy against discrimination, a mark per method (matplotlib); the axes."""
        return trade_off(self.means(), caption=self.caption, ax=ax)

    def _repr_html_(self) -> str:
        return str(self.frame._repr_html_())
