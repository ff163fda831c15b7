# mypy: ignore-errors
"""Kernels of the corrected loss: its derivatives by the log odds of Df, and its value.

Inputs are checked by the callers in ``learners``.
"""

from __future__ import annotations

import numpy as np

from fairpc.core._compiling import inner_kernel, kernel


@inner_kernel
def _shares(odds, r, q):
    """P(f) of a row of its log odds, by class, into ``q``."""
    top, total = odds[0, r], 0.0
    for f in range(1, len(q)):
        top = max(top, odds[f, r])
    for f in range(len(q)):
        q[f] = np.exp(odds[f, r] - top)
        total += q[f]
    for f in range(len(q)):
        q[f] /= total


@kernel
def corrected_slopes(odds, d, w, kind, mechanism, slope, bend):
    """First derivative and expected curvature of log Σ_f q_f P(d | f) by the odds of each row.

    Args:
        odds: log odds of Df, trees × rows: of class 1 against class 0, or of each of more classes.
        d, w: label and weight of each row.
        kind: which mechanism bent the label of each row.
        mechanism: P(D = d | Df = f), kinds × classes × classes.
        slope, bend: what is found, trees × rows.
    """
    n_trees, n_rows = odds.shape
    n_classes = mechanism.shape[1]
    q = np.empty(n_classes)
    told = np.empty(n_classes)
    for r in range(n_rows):
        of = mechanism[kind[r]]
        if n_trees == 1:
            p = 1.0 / (1.0 + np.exp(-odds[0, r]))
            one = max(of[0, 1] + p * (of[1, 1] - of[0, 1]), 1e-12)
            none = max(1.0 - one, 1e-12)
            step = p * (1.0 - p) * (of[1, 1] - of[0, 1])
            slope[0, r] = w[r] * step * (1.0 / one if d[r] == 1 else -1.0 / none)
            bend[0, r] = w[r] * step * step / (one * none)
            continue
        _shares(odds, r, q)
        for k in range(n_classes):
            told[k] = 0.0
            for f in range(n_classes):
                told[k] += q[f] * of[f, k]
            told[k] = max(told[k], 1e-12)
        for f in range(n_classes):
            curved = 0.0
            for k in range(n_classes):
                apart = of[f, k] - told[k]
                curved += apart * apart / told[k]
            bend[f, r] = w[r] * q[f] * q[f] * curved
            slope[f, r] = w[r] * q[f] * (of[f, d[r]] / told[d[r]] - 1.0)


@kernel
def corrected_loss(odds, d, w, kind, mechanism):
    """−Σ w log Σ_f q_f P(d | f); arguments as of ``corrected_slopes``."""
    n_trees, n_rows = odds.shape
    n_classes = mechanism.shape[1]
    q = np.empty(n_classes)
    loss = 0.0
    for r in range(n_rows):
        if n_trees == 1:
            q[1] = 1.0 / (1.0 + np.exp(-odds[0, r]))
            q[0] = 1.0 - q[1]
        else:
            _shares(odds, r, q)
        told = 0.0
        for f in range(n_classes):
            told += q[f] * mechanism[kind[r], f, d[r]]
        loss -= w[r] * np.log(max(told, 1e-12))
    return loss
