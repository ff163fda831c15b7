"""Write the model files that `test_files.py` opens, with the code of a version.

A version of the format needs the code that wrote it: unpack that commit and put it first.

    git archive 913ae16 src | tar -x -C /tmp/older
    NUMBA_DISABLE_JIT=1 PYTHONPATH=/tmp/older/src python tests/models/files/write.py 7

The commits: 1 3e4337d, 2 30cec38, 3 5858569, 4 and 5 92348cf, 6 e0f3cd7, 7 913ae16,
8 and 9 the release 0.2.0, 10 the commit that brought it. Files that were written are never written
again.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

HERE = Path(__file__).parent
QUICK: dict[str, Any] = {"sensitive": "sex", "positive": "yes", "random_state": 0, "n_bins": 4}
FEW: dict[str, Any] = {"max_iter": 25, "min_iter": 5}


def table() -> pl.DataFrame:
    """Four hundred made-up applications, with missing cells."""
    return pl.read_csv(HERE / "applications.csv")


def written(rows: pl.DataFrame) -> pl.DataFrame:
    """The same rows with ages as a German would write them."""
    return rows.with_columns(age=pl.col("age").cast(pl.String) + ",5")


def models(version: int) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Name, model and arguments of `fit`: what the version brought."""
    import fairpc

    if version == 1:
        yield "fairpc", fairpc.FairPC(structure="strudel", max_splits=3, **QUICK, **FEW), {}
        yield "nlatpc", fairpc.NLatPC(structure="chow-liu", **QUICK), {}
        yield "latnb", fairpc.LatNB(**QUICK, **FEW), {}
        yield "twonb", fairpc.TwoNB(**QUICK), {}
    elif version == 2:
        known = fairpc.Knowledge(fair_rate=(0.3, 0.6))
        yield "knowledge", fairpc.LatNB(knowledge=known, **QUICK, **FEW), {}
        decided = [None] * 390 + ["yes", "no"] * 5
        model = fairpc.FairPC(structure="chow-liu", **QUICK, **FEW)
        yield "anchors", model, {"fair_labels": decided}
    elif version == 3:
        alone: dict[str, Any] = {"n_components": 1}
        yield "auto", fairpc.FairPC(max_splits=3, **alone, **QUICK, **FEW), {}
    elif version == 4:
        hold: dict[str, Any] = {"hold_mechanism": True}
        held = fairpc.FairPC(structure="chow-liu", **hold, **QUICK, **FEW)
        yield "held", held, {}
        yield "unguarded", fairpc.LatNB(guard=False, **QUICK, **FEW), {}
    elif version == 5:
        yield "forest", fairpc.FairPC(structure="forest", **QUICK | {"n_bins": 2}, **FEW), {}
    else:
        yield from _later(version)


def _later(version: int) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    import fairpc
    from fairpc.models import TableClassifier

    latent: dict[str, Any] = {"sensitive": "sex", "positive": "yes", "random_state": 0, "cv": 2}
    if version == 6:
        yield "ends", fairpc.FairPC(structure="chow-liu", **QUICK, **FEW), {}
        yield "latent", fairpc.LatentDecision(TableClassifier("logistic"), **latent), {}
    elif version == 7:
        yield "strata", fairpc.LatNB(given=["town"], **QUICK, **FEW), {}
        within: dict[str, Any] = {"given": ["town"], "mechanism": "within"}
        yield "within", fairpc.FairPC(structure="chow-liu", **within, **QUICK, **FEW), {}
        yield (
            "latent",
            fairpc.LatentDecision(TableClassifier("logistic"), given=["town"], **latent),
            {},
        )
    elif version == 10:
        yield "twice", fairpc.LatentDecision(**latent | {"select": "middle"}), {}
    elif version == 9:
        yield "written", fairpc.FairPC(structure="chow-liu", **QUICK, **FEW), {}
    else:
        yield "density", fairpc.FairPC(structure="chow-liu", **QUICK, **FEW), {}
        yield "forest", fairpc.FairPC(structure="forest", **QUICK | {"n_bins": 2}, **FEW), {}


def answers(model: Any, rows: pl.DataFrame) -> dict[str, Any]:
    """What a loaded model must say of the rows, in every version."""
    said = {
        "predict_proba": model.predict_proba(rows),
        "without_group": model.predict_proba(rows.drop("sex")),
        "predict": model.predict(rows),
    }
    if hasattr(model, "bias_mechanism_"):
        said["mechanism"] = model.bias_mechanism_
    if hasattr(model, "predict_bounds") and getattr(model, "label_ends_", model) is not None:
        said["predict_bounds"] = model.predict_bounds(rows)
    return {name: np.asarray(value).tolist() for name, value in said.items()}


def main(version: int) -> None:
    """Write the models of a version, and what they answer."""
    warnings.simplefilter("ignore")
    rows = table()
    features, labels = rows.drop("approved"), rows["approved"]
    if version == 9:  # numbers written with a decimal comma
        features = written(features)
    if version == 5:  # forests were large then: a constant column is left out
        features = features.with_columns(age=pl.lit(30))
    for name, model, arguments in models(version):
        path = HERE / f"v{version}-{name}.json"
        n = {"forest": 60, "twice": 200}.get(name, len(rows))  # of more they would be large files
        model.fit(features[:n], labels[:n], **arguments)
        model.save(path)
        found = json.loads(path.read_bytes())["version"]
        if found != version:
            path.unlink()
            sys.exit(
                f"{path.name} would be of version {found}: use the commit of version {version}"
            )
        said = answers(model, features[:20])
        path.with_suffix(".answers").write_text(json.dumps(said) + "\n")
        print(path.name, path.stat().st_size)


if __name__ == "__main__":
    main(int(sys.argv[1]))
