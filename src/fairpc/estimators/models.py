"""The paper's four distributions as scikit-learn classifiers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from fairpc.circuit.em import Step
from fairpc.circuit.graph import Circuit
from fairpc.errors import Argument, LearningError
from fairpc.errors.arrays import check_choice
from fairpc.estimators.base import CircuitClassifier
from fairpc.estimators.inputs import Coding
from fairpc.fair.fit import VALIDATION, Fitted, Options, fit_parameters
from fairpc.fair.knowledge import Knowledge, Limits
from fairpc.fair.parts import hold_out
from fairpc.fair.recipe import fit_auto
from fairpc.fair.rows import Rows
from fairpc.fair.start import Structure
from fairpc.fair.starts import fit_starts
from fairpc.fair.top import Layout, Model
from fairpc.structure.search import MODEL_METHODS, ModelMethod

Sensitive = str | int | Sequence[str | int] | None
StructureChoice = Literal["auto", ModelMethod]


class _Learned(CircuitClassifier):
    """Models whose P(x | f, s) are learned circuits."""

    def __init__(
        self,
        sensitive: Sensitive = None,
        *,
        positive: Any = None,
        structure: StructureChoice | CircuitClassifier | Circuit = "auto",
        n_components: int | None = None,
        init: Literal["prior", "random"] = "prior",
        n_init: int = 1,
        smoothing: float = 1.0,
        mechanism_prior: float | None = None,
        knowledge: Knowledge | None = None,
        max_splits: int = 1000,
        patience: int = 100,
        max_iter: int = 500,
        tol: float = 1e-6,
        min_iter: int = 20,
        validation_fraction: float = 0.1,
        equal_mass: bool = False,
        threshold: float = 0.5,
        n_bins: int = 8,
        rare: float = 0.005,
        numeric: Sequence[str | int] = (),
        categorical: Sequence[str | int] = (),
        missing_values: tuple[Any, ...] = (),
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.sensitive = sensitive
        self.positive = positive
        self.structure = structure
        self.n_components = n_components
        self.init = init
        self.n_init = n_init
        self.smoothing = smoothing
        self.mechanism_prior = mechanism_prior
        self.knowledge = knowledge
        self.max_splits = max_splits
        self.patience = patience
        self.max_iter = max_iter
        self.tol = tol
        self.min_iter = min_iter
        self.validation_fraction = validation_fraction
        self.equal_mass = equal_mass
        self.threshold = threshold
        self.n_bins = n_bins
        self.rare = rare
        self.numeric = numeric
        self.categorical = categorical
        self.missing_values = missing_values
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _fit_rows(
        self,
        rows: Rows,
        validation: Rows | None,
        evaluation: Mapping[str, Rows],
        limits: Limits | None,
        callback: Callable[[Step], object],
    ) -> Fitted:
        if isinstance(self.structure, CircuitClassifier | Circuit):
            return self._fit_kept(rows, validation, evaluation, limits, callback)
        check_choice("structure", self.structure, ("auto", *MODEL_METHODS))
        if self._is_auto():
            return fit_auto(
                rows, validation=validation, evaluation=evaluation,
                options=self._em_options(limits),
                n_components=self.n_components, validation_fraction=self.validation_fraction,
                on_step=callback,
            )  # fmt: skip
        if (self.n_components or 1) != 1:
            raise LearningError(
                Argument("n_components"),
                f" is {self.n_components}: mixtures are made by ",
                Argument("structure", "'auto'"),
                " of FairPC with init='prior'; use 1 otherwise",
            )
        method = "strudel" if self.structure == "auto" else self.structure
        train, held_out = rows, validation
        if validation is None and method == "strudel":
            train, held_out = hold_out(rows, self.validation_fraction, self._rng())
        return fit_starts(
            self._model, train, validation=held_out, evaluation=evaluation,
            options=replace(self._em_options(limits), structure=self._search(method)),
            n_init=self.n_init, callback=callback,
        )  # fmt: skip

    def _given_coding(self) -> Coding | None:
        kept = self.structure
        return kept._coding() if isinstance(kept, CircuitClassifier) else None

    def _fit_kept(
        self,
        rows: Rows,
        validation: Rows | None,
        evaluation: Mapping[str, Rows],
        limits: Limits | None,
        callback: Callable[[Step], object],
    ) -> Fitted:
        """EM from the parameters of a model or circuit, its structure kept."""
        kept = self.structure.circuit_ if isinstance(self.structure, _Learned) else self.structure
        layout = Layout.of(self._model, rows)
        if isinstance(self.structure, CircuitClassifier):
            layout = self.structure._distribution().layout
        if not isinstance(kept, Circuit) or layout.variables != dict(
            zip(kept.names, kept.arities.tolist(), strict=True)
        ):
            raise LearningError(
                f"the structure to keep is not over {', '.join(layout.variables)}: give a fitted "
                f"{type(self).__name__}, or a circuit over these variables"
            )
        watched = dict(evaluation) | ({} if validation is None else {VALIDATION: validation})
        options = self._em_options(limits)
        return fit_parameters(self._model, layout, kept, rows, watched, options, callback)

    def _is_auto(self) -> bool:
        """Whether the recipe fits the model."""
        named = isinstance(self.structure, str) and self.structure == "auto"
        return named and self._model == "FairPC" and self.init == "prior"

    def _search(self, method: str) -> Structure:
        return Structure(method, self.max_splits, self.patience)

    def _em_options(self, limits: Limits | None = None) -> Options:
        prior = 30.0 if self._is_auto() else 0.0
        return Options(
            structure=self._search("strudel"), init=self.init, smoothing=self.smoothing,
            mechanism_prior=prior if self.mechanism_prior is None else float(self.mechanism_prior),
            max_iter=self.max_iter, tol=self.tol, min_iter=self.min_iter,
            equal_mass=self.equal_mass, random_state=self._rng(), limits=limits,
            journal=self._journal,
        )  # fmt: skip


class FairPC(_Learned):
    """P(s) P(f) P(d | f, s) P(x | f, s): a latent decision Df, independent of S.

    D is a noisy, group-dependent copy of Df and independent of X given (Df, S);
    each P(x | f, s) is a probabilistic circuit. ``predict_proba`` gives P(Df | …).
    Under the model the mean score is the same in every group; equal selection
    rates and parity on other rows do not follow.

    Args:
        sensitive: columns of X that are the sensitive attribute (names, or numbers for an
            array); or give ``sensitive_features`` to the methods.
        positive: the class that is meant by "positive"; the last one by default.
        structure: "auto", a recipe that chooses on validation rows; "strudel", the
            paper's; "chow-liu", one tree; or a fitted model or circuit whose structure is
            kept and whose parameters EM starts from.
        n_components: circuits mixed inside each P(x | f, s); None lets "auto" choose.
        init: "prior" starts with Df near D, "random" with any parameters.
        n_init: random starts; all are kept in ``starts_``.
        smoothing: Laplace smoothing of all parameters.
        mechanism_prior: prior rows per (f, s) with P(D = f) = .9; None: 30 for "auto", else 0.
        knowledge: what is known beforehand about P(Df) and P(D | Df, S); EM keeps to it.
        max_splits, patience: bounds of the structure search.
        max_iter, tol, min_iter: updates of EM, and when it may stop before.
        validation_fraction: part of the rows held out to choose structure, where needed.
        equal_mass: shift the log-odds of Df in each E-step so that its mass in the training
            rows is the same in all groups; not in the paper, and the objective may fall.
        threshold: score above which ``predict`` gives the positive class.
        n_bins, rare: bins of a numeric column; share under which levels are merged.
        numeric, categorical: columns that are binned, or whose values are levels, whatever they
            look like.
        missing_values: values that mean "missing", besides NaN and null.
        random_state: seed.
        n_jobs: not used; for scikit-learn's tools.
        verbose: a line of progress on the terminal.
    """

    _model: Model = "FairPC"


class NLatPC(_Learned):
    """P(s) P(d) P(x | d, s): the observed label itself is made independent of S.

    ``structure="auto"`` means Strudel; ``predict_proba`` gives P(D | …). Other
    parameters as for :class:`FairPC`.
    """

    _model: Model = "NLatPC"


class _Naive(CircuitClassifier):
    """Models whose features are independent given the cell."""

    def __init__(
        self,
        sensitive: Sensitive = None,
        *,
        positive: Any = None,
        init: Literal["prior", "random"] = "prior",
        n_init: int = 1,
        smoothing: float = 1.0,
        mechanism_prior: float | None = None,
        knowledge: Knowledge | None = None,
        max_iter: int = 500,
        tol: float = 1e-6,
        min_iter: int = 20,
        threshold: float = 0.5,
        n_bins: int = 8,
        rare: float = 0.005,
        numeric: Sequence[str | int] = (),
        categorical: Sequence[str | int] = (),
        missing_values: tuple[Any, ...] = (),
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.sensitive = sensitive
        self.positive = positive
        self.init = init
        self.n_init = n_init
        self.smoothing = smoothing
        self.mechanism_prior = mechanism_prior
        self.knowledge = knowledge
        self.max_iter = max_iter
        self.tol = tol
        self.min_iter = min_iter
        self.threshold = threshold
        self.n_bins = n_bins
        self.rare = rare
        self.numeric = numeric
        self.categorical = categorical
        self.missing_values = missing_values
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _fit_rows(
        self,
        rows: Rows,
        validation: Rows | None,
        evaluation: Mapping[str, Rows],
        limits: Limits | None,
        callback: Callable[[Step], object],
    ) -> Fitted:
        return fit_starts(
            self._model, rows, evaluation=evaluation, options=self._em_options(limits),
            n_init=self.n_init, callback=callback,
        )  # fmt: skip

    def _em_options(self, limits: Limits | None = None) -> Options:
        return Options(
            init=self.init, smoothing=self.smoothing,
            mechanism_prior=self.mechanism_prior or 0.0, max_iter=self.max_iter, tol=self.tol,
            min_iter=self.min_iter, random_state=self._rng(), limits=limits,
            journal=self._journal,
        )  # fmt: skip


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
