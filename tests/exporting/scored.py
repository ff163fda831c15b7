"""Random models over random columns, rows of these columns, and rows scored by ONNX Runtime."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import polars as pl
from hypothesis import strategies as st

import fairpc
from fairpc import FairPC, LatNB, NLatPC, TwoNB
from fairpc.circuit import CircuitBuilder
from fairpc.core import Floats
from fairpc.data import Column, Encoding, Groups, Labels, TableCoding
from fairpc.exporting._scorer import ScorerProgram
from fairpc.models import CircuitClassifier, FairDistribution, ForestDistribution, Strata
from fairpc.models._fair_layers import Layout, build
from fairpc.models._top_em import TopRates
from models.distributions import distributions
from models.forests import Sizes, forests, random_forest, shares

MODELS: dict[str, type[CircuitClassifier]] = {
    "FairPC": FairPC,
    "NLatPC": NLatPC,
    "LatNB": LatNB,
    "TwoNB": TwoNB,
}
EPOCH = datetime(1970, 1, 1)
RTL = "\N{RIGHT-TO-LEFT OVERRIDE}"
CODE = '"""\nimport os\n"""'
NAMES = (
    *("plain", 'with "quotes"', "it's; --", "select", "näme\n", "probabilities", "/slash", "x0"),
    *("null", "order by", "rowid", "FAIRPC_ROW", "fairpc_rows", "n", "r", "T"),
    *("x0_t", "c0", "p_df_class 0", " ", "\u3000", "1", "1.5", "{0}", "\\", CODE, "' + x + '", RTL),
    *("É", "é", "\N{GRINNING FACE}"),
)
"""Hostile ones; SQL tells É from é, and takes letters of ASCII for their capitals."""
LEVELS = (
    *("a", "A", "B", "it's", 'say "no"', "", " padded ", "3", "NULL", "√ü", "other", "?\\d"),
    *(" ", "\u00a0", "\u3000", "\t", "007", "7", "7.0", "1e3", "-0", "0.5", "nan", "inf", "true"),
    *("True", "FALSE", "yes", "no", "2024-05-31", "10:30", "<missing>", "é", "e\u0301", "{0}", RTL),
    *("a\nb", "a'); --", CODE, "%", "\\", "\N{GRINNING FACE}"),
)
SENTINELS = ("?", "n/a", -999.0)


@dataclass(frozen=True)
class Made:
    """A column, values for each of its codes, and values that count as missing."""

    column: Column
    values: tuple[tuple[Any, ...], ...]
    missing: tuple[Any, ...]
    type: Any  #: of a polars column


def made_column(rnd: Random, name: str, arity: int) -> Made:
    """A column of any kind with so many codes."""
    kinds = ["text", "number", "date", "whole", "broken"]
    kinds += ["boolean"] if arity == 2 else []
    kinds += ["merged", "open"] if arity > 1 else []
    kind = rnd.choice(kinds)
    if kind in ("number", "date"):
        return _binned(rnd, name, arity, kind == "date")
    if kind == "boolean":
        column = Column(name, "boolean", levels=(False, True))
        return Made(column, ((False,), (True,)), (None,), pl.Boolean)
    if kind in ("whole", "broken"):
        step = 1 if kind == "whole" else 0.1
        numbers = [k * step for k in rnd.sample(range(-5, 60), arity)]
        kept = Column(name, "category", levels=tuple(numbers))
        own = tuple((level,) for level in numbers)
        return Made(kept, own, (None, math.nan, 77.5, -999.0), pl.Float64)
    names = rnd.sample(LEVELS, arity + 1)
    # An unseen text with blanks around a level is refused by files.
    unseen = tuple(text for text in LEVELS if text.strip() not in (*names, ""))
    marks = (None, " ? ", "\tn/a", "?\u00a0", "\nn/a\u2003")
    if kind == "text":
        column = Column(name, "category", levels=tuple(names[:arity]))
        return Made(column, tuple((n,) for n in names[:arity]), (*marks, *unseen), pl.String)
    levels, rest = tuple(names[: arity - 1]), tuple(names[arity - 1 :])
    if kind == "open":
        column = Column(name, "category", levels=levels, open=True)
        return Made(column, (*((level,) for level in levels), unseen), marks, pl.String)
    column = Column(name, "category", levels=levels, merged=rest)
    return Made(column, (*((level,) for level in levels), rest), (*marks, *unseen), pl.String)


def _binned(rnd: Random, name: str, arity: int, date: bool) -> Made:
    """Numbers or dates; values lie on the edges and right below them, too."""
    unit = 86_400_000_000 * rnd.choice((1.0, 0.37)) if date else 1.0
    steps = [rnd.random() + 0.01 for _ in range(arity)]
    edges = np.cumsum(steps)[:-1] * unit * (30 if date else 1)
    edges = np.floor(edges) + 0.5 * rnd.randrange(2) if date else edges
    column = Column(name, "date" if date else "number", edges=tuple(edges.tolist()))
    values: list[tuple[Any, ...]] = []
    for code in range(arity):
        low = edges[code - 1] if code else (edges[0] if arity > 1 else 0.0) - unit
        high = edges[code] if code < arity - 1 else low + unit
        if date:
            first, last = math.ceil(low), math.ceil(high) - 1
            values.append(tuple(EPOCH + timedelta(microseconds=v) for v in (first, last)))
        else:
            values.append((float(low), float(np.nextafter(high, low)), float((low + high) / 2)))
    missing = (None,) if date else (None, math.nan, -999.0)
    return Made(column, tuple(values), missing, pl.Datetime("us") if date else pl.Float64)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model and a table of rows that are possible under it."""

    model: CircuitClassifier
    table: pl.DataFrame

    @property
    def expected(self) -> Floats:
        return expected(self.model, self.table)


def expected(model: CircuitClassifier, table: pl.DataFrame) -> Floats:
    """P(Df | row) by the model itself."""
    coding = model.coding_
    if coding.sensitive:
        return model.predict_proba(table)
    sensitive = table.select(coding.groups.column_names)
    return model.predict_proba(table, sensitive_features=sensitive)


@st.composite
def stratified(draw: st.DrawFn) -> FairDistribution:
    """Forests and naive circuits with one or two columns of strata."""
    rnd = draw(st.randoms(use_true_random=False))
    n_groups, n_classes = rnd.choice((2, 3)), rnd.choice((2, 3))
    sizes = tuple(rnd.choice((2, 3)) for _ in range(rnd.choice((1, 2))))
    rest = tuple(rnd.choice((2, 3)) for _ in range(2))
    arities = (rest[0], *sizes, rest[1])
    strata = Strata(tuple(range(1, 1 + len(sizes))), sizes)
    names = tuple(f"X{j}" for j in range(len(arities)))
    layout = Layout(n_groups, n_classes, names, arities, "FairPC", strata=strata)
    n = layout.n_subgroups
    group_rate = shares(rnd, (n,), 0.0)
    decision_rate = shares(rnd, (strata.n, n_classes), 0.0)
    mechanism = shares(rnd, (n, n_classes, n_classes), 0.0)
    if rnd.random() < 0.5:
        forest = random_forest(rnd, Sizes(rest, n_groups=n, n_classes=n_classes)).forest
        return ForestDistribution(layout, forest, TopRates(group_rate, decision_rate, mechanism))

    def cell(b: CircuitBuilder, f: int, s: int, columns: Any) -> int:
        return b.product(
            *(
                b.categorical(c, shares(rnd, (a,), 0.0).tolist())
                for c, a in zip(columns, rest, strict=True)
            )
        )

    rates = np.tile(decision_rate, (n_groups, 1))
    return FairDistribution("LatNB", layout, build(layout, cell, group_rate, rates, mechanism))


def any_distributions() -> st.SearchStrategy[FairDistribution]:
    return st.one_of(distributions(), forests(), stratified())


@st.composite
def fitted(draw: st.DrawFn, n_rows: int = 14) -> Fitted:
    """A random model over random columns, and rows with holes."""
    distribution = draw(any_distributions())
    rnd = draw(st.randoms(use_true_random=False))
    layout = distribution.layout
    names = rnd.sample(NAMES, len(layout.arities) + 2) if len(layout.arities) < 7 else None
    names = names or [f"n{j}" for j in range(len(layout.arities) + 2)]
    features = [made_column(rnd, n, a) for n, a in zip(names, layout.arities, strict=False)]
    sensitive, cells = _groups(rnd, names[-2:], layout.n_groups)
    used, told = (tuple(m.column for m in made) for made in (features, sensitive))
    model = model_of(distribution, used, told, cells, apart=rnd.random() < 0.5)
    columns: dict[str, list[Any]] = {m.column.name: [] for m in (*features, *sensitive)}
    for _ in range(n_rows):
        holes = rnd.choice((0.0, 0.3, 0.8))
        for m, code in (
            *((m, rnd.randrange(m.column.arity)) for m in features),
            *zip(sensitive, rnd.choice(cells), strict=True),
        ):
            chosen = m.missing if rnd.random() < holes else m.values[code]
            columns[m.column.name].append(rnd.choice(chosen))
    types = {m.column.name: m.type for m in (*features, *sensitive)}
    table = pl.DataFrame(columns, schema=types, strict=True)
    s, x = model._evidence(
        table, None if model.coding_.sensitive else table.select(model.coding_.groups.column_names)
    )
    likely = distribution.log_likelihood(s, None, x)
    return Fitted(model, table.filter(pl.Series(np.isfinite(likely))))


def _groups(
    rnd: Random, names: list[str], n_groups: int
) -> tuple[list[Made], tuple[tuple[int, ...], ...]]:
    """One column, or two of which not every crossing occurs."""
    if rnd.random() < 0.5:
        made = _group_column(rnd, names[0], n_groups)
        if not made.column.has_other:
            return [made], tuple((s,) for s in range(n_groups))
    columns = [_group_column(rnd, name, 2) for name in names]
    crossings = [(0, 0), (0, 1), (1, 0), (1, 1)]
    return columns, tuple(sorted(rnd.sample(crossings, n_groups)))


def _group_column(rnd: Random, name: str, arity: int) -> Made:
    """A column whose levels may be groups: none begins or ends with a blank."""
    while True:
        made = made_column(rnd, name, arity)
        levels = (*made.column.levels, *made.column.merged)
        if all(not isinstance(level, str) or level == level.strip() for level in levels):
            return made


def naive(rnd: Random, *columns: Column, group: Column | None = None, least: float = 0.05) -> Any:
    """A LatNB of two groups and two classes over these columns, of random rates."""
    sizes = tuple(c.arity for c in columns)
    names = tuple(f"X{j}" for j in range(len(sizes)))
    layout = Layout(2, 2, names, sizes, "FairPC")

    def cell(b: CircuitBuilder, f: int, s: int, places: Any) -> int:
        rates = [np.array([rnd.random() + least for _ in range(a)]) for a in sizes]
        pairs = zip(places, rates, strict=True)
        return b.product(*(b.categorical(c, (p / p.sum()).tolist()) for c, p in pairs))

    rates = [np.array([0.3, 0.7]), np.tile([0.4, 0.6], (2, 1)), shares(rnd, (2, 2, 2), 0.0)]
    distribution = FairDistribution("LatNB", layout, build(layout, cell, *rates))
    group = group or Column("group", "category", levels=("f", "m"))
    return model_of(distribution, columns, (group,), ((0,), (1,)))


def model_of(
    distribution: FairDistribution,
    columns: tuple[Column, ...],
    sensitive: tuple[Column, ...],
    cells: tuple[tuple[int, ...], ...],
    apart: bool = True,
) -> CircuitClassifier:
    """A model that was not fitted, but made."""
    classes = tuple(f"class {k}" for k in range(distribution.layout.n_classes))
    coding = TableCoding(
        Encoding(columns, (), tuple(c.name for c in columns), missing_values=SENTINELS),
        Labels(Column("label", "category", levels=classes), positive=1),
        Groups(sensitive, cells, (9,) * len(cells), SENTINELS),
    )
    if not apart:
        coding = replace(coding, sensitive=coding.groups.column_names)
    model = MODELS[distribution.model]()
    model.coding_, model.distribution_ = coding, distribution
    model.n_features_in_ = len(columns)
    return model


def feeds(model: CircuitClassifier, table: pl.DataFrame) -> dict[str, Any]:
    """Columns as ONNX Runtime takes them: text, and numbers of 64 bits."""
    result = {}
    for given in ScorerProgram.of(model).inputs:
        column = table[given.name]
        if given.kind == "text":
            text = column.cast(pl.String).fill_null(given.missing_text)
            result[given.name] = np.array(text.to_list(), object)[:, None]
        elif given.kind == "date":
            known = column.dt.timestamp("us").cast(pl.Float64)
            result[given.name] = known.fill_null(math.nan).to_numpy()[:, None]
        else:
            known = column.cast(pl.Float64)
            result[given.name] = known.fill_null(math.nan).to_numpy()[:, None]
    return result


def by_onnx(model: CircuitClassifier, table: pl.DataFrame, folder: Path) -> Floats:
    import onnx
    import onnxruntime

    path = folder / "scorer.onnx"
    fairpc.export(model, path)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options)
    return np.asarray(session.run(None, feeds(model, table))[0])
