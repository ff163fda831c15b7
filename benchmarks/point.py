"""What the point by a rule costs in scores, against the point by prior rows: injected bias.

    python benchmarks/point.py 1 2          seeds; all tables, three mechanisms, 4,000 training rows

The rule keeps the fair rate between the groups' recorded rates. Cells are counted apart by whether
the true rate is there. A score whose mean is off by e has a Brier score that is larger by e² than
that of the same score shifted to the true mean: "level" is the part that e² makes of a difference.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from sklearn.metrics import roc_auc_score

from fairpc import FairPC
from injected_bias import FAVOURED, MECHANISMS, OTHER, TABLES, Rows, folds, inject
from label_bias import GROUP, with_group

Floats = npt.NDArray[np.float64]

N_ROWS: Final = 5_000
INJECTED: Final = ("strong", "paper", "mild")
MEASURES: Final = ("accuracy", "AUC", "Brier", "level", "mechanism error")


def model(*, prior: bool, seed: int) -> FairPC:
    rows = 30.0 if prior else None
    return FairPC(sensitive=GROUP, mechanism_prior=rows, random_state=seed)


def measured(fitted: Any, test: Rows, truth: Floats, rate: float) -> list[float]:
    """The measures of a fitted model; ``rate`` is the true P(Df), ``truth`` P(D = 1 | Df, S)."""
    scores = fitted.predict_proba(with_group(test))[:, 1]
    return [
        float(((scores > 0.5) == test.f).mean()),
        float(roc_auc_score(test.f, scores)),
        float(np.square(scores - test.f).mean()),
        float(fitted.fair_rate_[1] - rate) ** 2,
        float(np.abs(fitted.bias_mechanism_[:, :, 1] - truth).max()),
    ]


def cells(seed: int) -> Iterator[tuple[bool, list[float]]]:
    """Whether the true rate lies between the recorded ones, and measures: rule less prior."""
    for table in TABLES:
        for mechanism in INJECTED:
            rows = inject(table, mechanism, seed=seed, n_rows=N_ROWS)
            train, test = next(folds(rows, table, mechanism, seed=seed))
            truth = np.array([MECHANISMS[mechanism][group] for group in (FAVOURED, OTHER)])
            rate = float(train.f.mean())
            recorded = truth @ [1 - rate, rate]
            found = [
                measured(
                    model(prior=prior, seed=seed).fit(with_group(train), train.d),
                    *(test, truth, rate),
                )
                for prior in (False, True)
            ]
            inside = bool(recorded.min() <= rate <= recorded.max())
            yield inside, (np.array(found[0]) - found[1]).tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", nargs="+", type=int)
    seeds = parser.parse_args().seeds
    warnings.simplefilter("ignore")
    print("rule less prior".ljust(40), *(name.rjust(15) for name in MEASURES))
    found = [cell for seed in seeds for cell in cells(seed)]
    for name, kept in {"all": (True, False), "between": (True,), "outside": (False,)}.items():
        some = np.array([values for inside, values in found if inside in kept])
        line = f"true rate {name}: {len(some)} cells".ljust(40)
        print(line, *(f"{mean:+15.4f}" for mean in some.mean(axis=0)), flush=True)


if __name__ == "__main__":
    main()
