"""What the four models have in common as classifiers: validate, encode, call, store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags

from fairpc.circuit import Circuit, Step
from fairpc.cluster import is_dask
from fairpc.core import (
    AnyPath,
    DriftWarning,
    LearningError,
    SameAsLabelWarning,
    Say,
    TableWarning,
    check_choice,
    ending_on_signals,
    showing_progress,
    warn_caller,
)
from fairpc.data import BINS, Progress, TableCoding, is_source, resolve, same_as_label
from fairpc.data import Options as EncodingOptions
from fairpc.learners import WIDE
from fairpc.models._checkpoint import Checkpoint
from fairpc.models._choice import LabelGain, compare_labels
from fairpc.models._distinct_rows import hold_out, joined, some_rows
from fairpc.models._distribution import FairDistribution
from fairpc.models._fit import UNOBSERVED, VALIDATION, Fitted, Observer, Options, fit_parameters
from fairpc.models._forest import ForestDistribution
from fairpc.models._forest_fit import ForestFitted, fit_forest
from fairpc.models._guard import Checked, em_refit, forest_refit, guard
from fairpc.models._initial import Structure
from fairpc.models._knowledge import Knowledge, limits_of_coding
from fairpc.models._label_scores import DRAWS
from fairpc.models._model import Threshold, fixed
from fairpc.models._priors import MECHANISM, RECIPE_MECHANISM
from fairpc.models._queries import FittedQueries
from fairpc.models._recipe import AutoFitted, fit_auto
from fairpc.models._recipe_log import Choices
from fairpc.models._restarts import FittedFromStarts, fit_starts
from fairpc.models._rows import Rows
from fairpc.models._score_map_fit import within_limits
from fairpc.models._score_mechanism import held_limits
from fairpc.models._settings import (
    Settings,
    StructureChoice,
    check_beside,
    check_settings,
    generator,
    plain,
)
from fairpc.models._strata import Strata
from fairpc.models._strata_columns import refuse_rate, small_strata, strata_of
from fairpc.models._tables import GivenTable, check_fit_input, listed, note_columns, warn_of_leaks
from fairpc.models._top import LATENT, Layout, Limits, Model
from fairpc.models._training import RowReader, Training, coded_rows, memory_bytes
from fairpc.models._training_rows import count_anchors, label_counts
from fairpc.structure import HELD_OUT, MODEL_METHODS

LEARNED: Final = ("FairPC", "NLatPC")
"""Models whose P(x | f, s) are learned circuits."""

FOREST: Final = "forest"
FINE_BINS: Final = 32
FINE_LEVELS: Final = 128
FINER: Final = 5.0
"""A forest is cut at the table's own values: bins and levels of a column, and by how much the
share under which levels are merged is smaller."""
COMPARED_ROWS: Final = 20_000
"""Rows on which forest and circuits are compared."""
FOREST_ROWS: Final = 400_000
"""Rows to which a forest is fitted where not all are in memory."""

Triple = Sequence[Any]
"""(X, y, sensitive features)."""


class CircuitClassifier(Settings, FittedQueries, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base of FairPC, NLatPC, LatNB and TwoNB."""

    _model: Model
    _say: Say = staticmethod(lambda text: None)  #: told what a fit is doing
    _on_coding: Callable[[TableCoding], object] | None = None  #: told how the table was read

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        sample_weight: npt.ArrayLike | None = None,
        fair_labels: Any = None,
        validation_data: Triple | None = None,
        eval_set: Mapping[str, Triple] | None = None,
        callback: Callable[[Step], object] | None = None,
        checkpoint: AnyPath | None = None,
        max_memory: int | str | None = None,
    ) -> Self:
        """Fit to a table, its labels and its groups.

        Args:
            X: frame or array; missing values are allowed. Or a table that is read in batches,
                however long: the path of a Parquet, CSV or Arrow file, a folder, a glob, a
                polars lazy frame, or a Dask frame, whose workers then read it.
            y: observed labels; missing ones are allowed. The name of a column where X is
                read in batches, as are then ``sample_weight`` and ``fair_labels``.
            sensitive_features: groups given apart from X, as in fairlearn; one column or more.
            sample_weight: weight per row.
            fair_labels: the fair decision of each row where it is known by other means, missing
                where not; EM is held to them.
            validation_data: (X, y, sensitive) of rows that choose structure, never parameters.
            eval_set: name -> (X, y, sensitive); their likelihood per iteration is in ``history_``.
            callback: called with each EM step.
            checkpoint: a file in which the fit is kept; the same call goes on with it, and ends
                with the same bits as if it had not been stopped.
            max_memory: bytes, or text like "4GB": where the distinct rows of a streamed table take
                more, they stay on disk, structure is learned on a sample, and EM reads them in
                parts. Half of the machine's memory by default.
        """
        check_settings(self.get_params(deep=False))
        check_beside(validation_data, eval_set, callback)
        threshold = fixed(self.threshold)
        kept = None if checkpoint is None else self._checkpoint(checkpoint, max_memory)
        with ExitStack() as stack, self._talking():
            if kept is not None:
                stack.enter_context(ending_on_signals())
            reader = RowReader(memory_bytes(max_memory), stack)
            if not (is_source(X) or is_dask(X)):
                check_fit_input(self, X, y)
            table = GivenTable.of(
                X,
                y,
                sensitive=self.sensitive,
                sensitive_features=sensitive_features,
                sample_weight=sample_weight,
                fair_labels=fair_labels,
                missing_values=self.missing_values,
                numeric=listed(self.numeric),
                decimal=self.decimal,
                stack=stack,
                coded=self._given_coding() is not None,
            )
            training = self._training(table, reader)
            if kept is not None:
                kept.begin(training.fingerprint)
            if self._on_coding is not None:
                self._on_coding(training.coding)
            if self._given_coding() is None:
                rng = np.random.default_rng(DRAWS)
                looked = training.rows.sample(reader.sample_rows, rng)
                warn_of_leaks(table, some_rows(looked, COMPARED_ROWS, rng), training.coding)
            limits = self._limits(training.coding, fair_labels)
            observer = Observer(self._told(_step_line, callback), kept)
            given = validation_data, eval_set or {}, limits, observer, reader
            training, fitted, checked = self._fit_checked(table, training, *given)
            self._store(table, training, fitted, threshold, checked)
            small = small_strata(training.rows, self._strata(training.coding), training.coding)
            if table.source.in_memory:
                note_columns(self, X)
        for sentence in self.warnings_:
            warn_caller(sentence, DriftWarning)
        if small:
            warn_caller(small, TableWarning)
        return self

    def _checkpoint(self, path: AnyPath, max_memory: int | str | None) -> Checkpoint:
        """The checkpoint of a fit with the settings of this estimator."""
        settings = {name: plain(value) for name, value in self.get_params(deep=False).items()}
        settings["max_memory"] = None if max_memory is None else memory_bytes(max_memory)
        return Checkpoint.open(path, settings)

    def _fit_checked(
        self,
        table: GivenTable,
        training: Training,
        validation_data: Triple | None,
        eval_set: Mapping[str, Triple],
        limits: Limits | None,
        observer: Observer,
        reader: RowReader,
    ) -> tuple[Training, Fitted, Checked]:
        """A fit, the rows it was made to, and what the guard says of it."""
        given = validation_data, eval_set, limits, observer, reader
        training, gain = self._chosen_by_label(table, training, limits, reader)
        fitted = self._fit_training(training, *given)
        checked = self._checked(training, fitted.distribution, limits)
        if checked.sentences and self._may_be_forest() and not training.forest:
            # The circuits of ``auto`` have drifted: a forest does not.
            training = self._forest_training(table, reader)
            fitted = self._fit_training(training, *given)
            checked = self._checked(training, fitted.distribution, limits)
        return training, _with_gain(fitted, gain, training), checked

    def _checked(
        self, training: Training, fitted: FairDistribution, limits: Limits | None
    ) -> Checked:
        """What the guard says of a fit; it draws random numbers of its own."""
        if not (self.guard and fitted.layout.latent):
            return Checked()
        self._say("whether Df is still about the label, on held-out rows")
        options = self._em_options(limits, np.random.default_rng(0))
        refit = em_refit(fitted, options)
        if isinstance(fitted, ForestDistribution):
            refit = forest_refit(training.coding, options)
        checked = guard(fitted, training.rows, training.coding, refit)
        if limits is None or checked.ends is None:
            return checked
        ends = within_limits(checked.ends, limits, training.coding.labels.positive)
        return replace(checked, ends=ends)

    def _training(self, table: GivenTable, reader: RowReader) -> Training:
        """The coding of a table and its rows, equal ones merged; of a wide one for a forest."""
        wide = self._may_be_forest() and len(table.roles.features) > WIDE
        self._say("reading the table")
        training = reader.training(
            table,
            coding=self._given_coding(),
            positive=self.positive,
            options=self._encoding_options(table, fine=self.structure == FOREST or wide),
            watch=self._told(_reading_line, None),
        )
        return replace(self._stratified(training), forest=wide, wide=wide)

    def _strata(self, coding: TableCoding) -> Strata:
        """The strata within which Df is independent of S."""
        return strata_of(self.given, self.mechanism, coding)

    def _stratified(self, training: Training) -> Training:
        return replace(training, rows=training.rows.with_strata(self._strata(training.coding)))

    def _chosen_by_label(
        self, table: GivenTable, training: Training, limits: Limits | None, reader: RowReader
    ) -> tuple[Training, LabelGain | None]:
        """Rows for a forest where ``auto`` finds that it tells labels better than circuits do."""
        binary = max(training.coding.features.arities, default=0) <= 2
        if training.forest or binary or not self._may_be_forest():
            return training, None
        rng = np.random.default_rng(DRAWS)
        rows = training.rows.sample(min(reader.sample_rows, COMPARED_ROWS), rng)
        options = self._em_options(limits, rng)
        self._say("which tells held-out labels better, circuits or a forest")
        gain = compare_labels(some_rows(rows, COMPARED_ROWS, rng), options, rng)
        return (self._forest_training(table, reader) if gain.ahead else training), gain

    def _may_be_forest(self) -> bool:
        """Whether ``auto`` may take a forest: nothing is asked for that only circuits have."""
        circuits = self.n_components is not None or self.equal_mass or self.hold_mechanism
        return self._is_auto() and not circuits

    def _forest_training(self, table: GivenTable, reader: RowReader) -> Training:
        """The rows under the coding of a forest."""
        options = self._encoding_options(table, fine=True)
        self._say("reading the table again, for a forest")
        training = reader.training(table, positive=self.positive, options=options, again=True)
        return replace(self._stratified(training), forest=True)

    def _encoding_options(self, table: GivenTable, *, fine: bool) -> EncodingOptions:
        """How columns are encoded: the boxes of a forest are cut at more values than bins are."""
        options = EncodingOptions(
            n_bins=BINS if self.n_bins is None else self.n_bins,
            rare=self.rare,
            numeric=table.roles.numeric,
            categorical=resolve(table.roles.names, listed(self.categorical), "categorical"),
            numbers=self.numbers,
            monotone=resolve(table.roles.names, listed(self.monotone), "monotone"),
        )
        if not fine:
            return options
        n_bins = FINE_BINS if self.n_bins is None else self.n_bins
        # Every stratum needs rows: its columns stay coarse.
        strata = resolve(table.roles.names, listed(self.given), "given")
        apart = (strata, options) if strata else None
        return replace(
            options,
            n_bins=n_bins,
            rare=self.rare / FINER,
            useful=self.rare,  # whether a column is of use is no matter of how finely it is cut
            max_levels=FINE_LEVELS,
            apart=apart,
        )

    @contextmanager
    def _talking(self) -> Iterator[None]:
        """A block in which the fit says what it does, if ``verbose``."""
        with showing_progress(type(self).__name__, shown=bool(self.verbose)) as self._say:
            try:
                yield
            finally:
                del self._say

    def _told(
        self, line: Callable[[Any], str], then: Callable[[Any], object] | None
    ) -> Callable[[Any], None]:
        """A function of what happens: it is said in a line, and handed on."""
        say = self._say

        def tell(event: Any) -> None:
            say(line(event))
            if then is not None:
                then(event)

        return tell

    def _fit_training(
        self,
        training: Training,
        validation_data: Triple | None,
        eval_set: Mapping[str, Triple],
        limits: Limits | None,
        observer: Observer,
        reader: RowReader,
    ) -> Fitted:
        """Fit to all rows; where they are not in memory, with the structure of a sample of them."""
        rows, coding = training.rows, training.coding
        validation = None if validation_data is None else self._triple(coding, validation_data)
        evaluation = {name: self._triple(coding, some) for name, some in eval_set.items()}
        most = min(reader.sample_rows, FOREST_ROWS) if training.forest else reader.sample_rows
        self._say("a forest" if training.forest else "structure")
        sample = rows.sample(most, self._rng())
        same = same_as_label(coding.groups, coding.labels, sample.s, sample.d)
        if same is not None:
            # No error: scikit-learn's checks take a column of X for the label.
            warn_caller(same, SameAsLabelWarning)
        structure = FOREST if training.forest else self.structure
        ordered = coding.features.ordered
        if structure == FOREST or sample is rows:
            # The labels in the leaves of a forest are counted on rows that did not grow it: its
            # sample is as large as it needs.
            given = sample, structure, ordered, validation, evaluation, limits, observer
            return self._fit_rows(*given)
        on_sample = self._fit_rows(sample, structure, ordered, validation, {}, limits, observer)
        # All parameters are learned from all rows, those of a mixture's components too.
        fitted = fit_parameters(
            on_sample.distribution, rows, {}, self._em_options(limits), observer
        )
        if not isinstance(on_sample, AutoFitted):
            return fitted
        choices = replace(on_sample.choices, refitted=True)
        return AutoFitted(fitted.distribution, fitted.history, fitted.converged, choices)

    def _triple(self, coding: TableCoding, data: Triple) -> Rows:
        """Rows beside the training rows, in memory or in files."""
        X, y, sensitive = data
        table = GivenTable.of(
            X,
            y,
            sensitive=coding.sensitive or None,
            sensitive_features=sensitive,
            missing_values=self.missing_values,
            coded=True,
        )
        return coded_rows(table, coding).with_strata(self._strata(coding))

    def _given_coding(self) -> TableCoding | None:
        """The coding of a model whose structure is kept; None to learn one."""
        kept = self.structure
        return kept._coding() if isinstance(kept, CircuitClassifier) else None

    def _fit_rows(
        self,
        rows: Rows,
        structure: StructureChoice | CircuitClassifier | Circuit,
        ordered: Sequence[bool],
        validation: Rows | None,
        evaluation: Mapping[str, Rows],
        limits: Limits | None,
        observer: Observer,
    ) -> Fitted:
        """Fit the model of this class to rows of codes."""
        if isinstance(structure, CircuitClassifier | Circuit):
            watched = dict(evaluation) | ({} if validation is None else {VALIDATION: validation})
            options = self._em_options(limits)
            return fit_parameters(self._kept(rows), rows, watched, options, observer)
        check_choice("structure", structure, ("auto", FOREST, *MODEL_METHODS))
        if structure == FOREST:
            return self._fit_forest(rows, ordered, validation, evaluation, limits, observer)
        if self.hold_mechanism and self._model in LATENT:
            options = self._em_options(limits, np.random.default_rng(DRAWS))
            limits = held_limits(rows, ordered, options, limits)
        if self._is_auto():
            return fit_auto(
                rows,
                validation=validation,
                evaluation=evaluation,
                options=self._em_options(limits),
                n_components=self.n_components,
                validation_fraction=self.validation_fraction,
                observer=observer,
            )
        if (self.n_components or 1) != 1:
            raise LearningError(
                f"n_components (--components) is {self.n_components}: mixtures are made by "
                "structure='auto' of FairPC with init='prior'; use 1 otherwise"
            )
        method = "strudel" if structure == "auto" else structure
        if self._model not in LEARNED:
            validation = None
        elif validation is None and method in HELD_OUT:
            rows, validation = hold_out(rows, self.validation_fraction, self._rng())
        options = self._em_options(limits)
        return fit_starts(
            self._model,
            rows,
            validation=validation,
            evaluation=evaluation,
            options=replace(options, structure=replace(options.structure, method=method)),
            n_init=self.n_init,
            observer=observer,
        )

    def _fit_forest(
        self,
        rows: Rows,
        ordered: Sequence[bool],
        validation: Rows | None,
        evaluation: Mapping[str, Rows],
        limits: Limits | None,
        observer: Observer,
    ) -> Fitted:
        """A forest; it holds out rows by itself, so validation rows are rows like others."""
        if self._model != "FairPC" or self.init != "prior" or (self.n_components or 1) != 1:
            raise LearningError(
                "structure='forest' is for FairPC with init='prior' and without n_components "
                "(--components): use these, or another structure"
            )
        if validation is not None:
            rows = joined(rows, validation)
        options = self._em_options(limits)
        return fit_forest(
            rows, ordered=ordered, evaluation=evaluation, options=options, observer=observer
        )

    def _kept(self, rows: Rows) -> FairDistribution:
        """The model that EM starts from, its structure kept."""
        kept = self.structure
        if isinstance(kept, CircuitClassifier) and kept._model in LEARNED:
            kept = kept.circuit_
        layout = Layout.of(self._model, rows)
        if isinstance(self.structure, CircuitClassifier) and (
            self.structure.distribution_.layout.strata != layout.strata
        ):
            raise LearningError(
                "the model whose structure is kept has other strata: fit with its given and "
                "mechanism"
            )
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

    def _em_options(
        self, limits: Limits | None = None, rng: np.random.Generator | None = None
    ) -> Options:
        """How EM is run; settings that have the name of an option are handed on."""
        holds = self._is_auto() or self.structure == FOREST
        prior = RECIPE_MECHANISM if holds else MECHANISM
        shared = {f.name for f in fields(Options)} & {f.name for f in fields(Settings)}
        given: dict[str, Any] = {name: getattr(self, name) for name in shared}
        given["structure"] = Structure("strudel", self.max_splits, self.patience)
        given["mechanism_prior"] = (
            prior if self.mechanism_prior is None else float(self.mechanism_prior)
        )
        given["random_state"] = self._rng() if rng is None else rng
        return Options(**given, limits=limits)

    def _is_auto(self) -> bool:
        """Whether the recipe fits the model."""
        named = isinstance(self.structure, str) and self.structure == "auto"
        return named and self._model == "FairPC" and self.init == "prior"

    def _limits(self, coding: TableCoding, fair_labels: Any = None) -> Limits | None:
        """What the stated knowledge says about the groups and classes of this coding."""
        if not self.knowledge and fair_labels is None:
            return None
        if self._model not in ("FairPC", "LatNB"):
            given = "fair_labels were" if fair_labels is not None else "knowledge was"
            raise LearningError(
                f"{given} given to {type(self).__name__}, which has no latent decision: "
                "use FairPC or LatNB"
            )
        if not self.knowledge:
            return None
        refuse_rate(self.knowledge, self.given)
        return limits_of_coding(self.knowledge, coding)

    def _rng(self) -> np.random.Generator:
        return generator(self.random_state)

    def _store(
        self,
        table: GivenTable,
        training: Training,
        fitted: Fitted,
        threshold: Threshold,
        checked: Checked,
    ) -> None:
        """Set what was learned, all at once: a fit that fails leaves the object as it was."""
        rows, distribution = training.rows, fitted.distribution
        if not table.source.in_memory:
            self.feature_names_in_ = np.array(training.coding.features.names_in, dtype=object)
            self.n_features_in_ = len(self.feature_names_in_)
        self.coding_ = training.coding
        self.distribution_ = distribution
        self.history_ = fitted.history
        self.converged_ = fitted.converged
        self.choices_ = fitted.choices if isinstance(fitted, AutoFitted) else None
        self.starts_ = fitted.starts if isinstance(fitted, FittedFromStarts) else ()
        self.n_iter_ = max(len(fitted.history["objective"]) - 1, 1)
        self.threshold_ = threshold
        self.warnings_ = checked.sentences
        self.label_ends_ = checked.ends
        self.label_counts_, self.log_likelihood_ = label_counts(rows, distribution)
        self.data_fingerprint_ = training.fingerprint
        self.table_options_ = {}
        self.knowledge_ = self.knowledge or Knowledge()
        self.n_anchors_ = count_anchors(rows)

    def save(self, path: AnyPath) -> None:
        """Write the fitted model to one data-only file; ``fairpc.load`` reads it."""
        from fairpc.models._file import save

        save(self, path)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        # A decision that does not depend on S need not be near a label that does.
        tags.classifier_tags.poor_score = self._model != "TwoNB"
        return tags


def limits_of(model: CircuitClassifier) -> Limits | None:
    """What the knowledge of a fitted model says about its groups and classes."""
    return model._limits(model._coding())


def em_options(model: CircuitClassifier, limits: Limits | None) -> Options:
    """How EM is run where a fitted model is fitted again with its own structure."""
    return model._em_options(limits)


def fit_again(model: CircuitClassifier, rows: Rows, limits: Limits | None) -> FairDistribution:
    """The whole fit again, structure and all, to other rows of the same coding."""
    forest = isinstance(model.distribution_, ForestDistribution)
    structure = FOREST if forest else model.structure
    rows = rows.with_strata(model._strata(model.coding_))
    ordered = model.coding_.features.ordered
    fitted = model._fit_rows(rows, structure, ordered, None, {}, limits, UNOBSERVED)
    return fitted.distribution


def _with_gain(fitted: Fitted, gain: LabelGain | None, training: Training) -> Fitted:
    """The fit of ``auto`` or of a forest, with what the choice by the label was made on."""
    if isinstance(fitted, AutoFitted):
        choices = fitted.choices
    elif isinstance(fitted, ForestFitted):
        wide = training.wide
        drifted = training.forest and not wide and not (gain is not None and gain.ahead)
        choices = Choices(fitted.n_rows, 0, forest=True, drifted=drifted, wide=wide)
        choices = replace(choices, turned=fitted.turned)
    else:
        return fitted
    if gain is not None:
        choices = replace(choices, label_score=gain.score, label_gain=gain.gain)
        choices = replace(choices, label_error=gain.standard_error)
    return AutoFitted(fitted.distribution, fitted.history, fitted.converged, choices)


def _step_line(step: Step) -> str:
    return f"EM {step.iteration}, log-likelihood {step.log_likelihood:,.2f}"


def _reading_line(progress: Progress) -> str:
    done = f"{progress.done:,} {progress.unit}"
    if progress.total:
        done = f"{progress.done / progress.total:.0%} of {progress.total / 1e6:,.0f} MB"
    return f"{progress.stage}, {done}"
