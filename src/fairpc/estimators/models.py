"""The paper's four distributions as scikit-learn classifiers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from fairpc.circuit.em import Step
from fairpc.circuit.graph import Circuit
from fairpc.data.table_coding import TableCoding
from fairpc.errors import Argument, LearningError
from fairpc.errors.arrays import check_choice
from fairpc.estimators.base import CircuitClassifier
from fairpc.estimators.settings import Settings
from fairpc.fair.distinct_rows import hold_out
from fairpc.fair.distribution import FairDistribution
from fairpc.fair.fit import Fitted, Options, fit_parameters
from fairpc.fair.initial import Structure
from fairpc.fair.journal import VALIDATION
from fairpc.fair.priors import MECHANISM, RECIPE_MECHANISM
from fairpc.fair.recipe import fit_auto
from fairpc.fair.restarts import fit_starts
from fairpc.fair.rows import Rows
from fairpc.fair.top import Layout, Limits, Model
from fairpc.structure.search import MODEL_METHODS


class _Fitting(Settings, CircuitClassifier):
    """What all models have: settings, and how EM is run with them."""

    def _em_options(self, limits: Limits | None = None) -> Options:
        prior = RECIPE_MECHANISM if self._is_auto() else MECHANISM
        return Options(
            structure=Structure("strudel", self.max_splits, self.patience),
            init=self.init,
            smoothing=self.smoothing,
            mechanism_prior=prior if self.mechanism_prior is None else float(self.mechanism_prior),
            max_iter=self.max_iter,
            tol=self.tol,
            min_iter=self.min_iter,
            equal_mass=self.equal_mass,
            random_state=self._rng(),
            limits=limits,
            journal=self._journal,
        )

    def _is_auto(self) -> bool:
        """Whether the recipe fits the model."""
        named = isinstance(self.structure, str) and self.structure == "auto"
        return named and self._model == "FairPC" and self.init == "prior"


class _Learned(_Fitting):
    """Models whose P(x | f, s) are learned circuits."""

    def _fit_rows(
        self,
        rows: Rows,
        validation: Rows | None,
        evaluation: Mapping[str, Rows],
        limits: Limits | None,
        callback: Callable[[Step], object],
    ) -> Fitted:
        if isinstance(self.structure, CircuitClassifier | Circuit):
            watched = dict(evaluation) | ({} if validation is None else {VALIDATION: validation})
            options = self._em_options(limits)
            return fit_parameters(self._kept(rows), rows, watched, options, callback)
        check_choice("structure", self.structure, ("auto", *MODEL_METHODS))
        if self._is_auto():
            return fit_auto(
                rows,
                validation=validation,
                evaluation=evaluation,
                options=self._em_options(limits),
                n_components=self.n_components,
                validation_fraction=self.validation_fraction,
                on_step=callback,
            )
        if (self.n_components or 1) != 1:
            raise LearningError(
                Argument("n_components"),
                f" is {self.n_components}: mixtures are made by ",
                Argument("structure", "'auto'"),
                " of FairPC with init='prior'; use 1 otherwise",
            )
        method = "strudel" if self.structure == "auto" else self.structure
        if validation is None and method == "strudel":
            rows, validation = hold_out(rows, self.validation_fraction, self._rng())
        options = self._em_options(limits)
        return fit_starts(
            self._model,
            rows,
            validation=validation,
            evaluation=evaluation,
            options=replace(options, structure=replace(options.structure, method=method)),
            n_init=self.n_init,
            callback=callback,
        )

    def _given_coding(self) -> TableCoding | None:
        kept = self.structure
        return kept._coding() if isinstance(kept, CircuitClassifier) else None

    def _kept(self, rows: Rows) -> FairDistribution:
        """The model that EM starts from, its structure kept."""
        kept = self.structure.circuit_ if isinstance(self.structure, _Learned) else self.structure
        layout = Layout.of(self._model, rows)
        if isinstance(kept, Circuit) and len(kept.names) == len(layout.variables) + 1:
            layout = replace(layout, n_components=int(kept.arities[-1]))
        if not isinstance(kept, Circuit) or layout.variables != dict(
            zip(kept.names, kept.arities.tolist(), strict=True)
        ):
            raise LearningError(
                f"the structure to keep is not over {', '.join(layout.variables)}: give a fitted "
                f"{type(self).__name__}, or a circuit over these variables"
            )
        return FairDistribution(self._model, layout, kept)


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


@dataclass(eq=False, repr=False, kw_only=True)
class _Naive(_Fitting):
    """Models whose features are independent given the cell: they have no structure to choose."""

    # No parameters of these models; their defaults stay.
    structure: Literal["auto"] = field(init=False)
    n_components: None = field(init=False)
    max_splits: int = field(init=False)
    patience: int = field(init=False)
    validation_fraction: float = field(init=False)
    equal_mass: bool = field(init=False)

    def _fit_rows(
        self,
        rows: Rows,
        validation: Rows | None,
        evaluation: Mapping[str, Rows],
        limits: Limits | None,
        callback: Callable[[Step], object],
    ) -> Fitted:
        options = self._em_options(limits)
        return fit_starts(
            self._model,
            rows,
            evaluation=evaluation,
            options=options,
            n_init=self.n_init,
            callback=callback,
        )


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
