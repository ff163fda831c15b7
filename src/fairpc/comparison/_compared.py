"""What a comparison found: scores per method and fold, means, ranges against the fair decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Final, Literal

import numpy as np
import polars as pl

from fairpc.core import ComparisonError, MissingExtraError, Record, check_choice, serialise
from fairpc.evidence import Interval

CAPTION: Final = (
    "Every number is of rows that the method was not fitted to. Accuracy, F1 and AUC are measured "
    "against the recorded label, which may be biased: more agreement is not simply better."
)


@dataclass(frozen=True)
class FoldScore:
    """One method on the test rows of one fold; None where a number is not defined."""

    method: str
    fold: int
    n_test: int  #: test rows with a known label and group
    accuracy: float  #: against the recorded label, as F1 and AUC of the positive class
    f1: float | None
    auc: float | None
    log_likelihood: float | None  #: mean log P(x, s, d), in nats; of distributions only
    discrimination: float | None  #: largest gap between groups of the mean score for the positive
    selection_gap: float | None  #: the same of positive decisions
    fit_seconds: float  #: time of the fit


@dataclass(frozen=True)
class FairRanges(Record):
    """One method against the latent fair decision: least and largest values that are possible."""

    accuracy: Interval
    tpr_gap: Interval  #: largest difference between groups of true positive rates
    fpr_gap: Interval  #: the same of false positive rates


_SCORES: Final = tuple(f.name for f in fields(FoldScore))[3:]


@dataclass(frozen=True, eq=False)
class Comparison(Record):
    """What a comparison found."""

    scores: tuple[FoldScore, ...]  #: per method and fold
    failures: Mapping[str, str]  #: method -> why it could not be run; such a method has no scores
    #: methods that take no missing cells; theirs were filled (a level of its own, or the mean of
    #: the training rows)
    filled: tuple[str, ...]
    #: columns that ordinary classifiers were not given, because every row has its own value, or
    #: nearly; our models drop them by themselves, by the same rule
    identifiers: tuple[str, ...]
    positive: str  #: the class that F1, AUC and gaps are of
    n_rows: int
    n_folds: int
    #: method -> its ranges against the latent fair decision
    fair: Mapping[str, FairRanges] = field(default_factory=dict)
    no_fair: Mapping[str, str] = field(default_factory=dict)  #: method -> why it has none
    caption: str = CAPTION  #: what the numbers mean

    _computed: ClassVar[tuple[str, ...]] = ("means",)

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
            for own in fields(FairRanges):
                ends = (None, None)
                if method in self.fair:
                    ends = getattr(self.fair[method], own.name)
                row[f"fair_{own.name}_low"], row[f"fair_{own.name}_high"] = ends
            result.append(row)
        return tuple(result)

    @property
    def frame(self) -> pl.DataFrame:
        """:meth:`means` as a polars frame, a row per method."""
        return pl.DataFrame(self.means(), infer_schema_length=None)

    @property
    def per_fold(self) -> pl.DataFrame:
        """The scores as a polars frame, a row per method and fold."""
        rows = [serialise(score) for score in self.scores]
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

    def _repr_html_(self) -> str:
        return str(self.frame._repr_html_())
