"""The paper's four distributions as scikit-learn classifiers: validate, encode, call, store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from fairpc.core import (
    ContradictionWarning,
    DriftWarning,
    Floats,
    LearningError,
    Say,
    TableWarning,
    showing_progress,
    warn_caller,
)
from fairpc.data import BINS, EncodingOptions, TableCoding, is_dask, is_source, resolve
from fairpc.models._circuit_queries import FittedQueries
from fairpc.models._distribution import FairDistribution
from fairpc.models._fair_layers import LATENT, Model
from fairpc.models._knowledge import limits_of_coding
from fairpc.models._model import fixed
from fairpc.models._priors import MECHANISM, RECIPE_MECHANISM
from fairpc.models._rows import Rows, TrainingRows
from fairpc.models._settings import (
    Settings,
    check_settings,
    check_validation_data,
    generator,
    refuse_rate,
    rounded_counts,
    small_strata,
    strata_of,
)
from fairpc.models._strata import Strata
from fairpc.models._tables import (
    GivenTable,
    RowReader,
    Training,
    check_fit_input,
    listed,
    memory_bytes,
)

if TYPE_CHECKING:
    from fairpc.models._circuit_fit import Triple
    from fairpc.models._fit import Fitted, Options
    from fairpc.models._guard import Checked
    from fairpc.models._knowledge import Knowledge
    from fairpc.models._review import Reviewed
    from fairpc.models._reviewed_fit import ReviewedRates
    from fairpc.models._top_em import Limits

FINE_BINS: Final = 32
FINE_LEVELS: Final = 128
FINER: Final = 5.0
"""A forest circuit is cut at the table's own values: bins and levels of a column, and by how much
the share under which levels are merged is smaller."""


class CircuitClassifier(Settings, FittedQueries, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base of FairPC, NLatPC, LatNB and TwoNB: their settings, and what follows from them."""

    _model: Model
    _held: ReviewedRates | None = None  #: what a review says, during a fit that is held to it
    _say: Say = staticmethod(lambda text: None)  #: shows what a fit is doing

    def _is_auto(self) -> bool:
        """Whether the model is selected automatically."""
        named = isinstance(self.structure, str) and self.structure == "auto"
        return named and self._model == "FairPC" and self.init == "prior"

    def _may_be_forest(self) -> bool:
        """Whether ``auto`` may take a forest: nothing is asked for that only circuits have."""
        return self._is_auto() and not self._is_forest()

    def _is_forest(self) -> bool:
        """Whether a forest circuit is asked for: of circuits it alone has strata and delta."""
        named = isinstance(self.structure, str) and self.structure == "forest"
        if named or not (listed(self.given) or self.delta):
            return named
        if not self._is_auto():
            raise LearningError(
                "given and delta (--rates-may-differ): circuits that EM fits have neither; use "
                "FairPC with structure='forest', or LatentDecision (--model latent)"
            )
        return True

    @property
    def _tells_two(self) -> bool:
        """Whether labels must have two classes, as scores and the forest circuits from them do."""
        named = isinstance(self.structure, str) and self.structure == "forest"
        return named or self._is_auto()

    def _given_coding(self) -> TableCoding | None:
        """The coding of a model whose structure is kept; None to learn one."""
        kept = self.structure
        return kept._coding() if isinstance(kept, FittedQueries) else None

    def _strata(self, coding: TableCoding) -> Strata:
        """The strata within which Df is independent of S, or nearly so."""
        delta = self.delta if self._held is None else max(self.delta, self._held.delta)
        return strata_of(self.given, coding, delta)

    def _rng(self) -> np.random.Generator:
        return generator(self.random_state)

    def _em_options(
        self, limits: Limits | None = None, rng: np.random.Generator | None = None
    ) -> Options:
        """How EM is run; settings that have the name of an option are handed on."""
        from fairpc.models._fit import Options, Structure

        holds = self._is_auto() or self._is_forest()
        prior = RECIPE_MECHANISM if holds else MECHANISM
        shared = {f.name for f in fields(Options)} & {f.name for f in fields(Settings)}
        given: dict[str, Any] = {name: getattr(self, name) for name in shared}
        given["structure"] = Structure("strudel", self.max_splits, self.patience)
        given["mechanism_prior"] = (
            prior if self.mechanism_prior is None else float(self.mechanism_prior)
        )
        given["random_state"] = self._rng() if rng is None else rng
        return Options(**given, limits=limits)

    def _limits(self, coding: TableCoding, knowledge: Knowledge | None) -> Limits | None:
        """What is known about the groups and classes of this coding: by a review, or stated."""
        if self._held is not None:
            return self._held.exact(coding.labels.positive)
        if not knowledge:
            return None
        if self._model not in LATENT:
            raise LearningError(
                f"knowledge was given to {type(self).__name__}, which has no latent fair "
                "decision: use FairPC or LatNB"
            )
        refuse_rate(knowledge, self.given)
        return limits_of_coding(knowledge, coding)

    def _encoding_options(self, table: GivenTable, *, fine: bool) -> EncodingOptions:
        """How columns are encoded: the boxes of a forest are cut at more values than bins are."""
        names = table.roles.names
        options = EncodingOptions(
            n_bins=BINS if self.n_bins is None else self.n_bins,
            rare=self.rare,
            min_cell=int(self.min_cell),
            numeric=table.roles.numeric,
            categorical=resolve(names, listed(self.categorical), "categorical"),
        )
        if not fine:
            return options
        # Every stratum needs rows: its columns stay coarse.
        strata = resolve(names, listed(self.given), "given")
        return replace(
            options,
            n_bins=FINE_BINS if self.n_bins is None else self.n_bins,
            # No label is held out from bins that were chosen with it; few bins need it.
            binning="label" if self.n_bins is not None else "quantile",
            rare=self.rare / FINER,
            useful=self.rare,  # whether a column is of use is not a matter of how finely it is cut
            max_levels=FINE_LEVELS,
            apart=(strata, options) if strata else None,
        )

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        sample_weight: npt.ArrayLike | None = None,
        reviewed: Reviewed | None = None,
        validation_data: Triple | None = None,
        max_memory: int | str | None = None,
    ) -> Self:
        """Fit to a table, its labels and its groups.

        Args:
            X: frame or array; missing values are allowed. Or a table that is read in batches,
                however long: the path of a Parquet, CSV or Arrow file, a folder, a glob, a
                polars lazy frame, or a Dask frame, whose workers then read it.
            y: recorded labels; missing ones are allowed. The name of a column where X is
                read in batches, as is then ``sample_weight``.
            sensitive_features: groups given apart from X, as in fairlearn; one column or more.
            sample_weight: weight per row; whole ones count rows: divide survey ones by their mean.
            reviewed: answers for rows of X that were drawn with known chances. They decide the
                mechanism and the fair rates, which are tied unless the review contradicts it.
            validation_data: (X, y, sensitive) of rows that say where Strudel stops, and never enter
                parameters; where nothing is chosen by such rows they are training rows.
            max_memory: bytes, or text like "4GB": where the distinct rows of a streamed table take
                more, they stay on disk, structure is learned on a sample, and EM reads them in
                parts. Half of the machine's memory by default.
        """
        from fairpc.models._circuit_fit import CircuitFit
        from fairpc.models._reviewed_fit import refuse_beside_review

        check_settings(self.get_params(deep=False))
        check_validation_data(validation_data)
        refuse_beside_review(reviewed, X, self.given, sample_weight)
        threshold = fixed(self.threshold)
        with ExitStack() as stack, self._showing_progress():
            if reviewed is not None:
                stack.enter_context(self._holding(reviewed, X, y, sensitive_features))
            reader = RowReader(memory_bytes(max_memory), stack)
            if not (is_source(X) or is_dask(X)):
                check_fit_input(self, X, y)
            table = GivenTable.of(
                X,
                y,
                sensitive=self.sensitive,
                sensitive_features=sensitive_features,
                sample_weight=sample_weight,
                missing_values=self.missing_values,
                numeric=listed(self.numeric),
                decimal=self.decimal,
                stack=stack,
                coded=self._given_coding() is not None,
            )
            job = CircuitFit(self, table, reader, self._say, validation_data)
            training = job.training()
            job.warn_of_leaks(training)
            limits = self._limits(training.coding, self.knowledge)
            training, fitted, checked = job.run(training, limits)
            self._store(table, training, fitted, checked)
            self.threshold_ = threshold
            small = small_strata(training.rows, self._strata(training.coding), training.coding)
            if table.source.in_memory:
                validate_data(self, X, skip_check_array=True)  # notes its columns
        for sentence in self.warnings_:
            drifted = sentence in checked.sentences
            warn_caller(sentence, DriftWarning if drifted else ContradictionWarning)
        if small:
            warn_caller(small, TableWarning)
        return self

    @contextmanager
    def _holding(
        self, reviewed: Reviewed, X: Any, y: Any, sensitive_features: Any
    ) -> Iterator[None]:
        """A block in which a fit is held to what reviewed rows say of a quick model's posterior."""
        if self._model not in LATENT:
            raise LearningError(
                f"reviewed rows were given to {type(self).__name__}, which has no latent fair "
                "decision: use FairPC or LatNB"
            )
        from fairpc.models._latent_decision import quick_decision
        from fairpc.models._review import ReviewRows
        from fairpc.models._reviewed_fit import ReviewedRates

        self._say("reading the reviewed rows")
        model = quick_decision(self.get_params(deep=False), X, y, sensitive_features)
        table = ReviewRows.of(model, X, y, sensitive_features)
        self._held = ReviewedRates.of(table, reviewed, model.coding_.group_names)
        try:
            yield
        finally:
            del self._held

    @contextmanager
    def _showing_progress(self) -> Iterator[None]:
        """A block in which the fit says what it does, if ``verbose``."""
        with showing_progress(type(self).__name__, shown=bool(self.verbose)) as self._say:
            try:
                yield
            finally:
                del self._say

    def _store(
        self, table: GivenTable, training: Training, fitted: Fitted, checked: Checked
    ) -> None:
        """Set what was learned, all at once: a fit that fails leaves the object as it was."""
        from fairpc.models._reviewed_fit import knowledge_after

        rows, distribution = training.rows, fitted.distribution
        if not table.source.in_memory:
            self.feature_names_in_ = np.array(training.coding.features.names_in, dtype=object)
            self.n_features_in_ = len(self.feature_names_in_)
        self.coding_ = training.coding
        self.names_ = training.coding.names_of(self.names)
        self.distribution_ = distribution
        self.history_ = fitted.history
        self.converged_ = fitted.converged
        self.choices_ = fitted.choices
        self.n_iter_ = max(len(fitted.history["objective"]) - 1, 1)
        reviewed = () if self._held is None else self._held.warnings
        self.warnings_ = (*reviewed, *checked.contradictions, *checked.sentences)
        self.label_ends_ = checked.label_bounds
        counts, self.log_likelihood_ = label_counts(rows, distribution)
        self.label_counts_ = rounded_counts(counts, int(self.min_cell))
        self.mechanism_without_prior_ = fitted.without_prior
        self.prior_rows_ = self._em_options().mechanism_prior
        self.data_fingerprint_ = training.fingerprint
        self.table_options_ = {}
        self.knowledge_ = knowledge_after(self.knowledge, self._held, training.coding)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        # A decision that does not depend on S need not be near a label that does.
        tags.classifier_tags.poor_score = self._model != "TwoNB"
        tags.classifier_tags.multi_class = not self._tells_two
        return tags


def label_counts(rows: TrainingRows, distribution: FairDistribution) -> tuple[Floats, float]:
    """Expected weight with Df = f and D = d in group s, [s, f, d]; see ``altered``.

    And the mean log P of a row of the table, of those too that were held out to choose a structure.
    """
    found = list(rows.map(partial(_counted, distribution)))
    counts: Floats = sum((some for some, _, _ in found), np.zeros(()))
    return counts, sum(logs for _, logs, _ in found) / sum(weight for _, _, weight in found)


def _counted(distribution: FairDistribution, rows: Rows) -> tuple[Floats, float, float]:
    """Counts of rows whose group and label are recorded, as an audit counts them; logs of all."""
    counts, logs = distribution.altered_and_likelihood(rows)
    recorded = np.flatnonzero((rows.s >= 0) & (rows.d >= 0))
    if len(recorded) < len(rows.s):
        counts = distribution.altered(rows.take(recorded)) if len(recorded) else 0.0 * counts
    return counts, logs, float(rows.weights.sum())


class FairPC(CircuitClassifier):
    """P(s) P(f) P(d | f, s) P(x | f, s): a latent fair decision Df, independent of S.

    D is a noisy, group-dependent copy of Df and independent of X given (Df, S);
    each P(x | f, s) is a probabilistic circuit. ``predict_proba`` gives P(Df | …).
    Under the model the mean score is the same in every group; equal selection
    rates and parity on other rows do not follow.

    Args:
        sensitive: columns of X that are the sensitive attribute (names, or numbers for an
            array); or give ``sensitive_features`` to the methods.
        positive: the class that is meant by "positive"; the last one by default.
        names: what people call values of the label and of groups, by column: ``{"sex": {"F":
            "women"}}``; audits use them. Values that differ by case alone need one.
        given: legitimate factors, columns of X: Df is independent of S within each crossing of
            their values, a stratum, in place of the whole table. Each has a mechanism of its own.
            "auto" then takes a forest circuit, which alone of circuits has strata.
        delta: by how much P(Df | s) of two groups may differ, with two classes; 0 makes Df
            independent of S. "auto" then takes a forest circuit, too.
        structure: "auto", automatic selection by held-out labels; "strudel", the paper's;
            "chow-liu", one tree; "forest", boxes that predict the label; or a fitted model or
            circuit whose structure is kept and whose parameters EM starts from. "auto" and
            "forest" take labels of two classes.
        init: "prior" starts with Df near D, "random" with any parameters.
        smoothing: Laplace smoothing of all parameters.
        mechanism_prior: prior rows per (f, s) with P(D = f) = .9; None: 30 for "auto" and
            "forest", else 0.
        knowledge: what is known beforehand about P(Df) and P(D | Df, S); EM keeps to it.
        max_splits, patience: bounds of Strudel's search.
        max_iter, tol, min_iter: updates of EM, and when it may stop before.
        validation_fraction: part of the rows held out to say where Strudel stops.
        threshold: score above which ``predict`` gives the positive class.
        n_bins, rare: bins of a numeric column, None: 8, or 32 for a forest; share under which
            levels are merged, a fifth of it for a forest.
        min_cell: levels, bins, groups and strata of fewer people are merged or count as missing, so
            that neither the model nor its file tells of them; 1 tells all.
        numeric, categorical: columns that are binned, or whose values are levels, whatever they
            look like.
        missing_values: values that mean "missing", besides NaN and null.
        decimal: the decimal mark of numbers that are text, "." or ",".
        guard: after the fit of a model with a latent fair decision, check that it is still about
            the label; ``warnings_`` and a DriftWarning say where not.
        random_state: seed.
        verbose: a line of progress on the terminal.
    """

    _model: Model = "FairPC"


class NLatPC(CircuitClassifier):
    """P(s) P(d) P(x | d, s): the recorded label itself is made independent of S.

    ``structure="auto"`` means Strudel; ``predict_proba`` gives P(D | …). Other
    parameters as for :class:`FairPC`.
    """

    _model: Model = "NLatPC"


@dataclass(eq=False, repr=False, kw_only=True)
class _Naive(CircuitClassifier):
    """Models whose features are independent given the cell: they have no structure to choose."""

    # No parameters of these models; their defaults stay.
    structure: Literal["auto"] = field(init=False)
    max_splits: int = field(init=False)
    patience: int = field(init=False)
    validation_fraction: float = field(init=False)


class LatNB(_Naive):
    """FairPC with independent features in each cell: P(x | f, s) = ∏ P(x_i | f, s).

    Parameters as for :class:`FairPC`.
    """

    _model: Model = "LatNB"


class TwoNB(_Naive):
    """P(s, d) ∏ P(x_i | d, s), the paper's 2NB: one naive Bayes model per group.

    Nothing ties the label to be independent of S. Parameters as for :class:`FairPC`.
    """

    _model: Model = "TwoNB"
