"""Attacks on model files: bytes altered, JSON altered, with and without a new checksum."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from battery.attacks import Difference, Suite, Verdict
from battery.forests import changed_model
from battery.mutations import changed_bytes, dumps, equal
from exporting.scored import by_onnx
from fairpc import FairPC, LatentDecision, LatNB, NLatPC, TwoNB, load
from fairpc.circuit import from_dict, to_dict as circuit_content
from fairpc.errors import FairpcError, NotAnsweredError
from fairpc.models import TableClassifier, Vocabulary, parse
from fairpc.models._file import checksum

_ROWS: Final = 240
_LOOSE: Final = ("checksum", "version", "provenance")
"""What is not compared: a file is written by this version."""


def people(n: int = _ROWS, seed: int = 0) -> pl.DataFrame:
    """A table with every kind of column, and holes."""
    rng = np.random.default_rng(seed)
    f, sex = rng.random(n) < 0.5, rng.choice(["F", "M"], n)
    bent = rng.random(n) < np.where(sex == "F", 0.25, 0.05)
    job = np.where(rng.random(n) < 0.6, np.where(f, "cook", "smith"), "other; \u00e9")
    days = np.datetime64("2020-01-01") + rng.integers(0, 900, n) + 200 * f
    holes = rng.random((3, n)) < 0.15
    spent = np.where(rng.random(n) < 0.4, 0.0, rng.lognormal(7 + f, 1.0, n)).round(2)
    return pl.DataFrame(
        {
            "sex": sex,
            "job": [None if h else str(v) for h, v in zip(holes[0], job, strict=True)],
            "age": [None if h else int(v) for h, v in zip(holes[1], 20 + 30 * f, strict=True)],
            "pay": rng.normal(size=n) + f,
            "since": days,
            "spent": spent,
            "visits": rng.poisson(20 + 15 * f),
            "member": [None if h else bool(v) for h, v in zip(holes[2], f, strict=True)],
            "hours": rng.choice(["few", "many"], n),
            "hired": np.where(f ^ bent, "yes", "no"),
        }
    )


@dataclass(frozen=True)
class Saved:
    """A model file, its content, and rows that its model is asked about."""

    name: str
    data: bytes
    content: Any
    rows: Any

    def said(self, model: Any) -> list[Any]:
        """What the model of the file says of these rows."""
        return [model.predict_proba(self.rows), model.predict(self.rows)]


def models() -> dict[str, tuple[Any, Any, Any]]:
    """Models of each kind, with what they are fitted to."""
    table = people()
    X, y = table.drop("hired"), table["hired"]
    numbers = np.column_stack(
        [(table["sex"] == "F").to_numpy(), table["pay"].to_numpy(), table["age"].fill_null(0)]
    ).astype(np.float64)
    quick: dict[str, Any] = {"random_state": 0, "max_iter": 8, "tol": 0.0, "min_iter": 1}
    latent: dict[str, Any] = {"sensitive": ["sex"], "random_state": 0, "cv": 2}
    hours: dict[str, Any] = {"given": ["hours"]}
    few = X.select("sex", "age", "pay", "spent")
    three = np.where(np.arange(len(y)) % 5 == 0, "maybe", y.to_numpy())
    return {
        "chow-liu": (FairPC("sex", structure="chow-liu", **quick), X, y),
        "strudel": (FairPC("sex", structure="strudel", max_splits=4, **quick), X, y),
        "auto": (FairPC("sex", **quick), X.select("sex", "job", "age", "pay"), y),
        "forest": (FairPC("sex", structure="forest", **quick), few, y),
        "chow-liu, three": (FairPC("sex", structure="chow-liu", **quick), few, three),
        "forest strata": (
            FairPC("sex", structure="forest", **hours, **quick),
            X.select("sex", "hours", "pay", "visits", "since"),
            y,
        ),
        "LatNB": (LatNB(["sex", "hours"], **quick), X, three),
        "NLatPC": (NLatPC("sex", structure="chow-liu", **quick), X, y),
        "TwoNB": (TwoNB(0, **quick), numbers, y.to_numpy()),
        "latent": (LatentDecision(**latent), X, y),
        "latent, twice": (LatentDecision(**latent), X, y),
        "latent line": (LatentDecision(TableClassifier("logistic"), **latent), X, y),
        "latent strata": (LatentDecision(**hours, **latent), X, y),
    }


def saved_models(folder: Path) -> list[Saved]:
    """Files of these models, fitted once."""
    import warnings

    found = []
    for name, (model, X, y) in models().items():
        path = folder / f"{name}.fairpc"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y).save(path)
        found.append(Saved(name, path.read_bytes(), json.loads(path.read_bytes()), X[:7]))
    return found


def resigned(content: Any) -> bytes:
    """The content with checksums that fit, as far as it has some."""
    none = (FairpcError, ValueError, TypeError, LookupError, AttributeError, OverflowError)
    for circuit in _circuits(content):
        with suppress(*none):  # what is not a circuit has no checksum
            circuit["checksum"] = circuit_content(from_dict(_unchecked(circuit)))["checksum"]
    if isinstance(content, dict):
        with suppress(ValueError):  # what JSON has no word for has none either
            content["checksum"] = checksum(json.loads(dumps(content)))
    return dumps(content)


def _circuits(content: Any) -> list[dict[str, Any]]:
    inside = content.get("features") if isinstance(content, dict) else None
    return [inside] if isinstance(inside, dict) else []


def _unchecked(circuit: dict[str, Any]) -> dict[str, Any]:
    """The circuit with the checksum that its reader computes."""
    from fairpc.circuit import _file as file

    nodes = file.SavedNodes(**{n: np.array(v, np.int64) for n, v in circuit["nodes"].items()})
    known = circuit["variables"]
    variables = file.SavedVariables(tuple(known["names"]), np.array(known["arities"], np.int64))
    right = file.SavedCircuit(variables, nodes, np.array(circuit["parameters"], float)).checksum
    return circuit | {"checksum": right}


class Models(Suite):
    name, full = "models", 10_000

    def prepare(self) -> None:
        self.saved = saved_models(self.folder)
        self.before = {s.name: s.said(load(self.folder / f"{s.name}.fairpc")) for s in self.saved}

    def attack(self, rng: random.Random) -> tuple[str, Callable[[], Verdict]]:
        victim = rng.choice(self.saved)
        signed = rng.random() < 0.7
        if rng.random() < 0.2:
            kind, data = changed_bytes(rng, victim.data)
            signed = False
        else:
            others = [saved.content for saved in self.saved]
            kind, content = changed_model(rng, victim.content, others)
            while rng.random() < 0.2:
                _, content = changed_model(rng, content, others)
            data = resigned(content) if signed else dumps(content)
        kind = f"{victim.name}, {kind}{', signed' if signed else ''}"
        return kind, lambda: self._read(victim, data, signed)

    def _read(self, victim: Saved, data: bytes, signed: bool) -> Verdict:
        path = self.folder / "attacked.fairpc"
        path.write_bytes(data)
        model = load(path)
        content = json.loads(data)
        again = self.folder / "again.fairpc"
        model.save(again)
        if not equal(_meant(json.loads(again.read_bytes())), _meant(content)):
            raise Difference(f"saved again, it differs in {_odd(again, content)}")
        same = equal(_meant(content), _meant(victim.content))
        if not (signed or same):
            raise Difference("it was altered and loads without a new checksum")
        said = victim.said(model) if same else self._asked(model, victim.rows)
        if same and not all(map(np.array_equal, said, self.before[victim.name])):
            raise Difference("it says the same and gives other scores")
        return Verdict.SAME if same else Verdict.OTHER

    def _asked(self, model: Any, rows: Any) -> list[Any]:
        """What a model says that is another one; it may refuse rows that it does not know."""
        for ask in (
            lambda: _probabilities(model.predict_proba(rows)),
            lambda: model.predict(rows),
            lambda: _probabilities(model.predict_observed_proba(rows)),
            lambda: model.predict_bounds(rows),
            lambda: _no_nan(model.score_samples(rows)),
            lambda: model.sample(3, random_state=0),
            lambda: model.complete(rows),
            lambda: _queried(model),
            lambda: _cut_numbers(model),
            lambda: _claims(model),
            lambda: (repr(model), model.warnings_, model.strata_),
        ):
            try:
                ask()
            except (FairpcError, NotAnsweredError):
                continue
        return []


class Forgeries(Models):
    """One field, each as likely as any other, made anew by somebody who knows checksums."""

    name, full = "forgeries", 500

    def attack(self, rng: random.Random) -> tuple[str, Callable[[], Verdict]]:
        victim = rng.choice(self.saved)
        kinds: dict[str, list[tuple[Any, ...]]] = {}
        for path in _paths(victim.content):
            kinds.setdefault(".".join(p for p in path if isinstance(p, str)), []).append(path)
        kind = rng.choice(sorted(set(kinds) - {"format", "version", "checksum"}))
        content = json.loads(victim.data)
        *above, last = rng.choice(kinds[kind])
        place = content
        for step in above:
            place = place[step]
        place[last] = _forged(rng, place[last])
        data = resigned(content)
        return f"{victim.name}: {kind}", lambda: self._read(victim, data, True)

    def _asked(self, model: Any, rows: Any) -> list[Any]:
        super()._asked(model, rows)
        if not isinstance(model, LatentDecision) and isinstance(rows, pl.DataFrame):
            _exports(model, rows, self.folder)
        return []


def _paths(content: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where values stand, and lists of them."""
    if above and not (isinstance(content, dict) and content):
        yield above
    items: list[tuple[Any, Any]] = []
    if isinstance(content, dict | list):
        many = content.items() if isinstance(content, dict) else enumerate(content[:40])
        items = list(many)
    for key, value in items:
        yield from _paths(value, (*above, key))


def _forged(rng: random.Random, old: Any) -> Any:
    """Another value of the same kind; of numbers that sum to 1, others that do."""
    if isinstance(old, bool):
        return not old
    if isinstance(old, int | float):
        numbers = (old + 1, -old, 2 * old, 1 - old, old / 3, old * (1 + 1e-7), 0, 1, -1, 0.5, 1e300)
        return rng.choice([type(old)(number) for number in numbers])
    if isinstance(old, str):
        return rng.choice([old + "x", old[::-1], "", old[: len(old) // 2], "FairPC", "1.5"])
    if isinstance(old, list) and old:
        return rng.choice(
            [old[::-1], old[1:] + old[:1], old[:-1], [*old, old[0]], [old[0]] * len(old)]
        )
    return rng.choice([None, [], {}, 0, "x", [0.5, 0.5]])


def _exports(model: Any, rows: pl.DataFrame, folder: Path) -> None:
    """What the exported file says of rows, against what the model says."""
    try:
        found = by_onnx(model, rows, folder)
    except FairpcError:  # a name or a value that ONNX has no word for
        return
    if not np.allclose(found, model.predict_proba(rows), rtol=0, atol=1e-6):
        raise Difference("the exported file gives other scores than the model")


def _probabilities(found: Any) -> None:
    if not (np.isfinite(found).all() and np.allclose(found.sum(axis=1), 1, atol=1e-6)):
        raise Difference("what it gives is not a probability")


def _no_nan(found: Any) -> None:
    if np.isnan(found).any():
        raise Difference("what it gives is not a logarithm of a probability")


def _claims(model: Any) -> None:
    """Both independencies of a model that was verified, by exact query of its circuit."""
    if isinstance(model, LatentDecision) or not model.distribution_.layout.tied:
        return
    distribution = model.distribution_
    layout, s, upper = distribution.layout, 0, (0, distribution.layout.decision)
    rng = np.random.default_rng(0)
    x = np.stack([rng.integers(-1, n, 8) for n in layout.arities], axis=1).astype(np.int16)
    x[:, list(layout.strata.columns)] = 0  # what is claimed of groups is claimed within a stratum

    def log(*known: tuple[int, int], rows: Any = None) -> Any:
        codes = np.full((8, len(layout.variables)), -1, np.int16)
        codes[:, [layout.x[j] for j in layout.strata.columns]] = 0
        if rows is not None:
            codes[:, list(layout.x)] = rows
        for column, value in known:
            codes[:, column] = value
        return np.exp(distribution.circuit.log_marginal(codes))

    for g, f in np.ndindex(layout.n_groups, layout.n_classes):
        cell = tuple(zip(upper, (g, f), strict=True))
        apart = log((s, g)) * log((layout.decision, f))
        if not np.allclose(log(*cell) * log(), apart, rtol=0, atol=1e-9):
            raise Difference("the decision depends on the group")
        for d in range(layout.n_classes if layout.latent else 0):
            label = (*cell, (layout.d, d))
            both, apart = log(*label, rows=x) * log(*cell), log(*label) * log(*cell, rows=x)
            if not np.allclose(both, apart, rtol=0, atol=1e-9):
                raise Difference("the label depends on features given the decision and the group")


def _cut_numbers(model: Any) -> None:
    """What lies below a number and what does not is everything."""
    for column in () if isinstance(model, LatentDecision) else model.coding_.features.columns:
        if column.kind != "number":
            continue
        cut = column.edges[len(column.edges) // 2] + 0.37
        parts = [model.probability({column.name: ends}) for ends in ((None, cut), (cut, None))]
        if not (min(parts) >= 0 and abs(sum(parts) - 1) < 1e-6):
            raise Difference(f"both sides of {cut} in {column.name!r} have {parts}")


def _queried(model: Any) -> None:
    if isinstance(model, LatentDecision):
        return
    coding = model.coding_
    words = Vocabulary(model.distribution_, coding.features, coding.labels, coding.groups)
    words.answer(parse("D"))


def _meant(content: Any) -> Any:
    """What a file says of a model; fields that older formats lack are those of none."""
    kept = {k: v for k, v in content.items() if k not in _LOOSE and v not in (None, [], 0)}
    settings = kept.get("settings")
    if isinstance(settings, dict):
        kept["settings"] = {k: v for k, v in settings.items() if v is not None}
    return kept | {"data": content.get("provenance", {}).get("data")}


def _odd(again: Path, content: Any) -> str:
    one, two = _meant(json.loads(again.read_bytes())), _meant(content)
    odd = [k for k in sorted({*one, *two}) if not equal(one.get(k), two.get(k))]
    return ", ".join(f"{k} ({_cut(two.get(k))} became {_cut(one.get(k))})" for k in odd)


def _cut(value: Any) -> str:
    return ascii(value)[:60]
