"""The obvious way: one NumPy operation per node, vectorised over rows, in log space."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fairpc.circuit import Circuit

FloatArray = npt.NDArray[np.float64]


def log_values(circuit: Circuit, rows: npt.NDArray[np.int16]) -> FloatArray:
    """log Pr_n of every node and row."""
    g = circuit.graph
    out = np.empty((g.n_nodes, len(rows)))
    with np.errstate(divide="ignore"):
        log_theta = np.log(circuit.parameters)
    for n in range(g.n_nodes):
        children = g.children(n)
        if g.kind[n] == 0:
            code = rows[:, g.variable[n]]
            out[n] = np.where((code < 0) | (code == g.value[n]), 0.0, -np.inf)
        elif g.kind[n] == 1:
            out[n] = out[children].sum(axis=0)
        else:
            start = g.block_ptr[g.block[n]]
            terms = out[children] + log_theta[start : start + len(children), None]
            out[n] = np.logaddexp.reduce(terms, axis=0)
    return out


def flows(circuit: Circuit, rows: npt.NDArray[np.int16]) -> tuple[float, FloatArray]:
    """Log-likelihood and expected flow per parameter: Algorithm 1, node by node."""
    g = circuit.graph
    values = log_values(circuit, rows)
    node_flow = np.zeros(values.shape)
    node_flow[g.root] = 1.0
    result = np.zeros(g.n_parameters)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_theta = np.log(circuit.parameters)
        for n in range(g.n_nodes - 1, -1, -1):
            start = g.block_ptr[g.block[n]]
            for k, c in enumerate(g.children(n)):
                if g.kind[n] == 1:
                    node_flow[c] += node_flow[n]
                else:
                    share = np.exp(log_theta[start + k] + values[c] - values[n])
                    f = node_flow[n] * np.where(np.isfinite(values[n]), share, 0.0)
                    node_flow[c] += f
                    result[start + k] += f.sum()
    return float(values[g.root].sum()), result
