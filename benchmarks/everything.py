"""What users get from models of real tables: fits of many kinds, and what they are asked.

``unchanged.py`` records and compares it. Only public names are used, so that the code behind them
may move.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import re
import runpy
import sqlite3
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

ROWS = 2000
LABEL, GROUP, WEIGHT = "the_label", "the_group", "the_weight"
GIVEN = {"adult": "hours-per-week", "german": "employment", "compas": "c_charge_degree"}


def tables() -> dict[str, pl.DataFrame]:
    from fairpc.datasets import load_adult, load_compas, load_german

    found = {}
    for name, load in (("adult", load_adult), ("german", load_german), ("compas", load_compas)):
        data: Any = load()
        group = pl.Series(GROUP, np.asarray(data.sensitive).astype(str).ravel().tolist())
        label = pl.Series(LABEL, np.asarray(data.y).astype(str).tolist())
        frame = data.X.with_columns(group, label)[:ROWS]
        found[name] = frame.filter(pl.len().over(GROUP) > 100)
    return found


def models(given: str) -> dict[str, Any]:
    """Models that are not fitted yet."""
    from fairpc import FairPC, Knowledge, LatentDecision, LatNB, NLatPC, TwoNB

    seed: dict[str, Any] = {"random_state": 0}
    within: dict[str, Any] = {"given": [given], "mechanism": "within", **seed}
    return {
        "paper": FairPC(GROUP, structure="strudel", **seed),
        "auto": FairPC(GROUP, **seed),
        "forest": FairPC(GROUP, structure="forest", **seed),
        "given": FairPC(GROUP, structure="strudel", given=[given], **seed),
        "within": FairPC(GROUP, structure="chow-liu", **within),
        "auto-given": FairPC(GROUP, given=[given], **seed),
        "forest-given": FairPC(GROUP, structure="forest", given=[given], **seed),
        "forest-within": FairPC(GROUP, structure="forest", **within),
        "mixture": FairPC(GROUP, n_components=2, **seed),
        "random": FairPC(GROUP, structure="chow-liu", init="random", n_init=2, **seed),
        "known": FairPC(GROUP, knowledge=Knowledge(fair_rate=(0.2, 0.4)), **seed),
        "latnb": LatNB(GROUP, **seed),
        "latnb-given": LatNB(GROUP, given=[given], **seed),
        "nlatpc": NLatPC(GROUP, **seed),
        "nlatpc-paper": NLatPC(GROUP, structure="strudel", **seed),
        "twonb": TwoNB(GROUP, **seed),
        "latent": LatentDecision(sensitive=GROUP, **seed),
        "latent-middle": LatentDecision(sensitive=GROUP, select="middle", per_group=True, **seed),
        "latent-given": LatentDecision(sensitive=GROUP, given=[given], **seed),
        "latent-within": LatentDecision(sensitive=GROUP, **within),
    }


def with_holes(frame: pl.DataFrame) -> pl.DataFrame:
    """A fifth of the cells of the features removed."""
    rng = np.random.default_rng(7)
    return frame.with_columns(
        pl.when(pl.Series(rng.random(len(frame)) > 0.2)).then(pl.col(n)).alias(n)
        for n in frame.columns
        if n not in (LABEL, GROUP, WEIGHT)
    )


def weighted(frame: pl.DataFrame, *, whole: bool) -> pl.DataFrame:
    rng = np.random.default_rng(5)
    drawn = rng.integers(0, 4, len(frame)) if whole else rng.uniform(0.2, 3.0, len(frame))
    return frame.with_columns(pl.Series(WEIGHT, drawn.astype(float)))


def relabelled(frame: pl.DataFrame, label: str | None) -> pl.DataFrame:
    """A fifth of the labels replaced."""
    some = pl.Series(np.random.default_rng(3).random(len(frame)) < 0.2)
    other = pl.when(some).then(pl.lit(label, pl.String)).otherwise(pl.col(LABEL))
    return frame.with_columns(other.alias(LABEL))


def in_memory(model: Any, frame: pl.DataFrame) -> None:
    weight = {"sample_weight": frame[WEIGHT]} if WEIGHT in frame else {}
    model.fit(frame.drop(LABEL, WEIGHT, strict=False), frame[LABEL], **weight)


def from_files(model: Any, frame: pl.DataFrame) -> None:
    with tempfile.TemporaryDirectory() as folder:
        half = len(frame) // 2
        frame[:half].write_parquet(Path(folder) / "a.parquet")
        frame[half:].write_parquet(Path(folder) / "b.parquet")
        model.fit(folder, LABEL, **({"sample_weight": WEIGHT} if WEIGHT in frame else {}))


def on_dask(model: Any, frame: pl.DataFrame) -> None:
    import dask.dataframe as dd

    model.fit(dd.from_pandas(frame.to_pandas(), npartitions=3), LABEL)


def group_apart(model: Any, frame: pl.DataFrame) -> None:
    model.set_params(sensitive=None)
    model.fit(frame.drop(LABEL, GROUP), frame[LABEL], sensitive_features=frame[GROUP])


def groups_crossed(model: Any, frame: pl.DataFrame) -> None:
    in_memory(model.set_params(sensitive=[GROUP, "sex"]), frame)


@dataclass(frozen=True)
class Way:
    """How a model is fitted, and to which rows of a table."""

    fit: Callable[[Any, pl.DataFrame], None]
    rows: Callable[[pl.DataFrame], pl.DataFrame] = lambda frame: frame


WAYS = {
    "memory": Way(in_memory),
    "files": Way(from_files),
    "dask": Way(on_dask),
    "holes": Way(in_memory, with_holes),
    "whole": Way(in_memory, partial(weighted, whole=True)),
    "whole-files": Way(from_files, partial(weighted, whole=True)),
    "broken": Way(in_memory, partial(weighted, whole=False)),
    "broken-files": Way(from_files, partial(weighted, whole=False)),
    "apart": Way(group_apart),
    "crossed": Way(groups_crossed),
    "classes": Way(in_memory, partial(relabelled, label="third")),
    "labels-missing": Way(in_memory, partial(relabelled, label=None)),
}
FAMILIES = ("paper", "auto", "forest", "given", "latnb", "nlatpc", "twonb", "latent")
CHANGED = ("paper", "auto", "latnb", "latent")
PLAN: dict[str, dict[str, Iterable[str]]] = {
    "adult": dict.fromkeys(("memory", "files", "dask"), FAMILIES),
    "german": {
        "memory": models(""),
        "holes": FAMILIES,
        **dict.fromkeys(("whole", "broken", "labels-missing"), CHANGED),
        **dict.fromkeys(("whole-files", "broken-files"), CHANGED[:3]),
    },
    "compas": dict.fromkeys(("memory", "apart", "crossed", "classes"), (*CHANGED, "given")),
}
"""Of each table: the ways to fit it, and the models that are fitted in this way."""


@dataclass(frozen=True)
class Asked:
    """A fitted model, its file, the rows that it is asked about, and the group if given apart."""

    model: Any
    file: Path
    X: pl.DataFrame
    y: pl.Series
    group: pl.Series | None

    @classmethod
    def of(cls, model: Any, file: Path, frame: pl.DataFrame, way: Way) -> Asked:
        group = frame[GROUP] if way.fit is group_apart else None
        apart = (LABEL, WEIGHT) if group is None else (LABEL, WEIGHT, GROUP)
        return cls(model, file, frame.drop(apart, strict=False), frame[LABEL], group)

    def ask(self, method: str, n: int = ROWS, label: bool = False, **options: Any) -> Any:
        """An answer of the model about the first rows."""
        if self.group is not None:
            options["sensitive_features"] = self.group[:n]
        rows = (self.X[:n], self.y[:n]) if label else (self.X[:n],)
        return getattr(self.model, method)(*rows, **options)


ATTRIBUTES = (
    *("classes_", "groups_", "positive_class_", "feature_names_in_", "n_features_in_"),
    *("bias_mechanism_", "fair_rate_", "group_rate_", "group_decision_rate_", "subgroup_rate_"),
    *("strata_", "stratum_rate_", "stratum_mechanism_", "fair_rate_set_", "score_units_"),
    *("history_", "warnings_"),
)
ANSWERS: dict[str, Callable[[Asked], Any]] = {
    **{name: attrgetter(f"model.{name}") for name in ATTRIBUTES},
    "predict": lambda f: f.ask("predict"),
    "predict_proba": lambda f: f.ask("predict_proba"),
    "with-holes": lambda f: replace(f, X=with_holes(f.X)).ask("predict_proba"),
    "without-group": lambda f: f.model.predict_proba(f.X.drop(GROUP, strict=False)),
    "predict_observed_proba": lambda f: f.ask("predict_observed_proba"),
    "posterior": lambda f: f.ask("posterior", label=True),
    "bounds": lambda f: f.ask("predict_bounds"),
    "bounds-at-level": lambda f: f.ask("predict_bounds", level=0.9),
    "decidable": lambda f: f.ask("predict_bounds", decisions=True),
    "score_samples": lambda f: f.ask("score_samples", label=True),
    "score_samples-of-X": lambda f: f.ask("score_samples"),
    "sample": lambda f: f.model.sample(100, random_state=1),
    "complete": lambda f: replace(f, X=with_holes(f.X)).ask("complete", 50),
    "explain": lambda f: f.ask("explain", 1),
    "explain_bias": lambda f: f.model.explain_bias(),
    "parity_gap": lambda f: [f.model.parity_gap(), f.ask("parity_gap")],
    "relabel": lambda f: f.ask("relabel", 300, label=True),
    "probability": lambda f: f.model.probability(
        {"Df": f.model.classes_[0]}, {f.X.columns[1]: f.X[0, 1]}
    ),
    "probability-of-D": lambda f: f.model.probability(
        {"D": f.model.classes_[0], f.X.columns[2]: f.X[1, 2]}
    ),
    "circuit": lambda f: of_circuit(f.model.circuit_),
    "query": lambda f: [
        command("query", str(f.file), query, "--json")["stdout"]
        for query in ("Df", "D, Df | S", "D", f'D | "{f.X.columns[0]}"="{f.X[0, 0]}"', "S, Df")
    ],
    "onnx": lambda f: exported(f, "onnx", by_onnx),
    "sql": lambda f: exported(f, "sql", by_sqlite),
    "py": lambda f: exported(f, "py", by_module),
}
LARGE = 500_000
"""Bytes from which an exported file is not run."""


def of_circuit(circuit: Any) -> dict[str, Any]:
    codes = circuit.sample(100, np.random.default_rng(0))
    partial = np.where(np.random.default_rng(1).random(codes.shape) < 0.3, -1, codes)
    found = {"names": circuit.names, "sample": codes, "log_marginal": circuit.log_marginal(partial)}
    return found | {"properties": str(circuit.properties())}


def exported(fit: Asked, ending: str, score: Callable[[Path, pl.DataFrame], Any]) -> dict[str, Any]:
    """The bytes of an exported model, by their hash, and the scores that it gives."""
    from fairpc import export

    rows = fit.X[:100] if fit.group is None else fit.X[:100].with_columns(fit.group[:100])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"model.{ending}"
        export(fit.model, path)
        found = path.read_bytes()
        # ONNX Runtime takes minutes to open a graph of 50,000 nodes.
        scores = np.asarray(score(path, rows), np.float64) if len(found) < LARGE else "large"
    return {"bytes": hashlib.sha256(found).hexdigest(), "scores": scores}


def by_onnx(path: Path, rows: pl.DataFrame) -> Any:
    import onnxruntime

    session, given = onnxruntime.InferenceSession(path), {}
    for column in session.get_inputs():
        text = column.type == "tensor(string)"
        values = [[("" if text else np.nan) if v is None else v] for v in rows[column.name]]
        given[column.name] = np.array(values, object if text else np.float64)
    return session.run(None, given)[0]


def by_sqlite(path: Path, rows: pl.DataFrame) -> Any:
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        names = ", ".join(f'"{name}"' for name in rows.columns)
        database.execute(f"CREATE TABLE applicants ({names})")
        places = ", ".join("?" * rows.width)
        database.executemany(f"INSERT INTO applicants VALUES ({places})", rows.rows())
        found = database.execute(path.read_text(encoding="utf-8")).fetchall()
    return [row[rows.width + 1 :] for row in found]


def by_module(path: Path, rows: pl.DataFrame) -> Any:
    return runpy.run_path(str(path))["predict_proba_rows"](rows.to_dicts())


def command(*words: str) -> dict[str, Any]:
    """What ``fairpc`` prints, but for the progress of long work; JSON is read."""
    from fairpc.cli import main

    printed, err = io.BytesIO(), io.StringIO()
    out = io.TextIOWrapper(printed, write_through=True)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = said(partial(main, words))
    text = printed.getvalue().decode()
    return {
        "code": code,
        "stdout": json.loads(text) if "--json" in words and text else text,
        "stderr": re.sub(r"^fairpc, \d+ s: .*\n", "", err.getvalue(), flags=re.MULTILINE),
    }


def said(answer: Callable[[], Any]) -> Any:
    """An answer, or the sentence of its refusal."""
    try:
        return answer()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a failure is an answer, too
        return f"{type(error).__name__}: {error}"


def answers(fit: Asked) -> dict[str, Any]:
    return {name: said(partial(answer, fit)) for name, answer in ANSWERS.items()}


def audited(fit: Asked, **options: Any) -> dict[str, Any]:
    from fairpc import audit

    if fit.group is not None:
        options["sensitive_features"] = fit.group
    quick = {"n_seeds": 1}
    found: dict[str, Any] = audit(fit.model, fit.X, fit.y, **(quick | options)).to_dict()
    if found["what_if"] is not None:  # the page's copy of the circuit has up to 250,000 numbers
        del found["what_if"]["circuit"]
    return found


def identified(*arrays: Any, **strata: Any) -> dict[str, Any]:
    """The set with the ranges of all scores, which its plain form leaves out."""
    from fairpc.evidence import identified_set

    found: dict[str, Any] = vars(identified_set(*arrays, **strata))
    return found


def of_evidence(table: str) -> dict[str, Any]:
    """Tests, intervals and identified sets, on plain arrays."""
    from fairpc import evidence

    frame, given = tables()[table], GIVEN[table]
    X, y, s = frame.drop(LABEL, GROUP), frame[LABEL], frame[GROUP]
    a = X[given].to_numpy() if X[given].dtype == pl.String else X[given].to_numpy() > 40
    scores = np.random.default_rng(0).beta(2, 3, len(frame))
    clusters = np.arange(len(frame)) // 3
    tested: Any = partial(evidence.test_assumptions, X, y, s, n_seeds=2)
    monitor = evidence.ParityMonitor(sorted(set(s)))
    found: dict[str, Any] = {"monitor": monitor.update(scores, s), "state": monitor.to_dict()}
    asked: dict[str, Callable[[], Any]] = {
        "parity": lambda: evidence.parity(scores, s, clusters=clusters),
        "parity-given": lambda: evidence.parity(scores, s, given=a, threshold=0.5),
        "curve": lambda: evidence.parity_curve(scores, s, [0.3, 0.5]),
        "equal_rates": lambda: evidence.equal_rates(scores, s, y == y[0]),
        "identified": partial(identified, scores, s),
        "compare_strata": lambda: evidence.compare_strata(X, y, s, columns=[given], n_seeds=1),
    }
    for mechanism in ("shared", "within"):
        strata: dict[str, Any] = {"given": a, "mechanism": mechanism}
        asked[f"identified-{mechanism}"] = partial(identified, scores, s, **strata)
        asked[f"test-{mechanism}"] = partial(tested, **strata)
    for classifier in ("logistic", "boosting", None):
        asked[f"test-{classifier}"] = partial(tested, classifier=classifier)
    return found | {name: said(ask) for name, ask in asked.items()}


def of_circuits() -> dict[str, Any]:
    """Circuits alone: learned by each method, written and read."""
    from fairpc.circuit import load_circuit, read_psdd, save_circuit, write_psdd
    from fairpc.data import Table
    from fairpc.structure import learn

    text = tables()["adult"].select(pl.col(pl.String)).drop(LABEL)
    codes = text.select(pl.all() == pl.all().first()).fill_null(False).to_numpy().astype(np.int16)
    found: dict[str, Any] = {}
    for method in ("strudel", "gain", "chow-liu", "ensemble"):
        circuit = learn(Table.of(codes), method=method, random_state=0)
        found[method] = of_circuit(circuit)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("c.json", "c.psdd", "c.vtree")]
        circuit = learn(Table.of(codes), random_state=0)
        save_circuit(circuit, paths[0])
        write_psdd(circuit, *paths[1:])
        found["file"] = of_circuit(load_circuit(paths[0]))
        found["psdd"] = of_circuit(read_psdd(*paths[1:]))
        found["psdd-text"] = paths[1].read_text() + paths[2].read_text()
    return found


def of_several() -> dict[str, Any]:
    """Baselines, methods side by side, and models fitted again."""
    import fairpc
    from fairpc import baselines

    frame = tables()["german"]
    X, y = frame.drop(LABEL), frame[LABEL]
    methods = [getattr(baselines, name) for name in ("FairLR", "Reduction", "Reweight", "LR")]
    fitted = [method(sensitive=GROUP).fit(X, y) for method in methods]
    sides = {"LatNB": fairpc.LatNB(GROUP, random_state=0), "LR": baselines.LR(sensitive=GROUP)}
    model = fairpc.FairPC(GROUP, structure="chow-liu", random_state=0).fit(X, y)
    again: dict[str, Callable[[], Any]] = {
        "bootstrap": lambda: fairpc.bootstrap_mechanism(
            model, X, y, n_replicates=5, random_state=0
        ),
        "stability": lambda: fairpc.stability(model, X, y, n_starts=2, n_folds=2, random_state=0),
        "compare": lambda: fairpc.compare(sides, X, y, cv=2),
        "full-audit": lambda: audited(Asked(model, Path(), X, y, None), baselines=True, n_seeds=2),
    }
    return {
        **{type(b).__name__: said(partial(b.predict_proba, X)) for b in fitted},
        **{name: said(ask) for name, ask in again.items()},
    }


def of_commands() -> dict[str, Any]:
    """The command line, from a table to papers."""
    roles = ("--label", LABEL, "--sensitive", GROUP)
    lines = {
        "fit": ("fit", "t.csv", *roles, "-o", "m.fairpc", "--json"),
        "predict": ("predict", "m.fairpc", "t.csv", "-o", "-", "--bounds", "--decide"),
        "audit": ("audit", "m.fairpc", "t.csv", "--json", "--fail-over", "0.01"),
        "explain": ("explain", "m.fairpc", "--table", "t.csv", "--row", "3", "--json"),
        "compare": ("compare", "t.csv", *roles, "--cv", "2", "--method", "TwoNB", "--json"),
        "latent": ("fit", "t.csv", *roles, "--model", "latent", "-o", "l.fairpc", "--json"),
        "data": ("data", "synthetic", "--rows", "50", "-o", "-"),
    }
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        tables()["german"].write_csv("t.csv")
        found = {name: command(*words) for name, words in lines.items()}
        audit = found["audit"]["stdout"]
        audit["provenance"]["date"] = "2020-02-29T12:00:00+00:00"  # papers tell it in their text
        Path("a.json").write_text(json.dumps(audit))
        for paper in ("card", "ll144", "annex-iv"):
            found[paper] = command("file", paper, "a.json")
    return found


OTHERS: dict[str, Callable[[], Any]] = {
    **{f"evidence-{name}": partial(of_evidence, name) for name in GIVEN},
    "circuits": of_circuits,
    "several": of_several,
    "commands": of_commands,
}
"""What needs no model of the plan."""
