"""What is asked: of fitted models, and of arrays, codes and the command line without one."""

from __future__ import annotations

import contextlib
import io
import json
import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from contract_tables import (
    CHANGES,
    GIVEN,
    GROUP,
    LABEL,
    PLAN,
    SOURCES,
    WEIGHT,
    answers,
    features,
    holes,
    in_memory,
    new_model,
    positive,
    table,
    weighted,
    within,
)

HELD_OUT, ASKED = 500, 20
"""Rows that no model is fitted to, and those of them whose scores are recorded."""
RATES = ("tpr", "fpr", "accuracy", "precision", "selection")


def said(answer: Callable[[], Any]) -> Any:
    """An answer, or the class of its refusal."""
    try:
        return answer()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a failure is an answer, too
        return type(error).__name__


@dataclass(frozen=True)
class Fit:
    """A fitted model, its file, and rows that it has not seen."""

    model: Any
    file: Path
    rows: pl.DataFrame
    way: str

    def ask(self, method: str, n: int = ASKED, label: bool = False) -> Any:
        X, groups = in_memory(self.rows[:n], self.way)
        y = (self.rows[LABEL][:n],) if label else ()
        return getattr(self.model, method)(X, *y, **groups)

    def exported(self) -> dict[str, Any]:
        """Scores of the ONNX file for rows with holes, and how far they are from ours."""
        import onnxruntime

        from fairpc import export

        fit, path = Fit(self.model, self.file, holes(self.rows), self.way), self.file.parent
        export(self.model, path / "model.onnx")
        session, given = onnxruntime.InferenceSession(path / "model.onnx"), {}
        for column in session.get_inputs():
            text, rows = column.type == "tensor(string)", fit.rows[column.name][:ASKED]
            values = [[("" if text else math.nan) if v is None else v] for v in rows]
            given[column.name] = np.array(values, object if text else np.float64)
        scores = np.asarray(session.run(None, given)[0], float)
        return {"scores": scores, "exact": np.abs(scores - fit.ask("predict_proba")).max()}

    def loaded(self) -> Any:
        from fairpc import load

        self.model.save(self.file)
        again = Fit(load(self.file), self.file, self.rows, self.way)
        return np.abs(again.ask("predict_proba") - self.ask("predict_proba")).max()

    def query(self) -> dict[str, Any]:
        self.model.save(self.file)
        column = features(self.rows).columns[-1]
        value = self.rows[column].drop_nulls()[0]
        asked: tuple[str, ...] = ("D", "S, Df", f'D | "{column}"="{value}"', "S")
        asked = asked[::2] if type(self.model).__name__ in ("NLatPC", "TwoNB") else asked
        told = {query: command("query", str(self.file), query, "--json") for query in asked}
        return {query: [row["probability"] for row in a["rows"]] for query, a in told.items()}

    def audit(self) -> dict[str, Any]:
        from fairpc import audit

        X, groups = in_memory(self.rows, self.way)
        return audited(json.loads(audit(self.model, X, self.rows[LABEL], **groups).to_json()))

    def distil(self) -> dict[str, Any]:
        X, groups = in_memory(self.rows, self.way)
        scorer = self.model.distil(None, X, self.rows[LABEL], **groups)
        return {"agreement": scorer.price.agreement, "scores": scorer.predict_proba(X[:ASKED])}


def audited(facts: dict[str, Any]) -> dict[str, Any]:
    """The figures of an audit that any version of its JSON has somewhere."""
    labels, decisions = facts["labels"]["disparities"][0], facts["parity"]["decisions"][0]
    found: dict[str, Any] = {"n": {g["group"]: g["n"] for g in labels["parity"]["groups"]}}
    for name, gaps in (("recorded", labels["parity"]), ("decisions", decisions["parity"])):
        found[f"{name}_rate"] = {g["group"]: g["mean"] for g in gaps["groups"]}
        found[f"{name}_gap"] = [[p["difference"], *p["difference_interval"]] for p in gaps["pairs"]]
    if mechanism := facts["mechanism"]:
        found["fair_rate_range"] = mechanism["rate_range"] or []
        found["mechanism_range"] = [cell["range"] for cell in mechanism["cells"]]
    elif test := facts["decidable"]["test"]:
        found["fair_rate_range"] = [[s["lower"], s["upper"]] for s in test["sets"]]
    rates = (facts["error_rates"] or {}).get("rates", {"groups": {}})
    for group, row in rates["groups"].items():
        ranges = [[row[rate]["low"], row[rate]["high"]] for rate in ("tpr", "fpr", "accuracy")]
        found[f"error_rates_{group}"] = ranges
    return found


Question = Callable[[Fit], Any]
SCORED: dict[str, Question] = {
    "proba": lambda f: f.ask("predict_proba"),
    "decided": lambda f: np.mean(f.ask("predict", HELD_OUT) == f.rows[LABEL].max()),
    "observed": lambda f: f.ask("predict_observed_proba"),
    "exact": Fit.loaded,
}
FAIR: dict[str, Question] = {
    "posterior": lambda f: f.ask("posterior", label=True),
    "bounds": lambda f: f.ask("predict_bounds"),
    "mechanism": lambda f: f.model.bias_mechanism_,
    "mechanism_range": lambda f: f.model.mechanism_range_,
    "fair_rates": lambda f: f.model.fair_rates_,
    "group_rate": lambda f: f.model.group_rate_,
    "audit": Fit.audit,
}
DENSITY: dict[str, Question] = {
    "log_density": lambda f: f.ask("score_samples", label=True),
    "log_density_of_X": lambda f: f.ask("score_samples"),
    "group_unknown": lambda f: f.model.predict_proba(f.rows[:ASKED].drop(GROUP, LABEL)),
    "query": Fit.query,
}


def of_fit(case: str) -> dict[str, Any]:
    """What a model answers once it is fitted."""
    from fairpc.models import Reviewed

    name, source, change, way = case.split(".")
    both = CHANGES[change](table(source))
    held, frame = both[:HELD_OUT].drop(WEIGHT, strict=False), both[HELD_OUT:]
    alone = way in ("apart", "arrays")
    sensitive = [GROUP, GIVEN[source]] if way == "crossed" else None if alone else GROUP
    model, options = new_model(name, source, sensitive), dict[str, Any]()
    if WEIGHT in frame:
        options["sample_weight"] = WEIGHT if way in SOURCES else frame[WEIGHT]
    if name.endswith("+reviewed"):
        options["reviewed"] = Reviewed.of(len(frame), [answers(frame)])
    latent, fair = name.startswith("latent"), not name.startswith(("nlatpc", "twonb"))
    questions = SCORED | (FAIR if fair else {}) | ({} if latent or alone else DENSITY)
    if fair and (change, way) == ("plain", "memory"):
        questions |= {"distil": Fit.distil} | ({} if latent else {"onnx": Fit.exported})
    if change == "third":  # of two classes alone
        del questions["bounds"], questions["mechanism_range"]
    if name.startswith("latent-"):  # a user's classifier is not data
        del questions["exact"]
    with tempfile.TemporaryDirectory() as folder:
        X, groups = in_memory(frame, way)
        if way in SOURCES:
            model.fit(SOURCES[way](frame, Path(folder)), LABEL, **options)
        else:
            model.fit(X, frame[LABEL], **groups, **options)
        fit = Fit(model, Path(folder) / "model.fairpc", held, way)
        return {quantity: said(partial(ask, fit)) for quantity, ask in questions.items()}


TEST = attrgetter("lower", "upper", "p_value", "least_difference.limit", "most_difference")
RATE = attrgetter("value", "low", "high", "n")


def gaps(found: Any) -> list[Any]:
    return [[p.difference, *p.difference_interval, p.ratio, *p.ratio_interval] for p in found.pairs]


def ranges(found: Any) -> dict[str, Any]:
    rates = {g: [tuple(getattr(r, n)) for n in RATES] for g, r in found.groups.items()}
    recorded = {g: [getattr(r.recorded, n) for n in RATES] for g, r in found.groups.items()}
    pairs = [[tuple(getattr(p, n)) for n in RATES] for p in found.differences]
    return {"rates": rates, "recorded": recorded, "differences": pairs}


def reviewed_rates(found: Any) -> dict[str, Any]:
    names = ("fair_rate", "tpr", "fpr", "accuracy")
    rates: dict[str, Any] = {n: {g: RATE(r) for g, r in getattr(found, n).items()} for n in names}
    rates["mechanism"] = {g: [RATE(r[f]) for f in (0, 1)] for g, r in found.mechanism.items()}
    features = [test.p_value for test in found.tests["features"].values()]
    return rates | {"p_values": {"rates": found.tests["rates"].p_value, "features": features}}


def of_evidence(source: str) -> dict[str, Any]:
    """Tests, gaps, error rates and reviews, on plain arrays."""
    from fairpc import evidence, metrics

    frame = table(source)
    X, y, s = features(frame), positive(frame), frame[GROUP].to_numpy()
    numbers = X.select(pl.selectors.numeric().fill_null(0)).to_numpy()
    linear = make_pipeline(StandardScaler(), LogisticRegression())
    scores = cross_val_predict(linear, numbers, y, method="predict_proba")[:, 1]
    h, strata, persons = scores > 0.5, X[GIVEN[source]].to_numpy(), np.arange(len(y)) // 3
    chance, truth = np.ones(len(y)), np.full(len(y), np.nan)
    rows, chances, said_of = answers(frame)
    chance[rows], truth[rows] = chances, said_of
    test: Any = partial(evidence.test_assumptions, X, y, s, n_seeds=3)
    apart = within(evidence.test_assumptions, strata)
    errors: Any = partial(evidence.error_rates, h, y, s)
    parity: Any = partial(evidence.parity, scores, s)
    review = {"probability": chance, "posterior": scores, "decisions": h, "X": X}
    asked: dict[str, Callable[[], Any]] = {
        "test": lambda: TEST(test()),
        "test_delta": lambda: TEST(test(delta=0.05)),
        "test_persons": lambda: TEST(test(clusters=persons)),
        "test_weighted": lambda: TEST(test(sample_weight=weighted(frame)[WEIGHT])),
        "test_linear": lambda: TEST(test(classifier="logistic")),
        "test_strata": lambda: [TEST(each.test) for each in test(**apart).strata],
        "error_rates": lambda: ranges(errors(label_scores=scores)),
        "error_rates_of_X": lambda: ranges(errors(X=X, n_seeds=2)),
        "error_rates_of_persons": lambda: ranges(errors(label_scores=scores, clusters=persons)),
        "parity": lambda: gaps(parity()),
        "parity_of_persons": lambda: gaps(parity(threshold=0.5, clusters=persons)),
        "parity_within": lambda: [
            [p.raw, p.within, *p.within_interval] for p in parity(given=strata).pairs
        ],
        "equal_rates": lambda: [g.threshold for g in evidence.equal_rates(scores, s, y).groups],
        "review_design": lambda: evidence.review_design(
            scores, 200, sensitive_features=s, random_state=0
        ).probability[::25],
        "review_estimates": lambda: reviewed_rates(
            evidence.review_estimates(truth, y, s, **review)
        ),
        "metrics": lambda: [
            *(measure(y, h) for measure in (metrics.accuracy, metrics.f1, metrics.rate_f1)),
            metrics.discrimination(scores, s),
        ],
    }
    return {quantity: said(ask) for quantity, ask in asked.items()}


def of_structure(method: Any) -> dict[str, Any]:
    """A circuit of codes alone, asked with holes."""
    from fairpc.data import Table
    from fairpc.structure import learn

    codes = features(table("synthetic")).to_numpy().astype(np.int16)
    circuit = learn(Table.of(codes), method=method, random_state=0)
    hidden = np.random.default_rng(1).random(codes[:50].shape) < 0.3
    return {"log_marginal": circuit.log_marginal(np.where(hidden, -1, codes[:50]))}


def command(*words: str) -> Any:
    """The JSON that ``fairpc`` prints."""
    from fairpc.cli import main

    out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        try:
            main(words)
        except SystemExit as end:  # of every call; 0 where it went well
            if end.code:
                raise
    out.seek(0)
    return json.loads(out.read())


def of_commands(options: str) -> dict[str, Any]:
    """Fit, predict, draw a review and audit a column of decisions, with files alone."""
    comma = "--decimal" in options
    written: dict[str, Any] = {"separator": ";", "decimal_comma": True} if comma else {}
    roles = ("--label", LABEL, "--positive", "yes", "--sensitive", GROUP)
    frame = weighted(table("loans")).with_columns(
        pl.int_range(pl.len()).floordiv(3).alias("person"), granted=pl.col("income") > 50
    )
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        frame.write_csv("t.csv", **written)
        drop = ("--drop", "person", "--drop", "granted")
        command("fit", "t.csv", *roles, *drop, *options.split(), "-o", "m.fairpc", "--json")
        command("predict", "m.fairpc", "t.csv", "-o", "p.parquet", "--bounds", "--json")
        drawn = command("review", "m.fairpc", "t.csv", "-n", "100", "-o", "r.csv", "--json")
        decisions = ["--decision", "granted", "--clusters", "person", "--drop", WEIGHT]
        decisions += ["--decimal", ","] if comma else []
        facts = command("audit", "t.csv", *roles, *decisions, "-o", "a.html", "--json")
        scores = pl.read_parquet("p.parquet").select(pl.col("^p_df_.*$"))[:ASKED]
    return {"scores": scores, "n": {"drawn": drawn["drawn"]}, "audit": audited(facts)}


METHODS = ("strudel", "gain", "chow-liu")
COMMANDS = {
    "forest": f"--structure forest --weight {WEIGHT}",
    "decimal": f"--structure chow-liu --decimal , --drop {WEIGHT}",
    "latent": f"--model latent --drop {WEIGHT}",
}
CASES: dict[str, Callable[[], Any]] = {
    **{
        f"{kind}/{model}.{case}": partial(of_fit, f"{model}.{case}")
        for kind, models in PLAN.items()
        for model, cases in models.items()
        for case in cases.split()
    },
    **{f"same/evidence.{name}": partial(of_evidence, name) for name in GIVEN},
    **{f"same/circuits.{name}": partial(of_structure, name) for name in METHODS},
    **{f"same/commands.{name}": partial(of_commands, words) for name, words in COMMANDS.items()},
}
