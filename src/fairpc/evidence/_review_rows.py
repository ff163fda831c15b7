"""Reviewed rows: their checks, the weight of each, and a posterior corrected by them.

In batch k row i, not reviewed before, is drawn with chance p_ik, which may depend on earlier
reviews. What batch k says of a total is the sum over rows reviewed before, which are known, plus
what the draw says of the others; it is unbiased whatever came before. The batches are averaged with
weights ω_k proportional to their sizes. A row of batch j then counts

    W_i = ω_j / p_ij + Σ_{k>j} ω_k

times, and adds ω_j² (1 − p_ij) / p_ij² times its squared residual to the variance: the errors of
batches are uncorrelated.

A model that never saw a true decision is often wrong by a constant within a group and a recorded
label: errors that groups share leave no trace in the labels. A logistic regression of the reviewed
truth on the logit of the posterior, one per recorded label with intercepts per group, takes that
out. It is a posterior mode: without reviews it leaves the posterior as it is.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from fairpc.core import (
    Bools,
    Floats,
    MetricError,
    Positions,
    as_numbers,
    check_array,
    check_groups,
    check_scores,
    refuse_rows,
)

FOLDS: Final = 10
_EDGE: Final = 0.005
"""Least chance that a posterior is taken to mean; 0 and 1 have no logit."""
_PRIOR: Final = (0.25, 1.0, 2.0)
"""Precision of the priors: intercept around 0, slope around 1, a group's own intercept around 0."""
_LEAST: Final = 1e-9
"""Chance of a row that was drawn: a floor of a billion rows; squares of what is less overflow."""
_STEPS: Final = 25
_HALVINGS: Final = 50


def posterior_of(values: npt.ArrayLike) -> Floats:
    """P(Df = 1 | x, s, d) per row; of two columns, as models give them, the last."""
    table = check_array("posterior", values)
    if table.ndim == 2 and table.shape[1] == 2:
        table = table[:, 1]
    return check_scores(table, "posterior")


def binary(name: str, values: npt.ArrayLike, n: int, *, blank: bool = False) -> Floats:
    """A vector of 0 and 1; NaN where a value may be blank."""
    found = as_numbers(check_array(name, values))
    if found is None or found.shape != (n,):
        shape = np.shape(values)
        raise MetricError(f"{name} has shape {shape} or text in it: give 0 or 1 for {n} rows")
    wrong = ~np.isin(found, (0.0, 1.0))
    if blank:
        wrong &= ~np.isnan(found)
    refuse_rows(name, found, wrong, "give 0 or 1" + (", NaN where not known" if blank else ""))
    return found


def check_chances(values: npt.ArrayLike, drawn: Bools) -> Floats:
    """Chances of being drawn, 1e-9 to 1 where a row was; other rows' do not matter."""
    found = as_numbers(check_array("probability", values))
    if found is not None and found.ndim == 0:
        found = np.full(len(drawn), float(found))
    if found is None or found.shape != drawn.shape:
        raise MetricError(
            f"probability has shape {np.shape(values)}: give one chance, or one per row, of "
            f"{len(drawn)}"
        )
    wrong = drawn & ~((found >= _LEAST) & (found <= 1))
    rule = f"a row that was drawn has a chance of {_LEAST:g} to 1"
    refuse_rows("probability", found, wrong, rule)
    return found


def check_draw(
    rows: npt.ArrayLike, probability: npt.ArrayLike, n_rows: int, what: str = "the draw"
) -> tuple[Positions, Floats]:
    """Rows that were drawn of a table, each once, and their chances."""
    at = check_array("rows", rows).astype(np.intp)
    if at.size and not 0 <= at.min() <= at.max() < n_rows:
        raise MetricError(f"{what} has a row that is not below {n_rows}: give positions")
    if len(np.unique(at)) < len(at):
        raise MetricError(f"{what} has a row that was drawn before: each is drawn once")
    return at, check_chances(probability, np.ones(at.shape, np.bool_))


def check_drawn(values: npt.ArrayLike | None, truth: Floats) -> Bools:
    """Rows that were drawn; those with a truth where nobody says."""
    answered = ~np.isnan(truth)
    if not answered.any():
        raise MetricError("truth is NaN in every row: give the fair decision of reviewed rows")
    if values is None:
        return answered
    found = check_array("drawn", values)
    if found.dtype.kind != "b" or found.shape != truth.shape:
        raise MetricError(
            f"drawn has shape {found.shape} and type {found.dtype}: give True or False for "
            f"{len(truth)} rows"
        )
    if (answered & ~found).any():
        row = int(np.argmax(answered & ~found))
        raise MetricError(
            f"truth is known in row {row}, which was not drawn: leave out answers for such rows"
        )
    return found


def response_of(weight: Floats, drawn: Bools, answered: Bools, cell: Positions) -> Floats:
    """Share of the rows drawn that were answered, by cell; over all where a cell has no answer."""
    sent, filled = (np.bincount(cell, weight * some) for some in (drawn, answered))
    overall = filled.sum() / sent.sum()
    share = np.where(filled > 0, filled / np.maximum(sent, 1e-300), overall)
    return np.asarray(share[cell])


def weights_of(
    chance: Floats, drawn: Bools, batch: npt.ArrayLike | None, response: Floats | None = None
) -> tuple[Floats, Floats]:
    """How often each row counts, and what its squared residual adds to the variance.

    Both are 0 where a row was not drawn. ``response`` is the chance of an answer: rows that were
    answered stand for those of their cell that were not.
    """
    number = np.zeros(len(drawn), np.intp)  # of the batch, from 0; of no matter where not drawn
    if batch is not None:
        found = as_numbers(check_array("batch", batch))
        if found is None or found.shape != drawn.shape:
            raise MetricError(f"batch has shape {np.shape(batch)}: give a number per row")
        unknown = drawn & ~np.isfinite(found)
        refuse_rows("batch", found, unknown, "number the batches from the first")
        number[drawn] = np.unique(found[drawn], return_inverse=True)[1]
    sizes = np.bincount(number[drawn])
    share = sizes / max(sizes.sum(), 1)
    later = 1 - np.cumsum(share)
    weight, spread = np.zeros(len(drawn)), np.zeros(len(drawn))
    own, p = share[number[drawn]], chance[drawn]
    r = np.ones(len(p)) if response is None else response[drawn]
    if drawn.all() and (p[number == number.max()] == 1).all():
        # The last batch had to take all other rows: nothing is left to chance but answers.
        return 1 / r, (1 - r) / r**2
    weight[drawn] = (own / p + later[number[drawn]]) / r
    spread[drawn] = own**2 * (1 - p * r) / (p * r) ** 2
    return weight, spread


def recalibrate_posterior(
    posterior: npt.ArrayLike,
    truth: npt.ArrayLike,
    y: npt.ArrayLike,
    sensitive_features: npt.ArrayLike,
    *,
    probability: npt.ArrayLike,
    batch: npt.ArrayLike | None = None,
    cross_fit: bool = False,
) -> Floats:
    """The posterior of every row after a review, for the design of the next batch.

    Args:
        posterior: P(Df = 1 | x, s, d) of every row, from a model.
        truth: the reviewed fair decision, 0 or 1; NaN where a row was not reviewed.
        y: recorded label, 0 or 1.
        sensitive_features: group per row.
        probability: chance with which a row was drawn; only that of reviewed rows is used.
        batch: number of the batch in which a row was drawn, where there were several.
        cross_fit: correct each row by the truth of rows in other folds alone, as estimates need.
    """
    m = posterior_of(posterior)
    n = len(m)
    t = binary("truth", truth, n, blank=True)
    labels = binary("y", y, n).astype(np.intp)
    _, ids = check_groups(sensitive_features, n, "sensitive_features", least=1)
    drawn = ~np.isnan(t)
    weight, _ = weights_of(check_chances(probability, drawn), drawn, batch)
    folds = folds_of_rows(n) if cross_fit else None
    return recalibrated(m, t, labels, ids, weight, folds)


def folds_of_rows(n: int) -> Positions:
    """A fold per row that depends on nothing but the number of rows."""
    return np.random.default_rng(0).permutation(n) % FOLDS


def recalibrated(
    m: Floats,
    truth: Floats,
    labels: Positions,
    ids: Positions,
    weight: Floats,
    folds: Positions | None,
) -> Floats:
    """Checked arrays in, corrected posterior out; weights are those of rows with a truth."""
    known = np.flatnonzero(~np.isnan(truth))
    if folds is None:
        own, others = np.zeros(len(m), np.intp), np.ones((1, len(known)), np.bool_)
    else:
        own, others = folds, folds[known] != np.arange(FOLDS)[:, None]
    k = int(ids.max()) + 1
    groups = ids[known, None] == np.arange(k)
    x = np.column_stack([np.ones(len(known)), _logit(m[known]), groups])
    beta = np.empty((len(others), 2, k + 2))
    for d in (0, 1):
        here = labels[known] == d
        beta[:, d] = _posterior_modes(x[here], truth[known][here], weight[known] * others, here)
    case = own, labels
    return _expit(beta[*case, 0] + beta[*case, 1] * _logit(m) + beta[*case, 2 + ids])


def shifted(m: Floats, place: Positions, mean: Floats) -> Floats:
    """A posterior whose log-odds are shifted in each place, so that its mean there is the given."""
    odds, size = _logit(m, 1e-12), np.bincount(place, minlength=len(mean))
    low, high = np.full(len(mean), -30.0), np.full(len(mean), 30.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        found = _expit(odds + middle[place])
        below = np.bincount(place, found, len(mean)) < mean * size
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return found


def _posterior_modes(x: Floats, t: Floats, weights: Floats, here: Bools) -> Floats:
    """Coefficients of logistic regressions with normal priors, a line of weights each.

    By Newton steps, halved until the objective rises; the objective is strictly concave.
    """
    k = x.shape[1] - 2
    precision = np.array([*_PRIOR[:2], *[_PRIOR[2]] * k])
    centre = np.array([0.0, 1.0, *[0.0] * k])
    w = weights[:, here]
    # Weights add up to the number of rows they are worth, so that the priors weigh as much as rows.
    squares = (w * w).sum(axis=1, keepdims=True)
    w = w * w.sum(axis=1, keepdims=True) / np.where(squares > 0, squares, 1.0)

    def objective(b: Floats) -> Floats:
        z = b @ x.T
        fit = (w * (t * z - np.logaddexp(0.0, z))).sum(axis=1)
        return np.asarray(fit - (b - centre) ** 2 @ precision / 2)

    beta = np.tile(centre, (len(w), 1))
    reached = objective(beta)
    for _ in range(_STEPS):
        p = _expit(beta @ x.T)
        gradient = (w * (t - p)) @ x - precision * (beta - centre)
        hessian = np.einsum("fi,ij,ik->fjk", w * p * (1 - p), x, x) + np.diag(precision)
        step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
        for _ in range(_STEPS):
            found = objective(beta + step)
            worse = found < reached - 1e-12
            if not worse.any():
                break
            step[worse] /= 2
        beta, reached = beta + step, found
        if np.abs(step).max() < 1e-7:
            break
    return beta


def _logit(p: Floats, edge: float = _EDGE) -> Floats:
    inner = np.clip(p, edge, 1 - edge)
    return np.log(inner / (1 - inner))


def _expit(z: Floats) -> Floats:
    return 1 / (1 + np.exp(-np.clip(z, -30, 30)))
