"""Who finds the decision behind altered labels? Real tables, known bias, judged against hidden Df.

    python benchmarks/proof.py run --out FILE                   every method, our assumptions hold
    python benchmarks/proof.py run --out FILE --tables law credit --mechanisms strong --folds 0
    python benchmarks/proof.py run --out FILE --failures gap features unseen groups
    python benchmarks/proof.py run --out FILE --methods fairpc --again fairpc
    python benchmarks/proof.py table --out FILE --page docs/proof.md
    python benchmarks/proof.py pictures --out FILE --folder docs/pictures
    python benchmarks/proof.py summary --out FILE --markdown    tables by fold

A table's own label is taken as Df, made independent of S, and altered into D (``injected_bias``),
or altered against our assumptions (``failing``). A method sees X, S and D of four folds and is
judged on the fifth. Each result is a line of a file, so a stopped run goes on where it was.
--train caps the training rows, --hide .3 also hides cells of test rows, --seeds-apart also counts
decisions that turn by chance, --sets also tests the assumptions. Seconds are of the fit.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import platform
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from failing import FAILURES, HELD, TABLES as FAILING_TABLES, inject_failing
from fairpc.comparison._runner import Decided, Method, run_jobs, run_method
from fairpc.evidence import (
    AssumptionTest,
    GroupBounds,
    GroupRange,
    Interval,
    clopper_pearson,
    identified_set,
    test_assumptions,
)
from injected_bias import (
    FAVOURED,
    MECHANISMS,
    N_FOLDS,
    OTHER,
    READ,
    TABLES,
    Rows,
    find_folder,
    folds,
    generator,
    hide,
    inject,
)
from label_bias import METHODS as FIRST, Floats, with_group
from label_bias_summary import summary
from proof_pictures import draw
from proof_tables import DEFAULT, VERSIONS, as_csv, blocks, fill_page
from rivals import RIVALS

Record = dict[str, Any]

METHODS: dict[str, Method] = {**FIRST, **RIVALS}
TAKE_HOLES = ("hgb", "fairpc", "forest", "latent")
REPEATED = ("lr", "hgb", "fairpc", "forest", "latent")
"""Methods that --hide and --seeds-apart look at, as far as they were asked for."""


def measure(method: Method, train: Rows, test: Rows, cell: Record) -> Record:
    """How well a method finds Df of the test rows, and what its fit takes."""
    run = run_method(method, train, test, cell["seed"])
    model, scores = run.fitted.model, run.decided.scores
    found = {**judge(run.decided, test), **learned(model, cell["mechanism"])}
    if hasattr(model, "predict_bounds") and scores is not None:
        found |= held_bounds(bounds_of(model, test), scores, test)
    found["truth"] = float(train.f.mean())
    return {**found, "cpu": round(run.cpu, 2), "wall": round(run.seconds, 2)}


def measure_hidden(method: Method, train: Rows, test: Rows, cell: Record) -> Record:
    """The same fit on test rows with and without hidden cells."""
    decide = method(train, cell["seed"]).decide
    rng = generator(cell["seed"], cell["table"], cell["mechanism"], "hide", str(cell["fold"]))
    whole = judge(decide(test), test)
    holes = judge(decide(hide(test, cell["share"], rng)), test)
    names = ("accuracy", "auc")
    return {n: whole[n] for n in names} | {f"{n}_hidden": holes[n] for n in names}


def measure_apart(method: Method, train: Rows, test: Rows, cell: Record) -> Record:
    """Share of decisions that turn with another random_state, and with drawn training rows."""
    seed = cell["seed"]
    rng = generator(seed, cell["table"], cell["mechanism"], "bootstrap", str(cell["fold"]))
    drawn = train.take(rng.integers(len(train), size=len(train)))
    first = method(train, seed).decide(test).decisions
    other = method(train, seed + 1000).decide(test).decisions
    again = method(drawn, seed).decide(test).decisions
    return {
        "turned_by_seed": float(np.abs(other - first).mean()),
        "turned_by_bootstrap": float(np.abs(again - first).mean()),
    }


def measure_set(train: Rows, classifier: str | None, cell: Record) -> Record:
    """The confidence set of P(Df) that training rows give, and its mechanisms, beside the truth.

    The identified set at the estimates has no sampling error; it is there to show what that does.
    """
    start = time.process_time()
    found = test_assumptions(
        train.x, train.d, train.s, positive=1, level=LEVEL, classifier=classifier
    )
    cpu = time.process_time() - start
    at_estimates = identified_set(train.d.astype(np.float64), train.s, ends=found.ends())
    record = {
        "lower": found.lower,
        "upper": found.upper,
        "rejected": bool(found.rejected),
        "estimated_lower": at_estimates.lower,
        "estimated_upper": at_estimates.upper,
        "truth": float(train.f.mean()),
        "cpu": round(cpu, 2),
    }
    if found.rejected:
        return record
    truth = MECHANISMS[cell["mechanism"]]
    rates = np.array([truth[str(group.group)] for group in found.groups])
    possible = np.array([possible_rates(found, group) for group in found.groups])
    lower, upper = possible[:, :, 0], possible[:, :, 1]
    return {
        **record,
        "mechanism_inside": float(((lower <= rates) & (rates <= upper)).mean()),
        "mechanism_width": float((upper - lower).mean()),
    }


LEVEL = 0.95


def possible_rates(found: AssumptionTest, group: GroupBounds) -> list[tuple[float, float]]:
    """Ranges of P(D = 1 | Df = 0) and P(D = 1 | Df = 1) of a group over the confidence set.

    The rate of the group and the rates of its top and bottom sets are within exact limits, each
    with the tail that the test has.
    """
    tail = (1 - LEVEL) / (2 * len(found.groups))
    negative, positive = sorted(group.classes, key=lambda c: bool(c.label == found.positive))
    low, high = (
        0.0 if math.isnan(c.set_rate) else clopper_pearson(c.set_rate * c.set_n, c.set_n, tail)[0]
        for c in (negative, positive)
    )
    pairs: list[tuple[Interval, Interval]] = []
    for rate in clopper_pearson(positive.rate * group.n, group.n, tail):
        possible = GroupRange.of(group.group, group.n, rate, (1 - low, high))
        points = np.linspace(found.lower, found.upper, 21)
        # The test has a joint limit of rate and top set, which may reach further than two.
        points = np.clip(points, possible.lower, possible.upper)
        pairs += [(possible.b0(pi), possible.b1(pi)) for pi in points.tolist()]
    ranges = [np.array([pair[f] for pair in pairs]) for f in (0, 1)]
    return [(float(ends[:, 0].min()), float(ends[:, 1].max())) for ends in ranges]


def judge(decided: Decided, test: Rows) -> Record:
    """Agreement with Df on test rows, and the gap of decisions, favoured group − other."""
    p, f, groups = decided.decisions, test.f, test.groups
    found = {
        "accuracy": float(np.mean(p * f + (1 - p) * (1 - f))),
        "gap": float(p[groups == FAVOURED].mean() - p[groups == OTHER].mean()),
        "auc": None,
        "brier": None,
    }
    if decided.scores is not None:
        found["auc"] = float(roc_auc_score(f, decided.scores))
        found["brier"] = float(np.mean((decided.scores - f) ** 2))
    return found


def learned(model: Any, mechanism: str) -> Record:
    """Largest error of P(D=1 | Df, S), and the least P(D = Df | s), of a model that has them."""
    if not hasattr(model, "bias_mechanism_"):
        return {}
    table, rate = np.asarray(model.bias_mechanism_), np.asarray(model.fair_rate_)
    truth = [MECHANISMS[mechanism][str(group)] for group in model.groups_]
    agreement = np.einsum("f,sff->s", rate, table)
    ends = getattr(model, "fair_rate_set_", ())
    return {
        "mechanism_error": float(np.abs(table[:, :, 1] - truth).max()),
        "agreement": float(agreement.min()),
        "fair_rate": float(rate[1]),
        "warnings": len(getattr(model, "warnings_", ())),
        **dict(zip(("lower", "upper"), ends, strict=False)),
    }


def bounds_of(model: Any, test: Rows) -> Floats:
    """Bounds of P(Df = 1 | x, s) with sampling error in them, at .95."""
    if getattr(model, "sensitive", None) is not None:
        return np.asarray(model.predict_bounds(with_group(test), level=0.95))
    return np.asarray(model.predict_bounds(test.x, sensitive_features=test.s, level=0.95))


N_BINS, LEAST_ROWS = 10, 30


def held_bounds(bounds: Floats, scores: Floats, test: Rows) -> Record:
    """Share of test rows in bins of scores whose rate of Df lies within their mean bounds.

    Nobody knows P(Df | x, s) of a real row, but the rate of Df among rows of like scores is near
    its mean. A bin counts as held within 1.96 standard errors of its rate.
    """
    if np.isnan(bounds).any():
        return {"bounds_held": None, "bounds_width": None}
    held = n = 0
    for group in (FAVOURED, OTHER):
        here = np.flatnonzero(test.s == group)
        order = here[np.argsort(scores[here], kind="stable")]
        for rows in np.array_split(order, min(N_BINS, max(1, len(here) // LEAST_ROWS))):
            rate = test.f[rows].mean()
            # One row of each class is added, or a bin without errors would have no error.
            shrunk = (test.f[rows].sum() + 1) / (len(rows) + 2)
            slack = 1.96 * np.sqrt(shrunk * (1 - shrunk) / len(rows))
            low, high = bounds[rows].mean(axis=0)
            held += len(rows) * bool(low - slack <= rate <= high + slack)
            n += len(rows)
    return {
        "bounds_held": held / n,
        "bounds_width": float((bounds[:, 1] - bounds[:, 0]).mean()),
    }


Key = tuple[Any, ...]
Job = tuple[Record, Callable[[], Record]]


def key(record: Record) -> Key:
    names = ("kind", "table", "mechanism", "failure", "size", "seed", "fold", "method")
    return tuple(record.get(name) for name in (*names, "rows", "train", "share", "by"))


def read_records(path: Path) -> list[Record]:
    """Lines of the file; of several with one key the last."""
    if not path.exists():
        return []
    lines = (json.loads(line) for line in path.read_text().splitlines() if line)
    return list({key(record): record for record in lines}.values())


def ways(given: argparse.Namespace) -> Iterator[tuple[str, float]]:
    """Failures and their sizes; the assumptions that hold, if none was asked for."""
    for failure in given.failures:
        for size in FAILURES.get(failure, (0.0,)):
            yield failure, size


def cells(given: argparse.Namespace) -> Iterator[tuple[Record, Rows, Rows]]:
    """Name, training and test rows of each fold that was asked for."""
    for seed in range(given.seeds):
        for table in given.tables:
            for mechanism in given.mechanisms:
                for failure, size in ways(given):
                    name = {"table": table, "mechanism": mechanism, "failure": failure}
                    rows = inject_failing(
                        table, mechanism, failure, size, seed=seed, n_rows=given.rows
                    )
                    own = {"size": size, "seed": seed, "rows": given.rows, "train": given.train}
                    for fold, (train, test) in enumerate(folds(rows, table, mechanism, seed=seed)):
                        if fold in given.folds:
                            yield {**name, **own, "fold": fold}, thinned(train, given.train), test


def thinned(train: Rows, n_rows: int | None) -> Rows:
    """Rows whose label was seen, no more than asked for; rows are in an order of chance."""
    seen = np.arange(len(train)) if train.seen is None else np.flatnonzero(train.seen)
    return train.take(seen[:n_rows])


def jobs(given: argparse.Namespace, cell: Record, train: Rows, test: Rows) -> Iterator[Job]:
    """Name of each record of a fold, and how it is made."""
    if given.sets:
        job = {"kind": "set", **cell, "by": given.sets_by or DEFAULT}
        yield job, partial(measure_set, train, given.sets_by, job)
    for name in given.methods:
        rows, job = (METHODS[name], train, test), {**cell, "method": name}
        whole = {"kind": "fold", **job}
        yield whole, partial(measure, *rows, whole)
        if given.hide and name in TAKE_HOLES:
            holes = {"kind": "hidden", **job, "share": given.hide}
            yield holes, partial(measure_hidden, *rows, holes)
        if given.seeds_apart and name in REPEATED:
            apart = {"kind": "apart", **job}
            yield apart, partial(measure_apart, *rows, apart)


@dataclass(frozen=True)
class Lines:
    """Records in the file, but for methods that are measured again."""

    path: Path
    again: Sequence[str]

    @cached_property
    def made(self) -> dict[Key, Record]:
        return {key(r): r for r in read_records(self.path) if r.get("method") not in self.again}

    def get(self, job: Job) -> Record | None:
        return self.made.get(key(job[0]))

    def put(self, job: Job, found: Record) -> None:
        append(self.path, {**job[0], **found})


def run(given: argparse.Namespace) -> None:
    """Make the records that the file lacks."""
    append(given.out, versions())
    compile_kernels(given.methods)
    kept = Lines(given.out, given.again)
    for cell, train, test in cells(given):
        run_jobs(made, list(jobs(given, cell, train, test)), kept=kept)


def made(job: Job) -> Record:
    """What a job finds; a method that fails leaves a sentence."""
    try:
        return job[1]()
    except Exception as error:  # noqa: BLE001 - whatever a method raises is its result
        return {"error": f"{type(error).__name__}: {error}"}


MADE_WITH = ("numpy", "scikit-learn", "polars", "fairlearn", "cleanlab", "lightgbm")


def versions() -> Record:
    """Commit and libraries of a run; figures move with both."""
    words = ("git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD")
    asked = subprocess.run(words, capture_output=True, text=True, check=False)
    found = {"kind": VERSIONS, "commit": asked.stdout.strip() or "unknown"}
    return found | {"Python": platform.python_version()} | dict(_installed(MADE_WITH))


def _installed(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        with contextlib.suppress(PackageNotFoundError):
            yield name, version(name)


def append(path: Path, record: Record) -> None:
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")
    shown = {k: round(v, 3) if isinstance(v, float) else v for k, v in record.items()}
    print(*(v if isinstance(v, str) else f"{k}={v}" for k, v in shown.items()), flush=True)


def asked(given: argparse.Namespace) -> list[Record]:
    """Records of the file that the options name."""
    return [
        r
        for r in read_records(given.out)
        if r["kind"] == VERSIONS
        or (
            r["table"] in given.tables
            and r["mechanism"] in given.mechanisms
            and r.get("rows") == given.rows
            and r.get("train") == given.train
            and r.get("method") in (None, *given.methods)
        )
    ]


def print_summary(given: argparse.Namespace) -> None:
    known = (r for r in asked(given) if r["kind"] != VERSIONS)
    held = [r for r in known if r.get("failure", HELD) == HELD]
    for text in summary(held, given.methods, given.markdown):
        print(text)


def print_table(given: argparse.Namespace) -> None:
    texts = blocks(asked(given))
    if given.page is not None:
        given.page.write_text(fill_page(given.page.read_text("utf-8"), texts), "utf-8")
    for name, text in texts.items():
        (given.results / f"{name}.csv").write_text(as_csv(text), "utf-8")


def draw_pictures(given: argparse.Namespace) -> None:
    for path in draw(asked(given), given.folder):
        print(path)


TASKS = {"run": run, "summary": print_summary, "table": print_table, "pictures": draw_pictures}


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--mechanisms", nargs="+", choices=MECHANISMS, default=list(MECHANISMS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--failures", nargs="+", choices=(HELD, *FAILURES), default=[HELD])
    parser.add_argument("--seeds", type=int, default=1, help="ways of altering: 0, 1, …")
    parser.add_argument("--folds", nargs="+", type=int, default=list(range(N_FOLDS)))
    parser.add_argument("--rows", type=int, default=16_000, help="of a table, at most")
    parser.add_argument("--train", type=int, help="training rows of a fold, at most")
    parser.add_argument("--again", nargs="+", default=[], help="methods to measure anew")
    parser.add_argument("--hide", type=float, help="share of the test cells to hide")
    parser.add_argument("--seeds-apart", action="store_true", help="decisions that turn by chance")
    parser.add_argument("--sets", action="store_true", help="also test the assumptions; slow")
    parser.add_argument(
        "--sets-by", choices=("logistic", "boosting"), help="its classifier, if not both"
    )
    parser.add_argument("--markdown", action="store_true", help="tables in Markdown")
    parser.add_argument("--page", type=Path, help="page whose tables are replaced")
    results = Path(__file__).with_name("results") / "proof"
    parser.add_argument("--results", type=Path, default=results, help="of all tables, as CSV")
    parser.add_argument("--folder", type=Path, default=Path(), help="of pictures")
    default = Path(tempfile.gettempdir()) / "fairpc-proof.jsonl"
    parser.add_argument("--out", type=Path, default=default, help="file of results, added to")
    return parser.parse_args()


def compile_kernels(methods: list[str]) -> None:
    """Fit once on few rows, so that no method's seconds hold the compiler's."""
    rows = inject("german", "mild")
    for name in ("fairpc", "strudel"):
        if set(methods) & {"fairpc", "strudel", "forest", "latnb"}:
            METHODS[name](rows, 0).decide(rows)


def main() -> None:
    given = options()
    warnings.simplefilter("ignore")
    if find_folder() is None:
        print("The bundled tables only: FAIRPC_BIAS_DATA names no folder with the others.")
        given.tables = [name for name in given.tables if name not in READ]
    if set(given.failures) != {HELD}:
        given.tables = [name for name in given.tables if name in FAILING_TABLES]
    TASKS[given.task](given)


if __name__ == "__main__":
    main()
