"""Numbers printed in the paper, to be shown beside ours (Appendix "Additional Experiments")."""

from __future__ import annotations

from typing import Final

NAN: Final = float("nan")

# Log-likelihood (over all rows), accuracy, F1 from rates, discrimination: table "Comparison on
# real world datasets".
REAL_WORLD: Final[dict[tuple[str, str], tuple[float, float, float, float]]] = {
    ("compas", "FairPC"): (-3.919, 0.881, 0.868, 0.009),
    ("compas", "LatNB"): (-4.210, 0.881, 0.897, 0.036),
    ("compas", "NLatPC"): (-3.922, 0.877, 0.723, 0.024),
    ("compas", "2NB"): (-4.228, 0.879, 0.808, 0.057),
    ("compas", "FairLR"): (NAN, 0.878, 0.699, 0.007),
    ("compas", "Reduction"): (NAN, 0.882, 0.769, 0.011),
    ("compas", "Reweight"): (NAN, 0.882, 0.764, 0.049),
    ("adult", "FairPC"): (-5.962, 0.822, 0.674, 0.028),
    ("adult", "LatNB"): (-6.515, 0.634, 0.761, 0.132),
    ("adult", "NLatPC"): (-5.980, 0.831, 0.649, 0.084),
    ("adult", "2NB"): (-6.764, 0.823, 0.725, 0.205),
    ("adult", "FairLR"): (NAN, 0.786, 0.377, 0.009),
    ("adult", "Reduction"): (NAN, 0.821, 0.625, 0.019),
    ("adult", "Reweight"): (NAN, 0.803, 0.709, 0.007),
    ("german", "FairPC"): (-11.422, 0.647, 0.641, 0.056),
    ("german", "LatNB"): (-11.999, 0.499, 0.476, 0.081),
    ("german", "NLatPC"): (-11.454, 0.680, 0.663, 0.050),
    ("german", "2NB"): (-12.207, 0.683, 0.665, 0.064),
    ("german", "FairLR"): (NAN, 0.711, 0.684, 0.034),
    ("german", "Reduction"): (NAN, 0.706, 0.679, 0.071),
    ("german", "Reweight"): (NAN, 0.715, 0.684, 0.038),
}

# Table "Pairwise Wilcoxon test p-values for test log-likelihoods"; 0 is printed 0.00E+00.
WILCOXON: Final[dict[tuple[str, str], tuple[float, float, float]]] = {
    ("2NB", "LatNB"): (9.08e-2, 0.0, 5.53e-8),
    ("2NB", "NLatPC"): (0.0, 0.0, 4.27e-37),
    ("2NB", "FairPC"): (0.0, 0.0, 1.53e-36),
    ("LatNB", "NLatPC"): (0.0, 0.0, 6.05e-19),
    ("LatNB", "FairPC"): (0.0, 0.0, 9.03e-23),
    ("NLatPC", "FairPC"): (1.42e-302, 0.0, 3.34e-1),
}

# Table "Pairwise McNemar's test p-values for test prediction accuracy": COMPAS, Adult, German.
MCNEMAR: Final[dict[tuple[str, str], tuple[float, float, float]]] = {
    ("2NB", "LatNB"): (7.031e-2, 0.0, 1.810e-17),
    ("2NB", "NLatPC"): (3.205e-1, 1.438e-5, 8.299e-1),
    ("2NB", "FairPC"): (7.049e-2, 3.830e-1, 2.444e-6),
    ("2NB", "Reduction"): (6.489e-2, 2.099e-1, 3.347e-2),
    ("2NB", "Reweight"): (7.339e-2, 2.516e-30, 4.678e-3),
    ("2NB", "FairLR"): (5.207e-1, 2.431e-50, 8.730e-3),
    ("LatNB", "NLatPC"): (3.497e-2, 0.0, 3.158e-15),
    ("LatNB", "FairPC"): (9.547e-1, 0.0, 1.904e-8),
    ("LatNB", "Reduction"): (4.921e-1, 0.0, 8.699e-19),
    ("LatNB", "Reweight"): (5.628e-1, 0.0, 1.094e-19),
    ("LatNB", "FairLR"): (8.014e-2, 0.0, 2.806e-20),
    ("NLatPC", "FairPC"): (2.060e-2, 2.775e-20, 1.688e-6),
    ("NLatPC", "Reduction"): (6.854e-5, 1.486e-21, 4.108e-2),
    ("NLatPC", "Reweight"): (1.009e-4, 2.101e-60, 7.096e-3),
    ("NLatPC", "FairLR"): (7.791e-1, 1.017e-104, 1.911e-2),
    ("FairPC", "Reduction"): (4.710e-1, 5.240e-1, 4.913e-9),
    ("FairPC", "Reweight"): (5.478e-1, 8.664e-34, 5.139e-10),
    ("FairPC", "FairLR"): (6.730e-2, 1.560e-59, 6.094e-10),
    ("Reduction", "Reweight"): (6.392e-1, 5.095e-29, 1.060e-1),
    ("Reduction", "FairLR"): (7.083e-4, 1.574e-65, 4.458e-1),
    ("Reweight", "FairLR"): (8.349e-4, 1.338e-11, 6.115e-1),
}

# Table "Comparison of log-likelihoods on synthetic datasets", by number of features.
SYNTHETIC_METHODS: Final = ("True", "LatNB", "NLatPC", "FairPC-rand", "FairPC")
SYNTHETIC: Final[dict[int, tuple[float, ...]]] = {
    10: (-6.975, -7.361, -7.059, -7.024, -7.022),
    11: (-7.468, -8.068, -7.612, -7.540, -7.540),
    12: (-8.091, -8.614, -8.224, -8.166, -8.163),
    13: (-8.573, -9.146, -8.717, -8.644, -8.644),
    14: (-9.149, -9.832, -9.392, -9.281, -9.276),
    15: (-9.808, -10.677, -10.057, -9.920, -9.920),
    16: (-10.210, -10.989, -10.537, -10.407, -10.405),
    17: (-11.119, -11.626, -11.408, -11.269, -11.269),
    18: (-11.296, -12.524, -11.680, -11.513, -11.513),
    19: (-11.718, -13.003, -12.207, -11.973, -11.973),
    20: (-12.476, -13.592, -12.971, -12.755, -12.755),
}


def real_world(dataset: str, method: str) -> dict[str, float]:
    """The printed line of a method, by the names of our numbers; empty where there is none."""
    keys = ("log_likelihood_all", "accuracy", "rate_f1", "discrimination")
    return dict(zip(keys, REAL_WORLD.get((dataset, method), ()), strict=False))


def synthetic(n_features: int) -> dict[str, float]:
    """The printed line of a synthetic table, by method; empty where there is none."""
    return dict(zip(SYNTHETIC_METHODS, SYNTHETIC.get(n_features, ()), strict=False))
