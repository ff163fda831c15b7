"""Where the time of a default fit goes: CPU seconds of each phase, on one thread, and peak memory.

    FAIRPC_BIAS_DATA=… python benchmarks/phases.py            all fits below
    FAIRPC_BIAS_DATA=… python benchmarks/phases.py credit     those whose name has the word

`against.py` compares two checkouts by the same work (``--seconds NAME TABLE``).

Each fit is a process of its own, in which a first fit compiles and a second one is measured, also
in fits of scikit-learn's gradient boosting to the same rows. Time goes to the innermost phase.
Memory is what the second fit adds to the process at most, beside three times the coded table and
300 MB.
"""

from __future__ import annotations

import importlib
import os
import resource
import subprocess
import sys
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from time import process_time
from typing import Any

PHASES: dict[str, tuple[str, ...]] = {
    "reading and encoding": (
        "models._tables:RowReader.training",
        "models._latent_decision:fit_coding",
        "models._latent_decision:rows_in_order",
    ),
    "columns that give group or label away": (
        "models._circuit_fit:CircuitFit.warn_of_leaks",
        "models._latent_decision:warn_of_leaks",
    ),
    "density of the groups": ("models._forest_fit:_learning",),
    "learners of the label and of the decision": ("models._label_scores:ScoreLearning.by_learner",),
    "identified set": ("models._forest_fit:rates_between", "models._latent_decision:fit_score_map"),
    "mechanism": ("models._forest_fit:fit_mechanism",),
    "circuits to compare with": (
        "models._circuit_fit:coarser",
        "models._circuit_fit:compare_labels",
    ),
    "scores stretched": ("models._forest_fit:sharpened",),
    "sums over features": ("models._forest_fit:_additive",),
    "trees and their leaves": ("models._forest_fit:_grown",),
    "spread of the trees": ("models._forest_fit:flipped_share",),
    "circuits: where EM starts": ("models._circuit_fit:fit_auto",),
    "circuits: a round of structural EM": ("models._selection:_round",),
    "fit check": ("models._circuit_fit:check_fit",),
    "labels counted": ("models._estimators:label_counts",),
    "classifiers of the label": ("models._fold_classifiers:FoldClassifiers.of_labels",),
    "classifiers of the decision": ("models._fold_classifiers:FoldClassifiers.of_decisions",),
    "held-out rows scored": (
        "models._latent_decision:held_out_scores",
        "models._fold_classifiers:_held_out",
    ),
    "calibration": ("models._latent_decision:calibrated",),
    "boosting, for the test": ("learners._cross_fit:boosted_probabilities",),
    "logistic regression, for the test": ("learners._cross_fit:logistic_probabilities",),
    "cut-offs": ("evidence._top_sets:_cut_offs",),
}
WORK = (
    "FairPC credit",
    "FairPC adult",
    "FairPC synthetic-30",
    "FairPC 400-numbers",
    "LatentDecision credit",
    "LatentDecision adult",
    "test_assumptions credit",
    "audit adult",
    "FairPC income",
)
ONE_THREAD = {f"{name}_THREADS": "1" for name in ("OMP_NUM", "OPENBLAS_NUM", "FAIRPC")}
ROWS = {"FairPC credit": 12_800, "LatentDecision credit": 12_800, "test_assumptions credit": 16_000}


class Clock:
    """Seconds of each phase, without those of phases inside it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.running: list[float] = []

    def watched(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self.running.append(0.0)
            begun = process_time()
            try:
                return function(*args, **kwargs)
            finally:
                spent = process_time() - begun
                self.seconds[name] += spent - self.running.pop()
                if self.running:
                    self.running[-1] += spent

        return call

    def watch(self) -> None:
        for name, places in PHASES.items():
            for place in places:
                module, path = place.split(":")
                *owners, last = path.split(".")
                owner: Any = importlib.import_module(f"fairpc.{module}")
                for part in owners:
                    owner = getattr(owner, part)
                if hasattr(owner, last):
                    setattr(owner, last, self.watched(name, getattr(owner, last)))

    def watch_audit(self) -> None:
        """Each step of an audit is a phase."""
        from fairpc.auditing._job import Job

        run = Job.run

        def step(job: Any, own: Any) -> None:
            self.watched(f"audit: {own.name}", run)(job, own)

        Job.run = step  # type: ignore[method-assign,assignment]


def table(name: str) -> tuple[Any, Any, Any]:
    """Features, labels and groups; of an audit, those of the test part."""
    if name.endswith("adult"):
        from fairpc.datasets import load_adult

        data = load_adult()
        part = slice(32_561, None) if name.startswith("audit") else slice(32_561)
        return data.X[part], data.y[part], data.sensitive[part]
    import numpy as np
    import pandas as pd

    if name.endswith("income"):
        rows = pd.read_parquet(Path(os.environ["FAIRPC_BIAS_DATA"]) / "acs_income.parquet")
        features = rows.drop(columns=["SEX", "PINCP", "index"], errors="ignore")
        return features, rows["PINCP"].to_numpy(), rows["SEX"].to_numpy()
    if name.endswith("400-numbers"):
        rng = np.random.default_rng(0)
        x, s = rng.normal(size=(1000, 400)), rng.integers(0, 2, 1000)
        y = (x[:, :5].sum(axis=1) + 0.5 * s + rng.normal(size=1000) > 0).astype(int)
        return pd.DataFrame(x).rename(columns=str), y, s
    if name.endswith("synthetic-30"):
        from adult_like import needed

        paper = needed("30")
        fold = paper.folds[0]
        some = paper.rows.take(np.concatenate([fold.train, fold.valid]))
        return pd.DataFrame(np.asarray(some.x)).rename(columns=str), some.d, some.s
    rows = pd.read_csv(Path(os.environ["FAIRPC_BIAS_DATA"]) / "credit_card.csv")
    rows = rows.sample(ROWS[name], random_state=0).reset_index(drop=True)
    label = next(column for column in rows.columns if "default" in column.lower())
    features = rows.drop(columns=[label, "SEX"])
    return features, 1 - rows[label].to_numpy(), rows["SEX"].to_numpy()


def boosting(features: Any, labels: Any, groups: Any) -> float:
    """Seconds of one fit of scikit-learn's gradient boosting, the least of three."""
    import numpy as np
    import pandas as pd
    from sklearn.ensemble import HistGradientBoostingClassifier

    frame = pd.DataFrame({str(c): np.asarray(features[c]) for c in features.columns})
    frame["group"] = np.asarray(groups)
    for column in frame.columns[[not pd.api.types.is_numeric_dtype(t) for t in frame.dtypes]]:
        frame[column] = frame[column].astype("category")
    seconds = []
    for _ in range(3):
        begun = process_time()
        model = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0)
        model.fit(frame, np.asarray(labels))
        seconds.append(process_time() - begun)
    return min(seconds)


def work(name: str, X: Any, y: Any, s: Any) -> Callable[[], Any]:
    """The fit, the test or the audit that is measured."""
    import fairpc
    from fairpc.evidence import test_assumptions

    model = name.split()[0]
    if model == "test_assumptions":
        return lambda: test_assumptions(X, y, s)
    if model != "audit":
        return lambda: getattr(fairpc, model)(random_state=0).fit(X, y, sensitive_features=s)
    train = table("FairPC adult")
    audited = fairpc.FairPC(random_state=0).fit(*train[:2], sensitive_features=train[2])

    def page() -> None:
        path = Path(tempfile.gettempdir()) / f"fairpc-phases-{os.getpid()}.html"
        fairpc.audit(audited, X, y, sensitive_features=s).save(path)
        path.unlink()

    return page


def seconds(name: str, path: str) -> float:
    """CPU seconds of it on a table that was dumped, after one that compiles, the least of two."""
    import joblib  # type: ignore[import-untyped]

    warnings.simplefilter("ignore")
    fit, found = work(name, *joblib.load(path)), []
    for _ in range(3):
        begun = process_time()
        fit()
        found.append(process_time() - begun)
    return min(found[1:])


def measure(name: str) -> None:
    warnings.simplefilter("ignore")
    X, y, s = table(name)
    fit = work(name, X, y, s)
    fit()
    before = resident("VmRSS", reset=True)
    clock = Clock()
    clock.watch()
    clock.watch_audit()
    run = clock.watched("everything else", fit)
    begun = process_time()
    run()
    total = process_time() - begun
    added = resident("VmHWM") - before
    one = boosting(X, y, s)
    print(
        f"{name}, {len(y):,} rows x {len(X.columns)}: {total:.2f} s, {total / one:.1f} x boosting"
    )
    for phase, seconds in sorted(clock.seconds.items(), key=lambda item: -item[1]):
        if seconds >= 0.005:
            print(f"    {phase:44s} {seconds:6.2f} {seconds / total:6.0%}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    allowed = 300 + 3 * 2 * X.shape[0] * (X.shape[1] + 2) / 1e6  # codes have two bytes
    print(
        f"    memory: the fit adds {added:.0f} MB (at most {allowed:.0f}), peak of the process "
        f"{peak:.0f} MB",
        flush=True,
    )


def resident(entry: str, *, reset: bool = False) -> float:
    """Megabytes of this process, now (VmRSS) or at most since the last reset (VmHWM); Linux."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(entry))


def processor() -> str:
    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.exists() else []
    return next((line.split(":")[1].strip() for line in lines if "model name" in line), "unknown")


def main() -> None:
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2])
        return
    if sys.argv[1:2] == ["--seconds"]:
        print(seconds(*sys.argv[2:4]))
        return
    load = os.getloadavg()[0]
    print(f"{processor()}, {os.cpu_count()} cores, load {load:.1f}; CPU seconds, one thread")
    for name in WORK:
        if all(word in name for word in sys.argv[1:]):
            command = [sys.executable, __file__, "--measure", name]
            subprocess.run(command, env=os.environ | ONE_THREAD, check=True)


if __name__ == "__main__":
    main()
