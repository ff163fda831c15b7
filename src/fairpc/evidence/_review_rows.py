"""Reviewed rows: their checks, and the weight of each.

In batch k row i, not reviewed before, is drawn with chance p_ik, which may depend on earlier
reviews. What batch k says of a total is the sum over rows reviewed before, which are known, plus
what the draw says of the others; it is unbiased whatever came before. The batches are averaged with
weights ω_k proportional to their sizes. A row of batch j then counts

    W_i = ω_j / p_ij + Σ_{k>j} ω_k

times, and adds ω_j² (1 − p_ij) / p_ij² times its squared residual to the variance: the errors of
batches are uncorrelated.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fairpc.core import (
    Bools,
    Floats,
    MetricError,
    Positions,
    as_numbers,
    check_array,
    check_scores,
    refuse_rows,
)


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
    """Chances of being drawn, above 0 and at most 1 where a row was; other rows' do not matter."""
    found = as_numbers(check_array("probability", values))
    if found is not None and found.ndim == 0:
        found = np.full(len(drawn), float(found))
    if found is None or found.shape != drawn.shape:
        raise MetricError(
            f"probability has shape {np.shape(values)}: give one chance, or one per row, of "
            f"{len(drawn)}"
        )
    wrong = drawn & ~((found > 0) & (found <= 1))
    refuse_rows(
        "probability", found, wrong, "a row that was drawn has a chance above 0 and at most 1"
    )
    return found


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
    sent, told = (np.bincount(cell, weight * some) for some in (drawn, answered))
    overall = told.sum() / sent.sum()
    share = np.where(told > 0, told / np.maximum(sent, 1e-300), overall)
    return np.asarray(share[cell])


def weights_of(
    chance: Floats, drawn: Bools, batch: npt.ArrayLike | None, response: Floats | None = None
) -> tuple[Floats, Floats]:
    """How often each row counts, and what its squared residual adds to the variance.

    Both are 0 where a row was not drawn. ``response`` is the chance of an answer: rows that were
    answered stand for those of their cell that were not.
    """
    number = _batches(batch, drawn)
    sizes = np.bincount(number[drawn])
    share = sizes / max(sizes.sum(), 1)
    later = 1 - np.cumsum(share)
    weight, spread = np.zeros(len(drawn)), np.zeros(len(drawn))
    own, p = share[number[drawn]], chance[drawn]
    r = np.ones(len(p)) if response is None else response[drawn]
    weight[drawn] = (own / p + later[number[drawn]]) / r
    spread[drawn] = own**2 * (1 - p * r) / (p * r) ** 2
    return weight, spread


def _batches(batch: npt.ArrayLike | None, drawn: Bools) -> Positions:
    """Batches in order, as numbers from 0; those of rows not drawn do not matter."""
    number = np.zeros(len(drawn), np.intp)
    if batch is None:
        return number
    found = as_numbers(check_array("batch", batch))
    if found is None or found.shape != drawn.shape:
        raise MetricError(f"batch has shape {np.shape(batch)}: give a number per row")
    refuse_rows("batch", found, drawn & ~np.isfinite(found), "number the batches from the first")
    number[drawn] = np.unique(found[drawn], return_inverse=True)[1]
    return number
