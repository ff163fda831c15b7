"""A scorer without the group, its price and its file; thresholds of a model by notion."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairpc import FairPC, LatentDecision
from fairpc.errors import DroppedWarning, FileFormatError
from fairpc.models import Distilled, TableClassifier
from fairpc.models._file import checksum


def people(n: int = 900) -> tuple[pd.DataFrame, Any]:
    """A table with a proxy of the group, and its labels."""
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], n)
    fair = rng.random(n) < 0.5
    label = rng.random(n) < np.where(fair, np.where(sex == "f", 0.6, 0.95), 0.05)
    proxy = rng.normal(size=n) + 1.5 * (sex == "f")
    table = pd.DataFrame({"age": rng.normal(40, 8, n) + 15 * fair, "proxy": proxy, "sex": sex})
    return table, np.array(["no", "yes"])[label.astype(int)]


X, Y = people()
LATENT = LatentDecision(TableClassifier("logistic"), sensitive="sex", random_state=0).fit(X, Y)
CIRCUIT = FairPC(structure="chow-liu", sensitive="sex", random_state=0, guard=False).fit(X, Y)


@pytest.mark.parametrize("model", [LATENT, CIRCUIT], ids=["LatentDecision", "FairPC"])
def test_a_scorer_without_the_group(model: Any, tmp_path: Path) -> None:
    scorer = model.distil(TableClassifier("logistic"), X, Y)
    assert "sex" not in scorer.estimator.feature_names_in_
    price = scorer.price
    assert price.n_rows == 270
    # The same share is selected, mostly of the same people.
    chosen = scorer.predict(X) == "yes"
    assert chosen.mean() == pytest.approx((model.predict(X) == "yes").mean(), abs=0.02)
    assert price.agreement > 0.7
    own = model.posterior(X, Y)[:, 1]
    right = np.where(model.predict(X) == "yes", own, 1 - own).mean()
    assert price.accuracies[0] == pytest.approx(right, abs=0.05)
    assert price.accuracies[2] <= price.accuracies[0] + 0.03
    assert f"for {price.agreement:.1%} of 270 rows" in price.sentences[0]
    path = tmp_path / "scorer.fairpc"
    scorer.save(path)
    again = Distilled.load(path)
    # Columns that it does not use, the group among them, may be there or not.
    assert np.array_equal(again.predict_proba(X.drop(columns="sex")), scorer.predict_proba(X))
    assert np.array_equal(again.predict(X), scorer.predict(X))
    assert again.price == price


@pytest.mark.parametrize("min_cell", [5, 8])
def test_a_scorer_names_nobody_among_few(min_cell: int) -> None:
    """A row is learned from once per class, and is one person all the same."""
    n = len(X)
    job = np.array(["clerk", "cook"])[np.arange(n) % 2].astype(object)
    job[: min_cell - 1], job[min_cell : 2 * min_cell] = "few", "enough"
    table = X.assign(job=job, id=np.random.default_rng(1).permutation(n) + 7_000_000)
    model = FairPC(structure="chow-liu", sensitive="sex", min_cell=min_cell, guard=False)
    with pytest.warns(DroppedWarning, match="'id'"):
        model.fit(table, Y)
    held = model.distil(None, table, Y).estimator.encoding_
    assert held.column("job").levels == ("clerk", "cook", "enough")
    assert [column.name for column in held.dropped] == ["id"]


def test_a_price_without_labels_of_a_model_that_needs_the_group() -> None:
    settings: Any = {"sensitive": "sex", "random_state": 0}
    model = LatentDecision(TableClassifier("logistic"), **settings).fit(X, Y)
    price = model.distil(None, X).price
    assert price is not None
    assert price.accuracies is None
    assert price.gaps[1] is None
    assert "guess" not in " ".join(price.sentences)


def test_files_that_are_no_scorers(tmp_path: Path) -> None:
    path = tmp_path / "m.fairpc"
    LATENT.save(path)
    with pytest.raises(FileFormatError, match="is not a scorer: give a file that `fairpc distil`"):
        Distilled.load(path)
    scorer = LATENT.distil(None, X)
    scorer.save(path)
    path.write_bytes(path.read_bytes().replace(b'"threshold":0.', b'"threshold":0.1'))
    with pytest.raises(FileFormatError, match="unaltered"):
        Distilled.load(path)
    path.write_bytes(re.sub(rb'"threshold":0\.[0-9]+', b'"threshold":1e999', path.read_bytes()))
    with pytest.raises(FileFormatError, match="1e999 is not a number"):
        Distilled.load(path)


@pytest.mark.parametrize(
    ("where", "forged"),
    [
        (("positive",), "maybe"),
        (("threshold",), 1.5),
        (("gap", "groups", 0, "group"), "nobody"),
        (("gap", "largest", "difference"), 0.5),
        (("price", "sentences", 0), "It costs nothing."),
    ],
)
def test_a_scorer_says_what_its_file_says(where: Any, forged: Any, tmp_path: Path) -> None:
    path = tmp_path / "s.fairpc"
    CIRCUIT.distil(TableClassifier("logistic"), X, Y).save(path)
    content = json.loads(path.read_bytes())
    part: Any = content
    for key in where[:-1]:
        part = part[key]
    part[where[-1]] = forged
    path.write_text(json.dumps(content | {"checksum": checksum(content)}))
    with pytest.raises(FileFormatError, match="contradicts itself"):
        Distilled.load(path)
