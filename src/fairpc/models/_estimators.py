"""The paper's four distributions as scikit-learn classifiers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from fairpc.models._base import CircuitClassifier
from fairpc.models._top import Model


class FairPC(CircuitClassifier):
    """P(s) P(f) P(d | f, s) P(x | f, s): a latent decision Df, independent of S.

    D is a noisy, group-dependent copy of Df and independent of X given (Df, S);
    each P(x | f, s) is a probabilistic circuit. ``predict_proba`` gives P(Df | …).
    Under the model the mean score is the same in every group; equal selection
    rates and parity on other rows do not follow.

    Args:
        sensitive: columns of X that are the sensitive attribute (names, or numbers for an
            array); or give ``sensitive_features`` to the methods.
        positive: the class that is meant by "positive"; the last one by default.
        given: columns of X that may rightly matter: Df is independent of S within each crossing of
            their values, a stratum, in place of the whole table.
        mechanism: "shared", P(D | Df, S) is the same in all strata; "within", each has its own.
        structure: "auto", a recipe that chooses on held-out rows; "strudel", the paper's;
            "chow-liu", one tree; "forest", boxes that tell the label; or a fitted model or circuit
            whose structure is kept and whose parameters EM starts from.
        n_components: circuits mixed inside each P(x | f, s); None lets "auto" choose.
        init: "prior" starts with Df near D, "random" with any parameters.
        n_init: random starts; all are kept in ``starts_``.
        smoothing: Laplace smoothing of all parameters.
        mechanism_prior: prior rows per (f, s) with P(D = f) = .9; None: 30 for "auto" and
            "forest", else 0.
        knowledge: what is known beforehand about P(Df) and P(D | Df, S); EM keeps to it.
        max_splits, patience: bounds of the structure search.
        max_iter, tol, min_iter: updates of EM, and when it may stop before.
        validation_fraction: part of the rows held out to choose structure, where needed.
        equal_mass: shift the log-odds of Df in each E-step so that its mass in the training
            rows is the same in all groups; not in the paper, and the objective may fall.
        hold_mechanism: keep P(Df) and P(D | Df, S) of circuits within .05 of those that a
            cross-fitted score of the label gives, so that Df does not drift.
        threshold: score above which ``predict`` gives the positive class.
        n_bins, rare: bins of a numeric column, None: 8, or 32 for a forest; share under which
            levels are merged, a fifth of it for a forest.
        numeric, categorical: columns that are binned, or whose values are levels, whatever they
            look like.
        numbers: "density": what is known of a number goes on inside its bin, with a density that
            the training rows choose; or "bins": it ends at the bin.
        monotone: numeric columns in whose bins the rate of the positive label only rises, or
            only falls.
        missing_values: values that mean "missing", besides NaN and null.
        decimal: the decimal mark of numbers that are text, "." or ","; None tells it by the texts
            of each column. A currency or percent sign and separated thousands are understood.
        guard: after the fit of a model with a latent decision, check that it is still about the
            label; ``warnings_`` and a DriftWarning say where not.
        random_state: seed.
        n_jobs: not used; for scikit-learn's tools.
        verbose: a line of progress on the terminal.
    """

    _model: Model = "FairPC"


class NLatPC(CircuitClassifier):
    """P(s) P(d) P(x | d, s): the observed label itself is made independent of S.

    ``structure="auto"`` means Strudel; ``predict_proba`` gives P(D | …). Other
    parameters as for :class:`FairPC`.
    """

    _model: Model = "NLatPC"


@dataclass(eq=False, repr=False, kw_only=True)
class _Naive(CircuitClassifier):
    """Models whose features are independent given the cell: they have no structure to choose."""

    # No parameters of these models; their defaults stay.
    structure: Literal["auto"] = field(init=False)
    n_components: None = field(init=False)
    max_splits: int = field(init=False)
    patience: int = field(init=False)
    validation_fraction: float = field(init=False)
    equal_mass: bool = field(init=False)


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
