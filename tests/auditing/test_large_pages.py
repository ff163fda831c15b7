"""The pages of Adult, COMPAS and German with the models that are used by default."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auditing.browser import browser, require_browser
from auditing.facts import QUICK
from fairpc import FairPC, datasets
from fairpc.auditing import audit

LOADERS: dict[str, Callable[[], Any]] = {
    "adult": datasets.load_adult,
    "compas": datasets.load_compas,
    "german": datasets.load_german,
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The labels of the fit contradict the assumptions")
@pytest.mark.parametrize("name", LOADERS)
def test_the_page_of_a_known_table(name: str, tmp_path: Path) -> None:
    require_browser()
    data = LOADERS[name]()
    model = FairPC(random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive)
    path = tmp_path / f"{name}.html"
    options = QUICK | {"n_seeds": 3}
    found = audit(model, data.X, data.y, sensitive_features=data.sensitive, **options)
    found.save(path)
    page = path.read_text("utf-8")
    assert len(page.encode()) < 600_000
    first = page[page.index('<section id="verdict"') :][:700]
    assert ('class="finding alert"' in first) is found.verdict.withdrawn
    assert found.verdict.rejected is (name == "adult")
    with browser() as tab:
        tab.open(path)
        assert tab.requests() == [path.resolve().as_uri()]
        assert tab.messages() == []
        for width in (1280, 390):
            tab.look(width=width)
            assert tab.run("return document.documentElement.scrollWidth") <= width
