"""How circuits and forest circuits are fitted to a table: rows, structure, EM, the fit check.

``FairPC(structure="auto")`` takes a forest circuit where the table is wide, where it predicts
held-out labels better than circuits do, or where circuits have drifted from the label. So it reads
the table as a forest circuit needs it, cut finely. Both are compared on these codes, merged; where
circuits are taken, the table is read once more, into their own bins. Their fair rate lies between
the groups' recorded rates where the labels allow such a rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fairpc.circuit import Circuit
from fairpc.core import LearningError, SameAsLabelWarning, Say, check_choice, warn_caller
from fairpc.data import BINS, TableCoding, same_as_label
from fairpc.learners import WIDE
from fairpc.models._bias_account import contradictions
from fairpc.models._circuit_queries import FittedQueries
from fairpc.models._distribution import FairDistribution, top_rates
from fairpc.models._fair_layers import Layout, feature_circuits
from fairpc.models._fit import Fitted, OnStep, fit, fit_parameters
from fairpc.models._forest_fit import ForestStart, fit_forest
from fairpc.models._guard import Checked, check_fit
from fairpc.models._knowledge import limits_of_coding
from fairpc.models._label_scores import DRAWS
from fairpc.models._reviewed_fit import knowledge_after
from fairpc.models._rows import Rows, hold_out, joined, some_rows
from fairpc.models._score_map_fit import limits_between, within_limits
from fairpc.models._selection import LabelGain, coarser, compare_labels, fit_auto
from fairpc.models._settings import refuse_many, without_few
from fairpc.models._soft_cells import without_prior
from fairpc.models._tables import GivenTable, RowReader, Training, coded_rows, warn_of_leaks
from fairpc.models._top_em import Limits
from fairpc.structure import HELD_OUT, MODEL_METHODS, ModelMethod

if TYPE_CHECKING:
    from fairpc.models._estimators import CircuitClassifier

LEARNED: Final = ("FairPC", "NLatPC")
"""Models whose P(x | f, s) are learned circuits."""

FOREST: Final = "forest"
COMPARED_ROWS: Final = 20_000
"""Rows on which forest and circuits are compared, and among which columns are looked for that give
group or label away."""
FOREST_ROWS: Final = 400_000
"""Rows to which a forest is fitted where not all are in memory."""

Triple = Sequence[Any]
"""(X, y, sensitive features)."""


@dataclass(frozen=True, eq=False)
class CircuitFit:
    """One fit: what was asked for, and the table."""

    settings: CircuitClassifier  #: of the estimator
    table: GivenTable  #: the training rows
    reader: RowReader  #: reads them into memory or onto the disk
    say: Say  #: shows what is being done
    validation_data: Triple | None = None  #: as given to ``fit``

    def training(self) -> Training:
        """The coding of the table and its rows, equal ones merged; fine where a forest may be."""
        own = self.settings
        maybe = own._may_be_forest()
        wide = maybe and len(self.table.roles.features) > WIDE
        training = self._read("reading the table", fine=own._is_forest() or maybe)
        if own._tells_two:
            refuse_many(training.coding.labels, f"structure={own.structure!r}")
        return replace(training, forest=wide, wide=wide)

    def _read(self, saying: str, *, fine: bool, again: bool = False) -> Training:
        own = self.settings
        self.say(saying)
        training = self.reader.training(
            self.table,
            coding=own._given_coding(),
            positive=own.positive,
            names=own.names,
            options=own._encoding_options(self.table, fine=fine),
            watch=lambda progress: self.say(progress.line),
            again=again,
        )
        rows = without_few(training.rows, own._strata(training.coding), int(own.min_cell))
        return replace(training, rows=rows)

    def warn_of_leaks(self, training: Training) -> None:
        """Say which columns give group or label away, where the coding is new."""
        if self.settings._given_coding() is None:
            rng = np.random.default_rng(DRAWS)
            looked = training.rows.sample(self.reader.sample_rows, rng)
            warn_of_leaks(self.table, some_rows(looked, COMPARED_ROWS, rng), training.coding)

    def run(self, training: Training, limits: Limits | None) -> tuple[Training, Fitted, Checked]:
        """A fit, the rows it was made to, and what held-out labels say of it."""
        fine, gain = training, None
        selecting = self.settings._may_be_forest() and not training.wide
        if selecting:
            if max(training.coding.features.arities, default=0) > 2:
                gain = self._compared(training, limits)
            if gain is not None and gain.better:
                training = replace(fine, forest=True)
            else:
                training = self._read(
                    "reading the table again, for circuits", fine=False, again=True
                )
        choosing = selecting and not training.forest
        fitted, checked = self._fitted(training, limits, fine)
        if checked.sentences and choosing:
            # The circuits failed the check; a forest circuit does not drift.
            training = replace(fine, forest=True)
            fitted, checked = self._fitted(training, limits, fine)
        ruled = self._ruled(training, fitted, checked)
        if ruled is not None:
            fitted = self._fit(training, ruled)
            choices = fitted.choices
            fitted = replace(fitted, choices=choices and replace(choices, ruled=True))
        elif fitted.distribution.latent and not fitted.distribution.is_forest:
            fitted = self._beside_prior(training, fitted, limits)
        return training, _with_gain(fitted, gain, training), checked

    def _fitted(
        self, training: Training, limits: Limits | None, fine: Training
    ) -> tuple[Fitted, Checked]:
        fitted = self._fit(training, limits)
        return fitted, self._checked(training, fitted, limits, fine)

    def _ruled(self, training: Training, fitted: Fitted, checked: Checked) -> Limits | None:
        """The point that circuits of ``auto`` are held to where EM left the recorded rates.

        A prior that was asked for, or a review, says more than the rule.
        """
        own, model = self.settings, fitted.distribution
        asked = own.mechanism_prior is not None or own._held is not None
        if asked or checked.contradictions or training.forest or not own._may_be_forest():
            return None
        f = training.coding.labels.positive
        return limits_between(checked.label_bounds, float(model.decision_rate[0, f]), f)

    def _beside_prior(self, training: Training, fitted: Fitted, limits: Limits | None) -> Fitted:
        """The fit of circuits, and what its mechanism is without prior rows, if it has any."""
        options = self.settings._em_options(limits)
        if not options.mechanism_prior:
            return fitted
        rows = training.rows.sample(self.reader.sample_rows, self.settings._rng())
        bare = without_prior(fitted.distribution, rows, options)
        return replace(fitted, without_prior=bare)

    def _forest_start(self, training: Training, limits: Limits | None) -> ForestStart:
        """What a forest of these rows starts from."""
        own = self.settings
        self.say("fitting classifiers of the recorded label")
        rows = training.rows.sample(min(self.reader.sample_rows, FOREST_ROWS), own._rng())
        if self.validation_data is not None:
            # A forest holds out rows by itself: validation rows are rows like others.
            rows = joined(rows, self._beside(training.coding, self.validation_data))
        return forest_start(own, rows, training.coding, limits)

    def _compared(self, training: Training, limits: Limits | None) -> LabelGain:
        """Whether a forest predicts labels of unseen rows better than circuits do."""
        own, rng = self.settings, np.random.default_rng(DRAWS)
        self.say("comparing circuits with a forest circuit")
        rows = training.rows.sample(min(self.reader.sample_rows, COMPARED_ROWS), rng)
        rows = some_rows(rows, COMPARED_ROWS, rng)
        n_bins = BINS if own.n_bins is None else own.n_bins
        rows = coarser(rows, training.coding.features.ordered, n_bins, own.rare)
        return compare_labels(rows, own._em_options(limits, rng), rng)

    def _checked(
        self, training: Training, fitted: Fitted, limits: Limits | None, fine: Training
    ) -> Checked:
        """What held-out labels say of a fit; the check draws random numbers of its own.

        A forest that keeps to its own held-out scores cannot drift: what they leave is known.
        """
        coding = training.coding
        if not fitted.distribution.latent:
            return Checked()
        if not self.settings.guard or len(coding.labels.classes) > 2:
            return Checked()
        if fitted.label_bounds is None:
            self.say("fit check on held-out rows")
            options = self.settings._em_options(limits, np.random.default_rng(0))
            alike = np.array_equal(coding.features.arities, fine.coding.features.arities)
            given = training.rows, coding, options, None if alike else fine
            checked = check_fit(fitted.distribution, *given)
            if limits is not None and self.settings._held is None:
                checked = _cut(checked, limits, coding)
        else:
            checked = Checked((), fitted.label_bounds)
        if self.settings._held is not None:
            known = knowledge_after(None, self.settings._held, coding)
            checked = _cut(checked, limits_of_coding(known, coding), coding)
        if checked.label_bounds is None:
            return checked
        bounds = checked.label_bounds.without_few(int(self.settings.min_cell))
        clashes = contradictions(bounds, coding, fitted.distribution.strata)
        return replace(checked, label_bounds=bounds, contradictions=tuple(clashes))

    def _fit(self, training: Training, limits: Limits | None) -> Fitted:
        """Fit to all rows; where they are not in memory, with the structure of a sample of them.

        The labels in the leaves of a forest are counted on rows that did not grow it: its sample is
        as large as it needs.
        """
        own, rows, coding = self.settings, training.rows, training.coding
        on_step = reporter(self.say)
        forest = training.forest or own._is_forest()
        self.say("growing a forest circuit" if forest else "learning the structure")
        start = self._forest_start(training, limits) if forest else None
        sample = start.rows if start else rows.sample(self.reader.sample_rows, own._rng())
        same = same_as_label(coding.groups, coding.labels, sample.s, sample.d)
        if same is not None:
            # No error: scikit-learn's checks take a column of X for the label.
            warn_caller(same, SameAsLabelWarning)
        if start:
            return fit_forest(start, own._em_options(limits), on_step)
        given = self.validation_data
        found = fit_circuits(
            own,
            sample,
            limits,
            validation=None if given is None else self._beside(coding, given),
            on_step=on_step,
        )
        if sample is rows:
            return found
        # All parameters are learned from all rows.
        options = own._em_options(limits)
        fitted = fit_parameters(found.distribution, rows, options, on_step=on_step)
        return replace(fitted, choices=found.choices)

    def _beside(self, coding: TableCoding, data: Triple) -> Rows:
        """Rows beside the training rows, in memory or in files."""
        X, y, sensitive = data
        table = GivenTable.of(
            X,
            y,
            sensitive=coding.sensitive or None,
            sensitive_features=sensitive,
            missing_values=self.settings.missing_values,
            coded=True,
        )
        return coded_rows(table, coding).with_strata(self.settings._strata(coding))


def fit_circuits(
    own: CircuitClassifier,
    rows: Rows,
    limits: Limits | None,
    *,
    validation: Rows | None = None,
    on_step: OnStep | None = None,
) -> Fitted:
    """Fit a model of circuits to rows of codes."""
    structure: Any = own.structure
    if isinstance(structure, FittedQueries | Circuit):
        given = _kept(own, rows), rows, own._em_options(limits)
        return fit_parameters(*given, validation=validation, on_step=on_step)
    check_choice("structure", structure, ("auto", FOREST, *MODEL_METHODS))
    if own._is_auto():
        # Nothing is chosen on validation rows: they are rows like others.
        every = rows if validation is None else joined(rows, validation)
        return fit_auto(every, options=own._em_options(limits), on_step=on_step)
    method: ModelMethod = "strudel" if structure == "auto" else structure
    if own._model not in LEARNED:
        validation = None
    elif validation is None and method in HELD_OUT:
        rows, validation = hold_out(rows, own.validation_fraction, own._rng())
    options = own._em_options(limits)
    return fit(
        own._model,
        rows,
        validation=validation,
        options=replace(options, structure=replace(options.structure, method=method)),
        on_step=on_step,
    )


def forest_start(
    own: CircuitClassifier, rows: Rows, coding: TableCoding, limits: Limits | None
) -> ForestStart:
    """What a forest of rows of codes starts from, or why there is none."""
    if own._model != "FairPC" or own.init != "prior":
        raise LearningError(
            "structure='forest' is for FairPC with init='prior': use these, or another structure"
        )
    return ForestStart.of(
        rows,
        coding.features.ordered,
        limits,
        between=own.mechanism_prior is None,  # a prior that was asked for decides instead
        positive=coding.labels.positive,
        names=coding.group_names,
    )


def _kept(own: CircuitClassifier, rows: Rows) -> FairDistribution:
    """The model that EM starts from, its structure kept."""
    layout = Layout.of(own._model, rows)
    kept: Any = own.structure
    if isinstance(kept, FittedQueries):
        fitted = kept._distribution()
        if fitted.strata:
            raise LearningError(
                "the model whose structure is kept has strata, and EM fits none: keep that of "
                "another model"
            )
        kept = fitted.circuit if fitted.model in LEARNED else None
    if isinstance(kept, Circuit) and len(kept.names) == len(layout.variables) + 1:
        layout = replace(layout, n_components=int(kept.arities[-1]))
    if not isinstance(kept, Circuit) or layout.variables != dict(
        zip(kept.names, kept.arities.tolist(), strict=True)
    ):
        raise LearningError(
            f"the structure to keep is not over {', '.join(layout.variables)}: give a fitted "
            f"{type(own).__name__}, or a circuit over these variables"
        )
    parts = top_rates(kept, layout), feature_circuits(kept, layout)
    return FairDistribution.of_parts(own._model, layout, *parts)


def _cut(checked: Checked, limits: Limits | None, coding: TableCoding) -> Checked:
    """The same with bounds of the labels within what is known."""
    if checked.label_bounds is None or limits is None:
        return checked
    bounds = within_limits(checked.label_bounds, limits, coding.labels.positive)
    return replace(checked, label_bounds=bounds)


def _with_gain(fitted: Fitted, gain: LabelGain | None, training: Training) -> Fitted:
    """The fit of ``auto`` or of a forest, with what the choice by the label was made on."""
    choices = fitted.choices
    if choices is None:
        return fitted
    if choices.forest:
        wide = training.wide
        drifted = training.forest and not wide and not (gain is not None and gain.better)
        choices = replace(choices, drifted=drifted, wide=wide)
    if gain is not None:
        choices = replace(
            choices,
            label_score=gain.score,
            label_gain=gain.gain,
            label_error=gain.standard_error,
        )
    return replace(fitted, choices=choices)


def reporter(say: Say) -> OnStep:
    """A step of EM in a line."""
    words = "fitting, iteration {:d}, log-likelihood {:,.2f}".format
    return lambda step: say(words(step.iteration, step.log_likelihood))
