"""What a fitted circuit can be asked besides: any probability, rows drawn, completed, explained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fairpc.circuit import Circuit
from fairpc.core import Codes, EvidenceError, Floats, LearningError, MissingExtraError
from fairpc.models._batches import in_batches
from fairpc.models._decisions import FittedDecisions, GivenRows
from fairpc.models._distribution import FairDistribution, leave_one_out
from fairpc.models._model import Contribution
from fairpc.models._query_events import both
from fairpc.models._query_language import Vocabulary


class FittedQueries(FittedDecisions):
    """Queries of a fitted circuit; what they read is set by ``fit`` or by ``fairpc.load``."""

    distribution_: FairDistribution

    @property
    def circuit_(self) -> Circuit:
        """The distribution as a circuit: S, Df if there is one, D, then the features used."""
        return self._distribution().circuit

    def _distribution(self) -> FairDistribution:
        check_is_fitted(self, "distribution_")
        return self.distribution_

    def _fair(self) -> FairDistribution:
        return self._distribution()

    def _features_of(self, given: GivenRows) -> Codes:
        return given.codes.x

    @in_batches
    def score_samples(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Floats:
        """log P of each row; what is missing is marginalised.

        A number has a log density, uniform within its bin, per unit or per day of a date.
        ``y`` is the name of a column where X is read in batches.
        """
        coding = self._coding()
        groups, features = self._evidence(X, sensitive_features)
        labels = None if y is None else coding.labels.transform(y)
        logs = self._distribution().log_likelihood(groups, labels, features)
        return logs + coding.features.log_density(features)

    def sample(self, n: int, random_state: int | None = None, *, library: str = "polars") -> Any:
        """Complete rows drawn from the model, as a frame: features, group, label, decision.

        Numbers are drawn uniformly from their bin.
        """
        rng = np.random.default_rng(random_state)
        codes = self._distribution().circuit.sample(n, rng)
        return _frame(
            self._columns(codes, self._coding().features.drawn(self._x(codes), rng)), library
        )

    def complete(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, library: str = "polars"
    ) -> Any:
        """The most probable completion of each row, jointly with its group, label and decision.

        What is known stays. A number that is not known is the middle of its most probable bin. A
        forest circuit is completed within its most probable box, so the decision here need not be
        that of ``predict``.
        """
        coding = self._coding()
        groups, features = self._evidence(X, sensitive_features, allow_absent=True)
        labels = None if y is None else coding.labels.transform(y)
        distribution = self._distribution()
        codes, _ = distribution.circuit.mpe(distribution.layout.codes(groups, labels, features))
        given, found = coding.features.numbers(X), coding.features.medians(self._x(codes))
        numbers = {n: np.where(np.isnan(given[n]), found[n], given[n]) for n in given}
        return _frame(self._columns(codes, numbers), library)

    def _x(self, codes: Codes) -> Codes:
        """Codes of the features in rows of the circuit."""
        return codes[:, list(self._distribution().layout.x)]

    def _columns(self, codes: Codes, numbers: Mapping[str, Floats]) -> dict[str, Any]:
        """Complete rows of the circuit as columns of values: features, S, D, Df."""
        coding, layout = self._coding(), self._distribution().layout
        columns: dict[str, Any] = {**coding.features.inverse(self._x(codes), numbers)}
        columns["S"] = [coding.groups.values[s] for s in codes[:, 0]]
        columns["D"] = coding.labels.inverse(codes[:, layout.d]).tolist()
        if layout.latent:
            columns["Df"] = coding.labels.inverse(codes[:, layout.decision]).tolist()
        return columns

    def probability(
        self, event: Mapping[str, Any], given: Mapping[str, Any] | None = None
    ) -> float:
        """P(event | given), exactly, for any values of any variables.

        Names are those of columns, and "S", "D", "Df": a group, an observed class, a
        decision. ``probability({"Df": "good"}, {"sex": "F", "job": "clerk"})``. Of a column of
        numbers or dates, a pair is an interval, its upper end left out and None for no end:
        ``{"age": (38, None)}``. A number that is not whole stands for its bin. What
        involves "Df" is at the point of the mechanism; `fairpc query` has its range.
        """
        words = self._words()
        known = words.event(given or {})
        asked = both(known, words.event(event))
        total, together = words.log_masses([known, asked]).tolist()
        if total == -np.inf:
            raise EvidenceError(f"{dict(given or {})} has probability zero: leave out a value", 0)
        return float(np.exp(min(together - total, 0.0)))

    def _words(self) -> Vocabulary:
        """What words and numbers mean in this model."""
        coding = self._coding()
        meanings = coding.features, coding.labels, coding.groups
        return Vocabulary(self._distribution(), *meanings, self.label_ends_)

    def contributions(
        self, row: Any, *, sensitive_features: Any = None
    ) -> tuple[Contribution, ...]:
        """How each known value of one row moved its score, exactly, by leaving it out.

        ``row`` is a frame or array with a single row; largest changes first.
        """
        coding = self._coding()
        groups, features = self._evidence(row, sensitive_features, allow_absent=True)
        if len(features) != 1:
            raise LearningError(
                f"{len(features)} rows were given: contributions takes one at a time"
            )
        group = -1 if groups is None else int(groups[0])
        changes = leave_one_out(self._distribution(), group, features[0], coding.labels.positive)
        values = coding.features.inverse(features)
        known = [("group", None if group < 0 else coding.groups.values[group])]
        known += [(name, values[name][0]) for name in coding.features.names]
        parts = [
            Contribution(name, value, float(change), sensitive=not i)
            for i, ((name, value), change) in enumerate(zip(known, changes, strict=True))
            if value is not None
        ]
        return tuple(sorted(parts, key=lambda part: -abs(part.change)))

    def _evidence(
        self, X: Any, sensitive_features: Any, *, allow_absent: bool = False
    ) -> tuple[Codes | None, Codes]:
        """Codes of S, None where it is not given, and of X; arrays must be as wide as at fit."""
        self._check_width(X)
        return self._coding().evidence(X, sensitive_features, allow_absent=allow_absent)


def _frame(columns: dict[str, Any], library: str) -> Any:
    if library == "dict":
        return columns
    if library == "polars":
        import polars as pl

        return pl.DataFrame(columns, strict=False)
    if library == "pandas":
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtraError(
                "pandas is not installed: pip install 'fairpc[frames]', or take library='polars'"
            ) from error
        return pd.DataFrame(columns)
    raise LearningError(f"library is {library!r}: choose 'polars', 'pandas' or 'dict'")
