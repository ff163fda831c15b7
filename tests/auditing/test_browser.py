"""The page in a real browser: opens from a file, asks for nothing, answers as Python does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest

from auditing import facts
from auditing.browser import Browser, browser, require_browser
from fairpc.auditing import render
from fairpc.auditing._what_if import packed_circuit
from fairpc.circuit import CircuitBuilder, to_dict
from fairpc.models._distribution import leave_one_out

Codes = npt.NDArray[np.int16]

N_EVIDENCES = 200
CLOSE = 1e-9
OPEN_ALL = "document.querySelectorAll('details').forEach((d) => { d.open = true; })"


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    require_browser()
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def german_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "german.html"
    path.write_text(render(facts.german()[1]), "utf-8")
    return path


def evidences(arities: npt.NDArray[np.int64], columns: list[int], seed: int = 0) -> Codes:
    """Random rows: each column known with a probability of its own row."""
    rng = np.random.default_rng(seed)
    rows = np.full((N_EVIDENCES, len(arities)), -1, np.int16)
    for row in rows:
        share = rng.random()
        for column in columns:
            if rng.random() < share:
                row[column] = rng.integers(arities[column])
    return rows


def test_it_opens_without_a_word_and_asks_for_nothing(tab: Browser, german_page: Path) -> None:
    tab.open(german_page)
    assert tab.requests() == [german_page.resolve().as_uri()]
    assert tab.messages() == []
    assert tab.run("return document.getElementById('what-if-tool').hidden") is False


def test_answers_equal_those_of_python(tab: Browser, german_page: Path) -> None:
    model = facts.german()[0]
    circuit, layout = model.circuit_, model.distribution_.layout
    rows = evidences(circuit.arities, [0, *layout.x])
    tab.open(german_page)
    found = tab.run("return arguments[0].map((row) => whatIf.query(row))", rows.tolist())
    for key, column in (("decision", layout.decision), ("observed", layout.d)):
        expected = circuit.posterior(column, rows)
        assert np.abs(np.array([f[key] for f in found]) - expected).max() < CLOSE
        for s in range(layout.n_groups):
            other = rows.copy()
            other[:, 0] = s
            swapped = np.array([f["groups"][key][s] for f in found])
            assert np.abs(swapped - circuit.posterior(column, other)).max() < CLOSE
    logs = np.array([f["logEvidence"] for f in found])
    assert np.abs(logs - circuit.log_marginal(rows)).max() < CLOSE


def test_contributions_equal_those_of_python(tab: Browser, german_page: Path) -> None:
    model = facts.german()[0]
    layout, positive = model.distribution_.layout, model.coding_.labels.positive
    rows = evidences(model.circuit_.arities, [0, *layout.x], seed=1)[:50]
    tab.open(german_page)
    found = tab.run(
        "return arguments[0].map((row) => whatIf.query(row).contributions)", rows.tolist()
    )
    for row, given in zip(rows, found, strict=True):
        x = row[layout.x.start : layout.x.stop]
        _, changes = leave_one_out(model.distribution_, int(row[0]), x, positive)
        expected = dict(zip([0, *layout.x], changes.tolist(), strict=True))
        assert {c["column"] for c in given} == set(np.flatnonzero(row >= 0).tolist())
        for one in given:
            assert abs(one["change"] - expected[one["column"]]) < CLOSE


def test_a_number_chooses_its_bin_and_is_answered_as_python_does(
    tab: Browser, german_page: Path
) -> None:
    model = facts.german()[0]
    features, layout = model.coding_.features, model.distribution_.layout
    columns = dict(zip(layout.x, features.columns, strict=True))
    binned = {at: column for at, column in columns.items() if column.binned}
    assert len(binned) >= 2
    tab.open(german_page)
    script = (
        "for (const [column, number] of Object.entries(arguments[0])) {"
        "  const field = document.querySelector(`input[data-column='${column}']`);"
        "  field.value = number; field.dispatchEvent(new Event('input', { bubbles: true }));"
        "} return [whatIf.codesOf(), whatIf.query(whatIf.codesOf())]"
    )
    rng = np.random.default_rng(0)
    for _ in range(30):
        # Edges themselves, numbers just below them, and numbers between.
        numbers = {
            at: float(
                rng.choice([edge := rng.choice(c.edges), np.nextafter(edge, -1), edge + 0.25])
            )
            for at, c in binned.items()
        }
        codes, found = tab.run(script, {str(at): repr(x) for at, x in numbers.items()})
        row = {c.name: [numbers.get(at)] for at, c in columns.items()}
        expected = model.predict_proba(pl.DataFrame(row))[0]
        assert np.abs(np.array(found["decision"]) - expected).max() < 1e-12
        known = features.transform(pl.DataFrame(row))[0]
        assert [codes[at] for at in layout.x] == known.tolist()
    at = min(binned)
    select = f"document.querySelector(\"select[data-column='{at}']\")"
    field = f"document.querySelector(\"input[data-column='{at}']\")"
    told = f"{select}.value = '0'; {select}.dispatchEvent(new Event('input', {{bubbles: true}}));"
    assert tab.run(f"{told} return {field}.value") == ""
    assert tab.messages() == []


def test_a_number_that_is_taken_away_is_unknown_again(tab: Browser, german_page: Path) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    tab.open(german_page)
    tab.run(OPEN_ALL)
    answers = "return document.getElementById('what-if-answers').textContent"
    before = tab.run(answers)
    field = tab.driver.find_element(By.CSS_SELECTOR, "#what-if-form input")
    for empty in (field.clear, lambda: field.send_keys(Keys.BACKSPACE)):
        field.send_keys("7")
        assert tab.run(answers) != before
        empty()
        assert set(tab.run("return whatIf.codesOf()")) == {-1}
        assert tab.run(answers) == before


def test_very_small_probabilities_keep_their_digits(tab: Browser, german_page: Path) -> None:
    """400 rare values: 1e-800 does not fit a double, and the posterior is still right."""
    n = 400
    builder = CircuitBuilder({"top": 2} | {f"x{i}": 2 for i in range(n)})
    branches = [
        builder.product(
            builder.indicator("top", k),
            *(builder.categorical(f"x{i}", [1 - p, p]) for i in range(n)),
        )
        for k, p in enumerate((0.01, 0.0101))
    ]
    circuit = builder.build(builder.sum(branches, [0.5, 0.5]))
    row = [-1] + [1] * n
    tab.open(german_page)
    script = (
        "const c = engine.unpack(arguments[0]);"
        "return [engine.logMarginal(c, arguments[1]), engine.posterior(c, 0, arguments[1])]"
    )
    log, posterior = tab.run(script, packed_circuit(to_dict(circuit)), row)
    assert log == pytest.approx(circuit.log_marginal([row])[0], rel=1e-12)
    assert log < -1800
    assert np.abs(np.array(posterior) - circuit.posterior(0, [row])[0]).max() < CLOSE


def test_impossible_values_are_said_to_be(tab: Browser, german_page: Path) -> None:
    tab.open(german_page)
    packed: Any = {
        **dict.fromkeys(("variable", "value", "child", "start"), "u1:AA=="),
        "arities": [2],
        "kind": "u1:AAEC"[:3] + "AAI=",
        "n_children": "u1:AQ==",
        "theta": "f8:AAAAAAAA8D8=",
    }
    answer = tab.run("return engine.posterior(engine.unpack(arguments[0]), 0, [1])", packed)
    assert answer is None


def test_a_model_without_df_answers_about_the_label(tab: Browser, tmp_path: Path) -> None:
    path = tmp_path / "plain.html"
    path.write_text(render(facts.without_labels()), "utf-8")
    tab.open(path)
    tab.run(OPEN_ALL)
    status = tab.run("return document.getElementById('what-if-status').textContent")
    assert status.startswith("The label is “good” with probability ")
    assert "P(Df" not in tab.run("return document.getElementById('what-if-tool').innerText")
    assert tab.messages() == []


@pytest.mark.parametrize("width", [1280, 390])
def test_a_page_without_a_circuit_opens_without_a_word(
    tab: Browser, tmp_path: Path, width: int
) -> None:
    path = tmp_path / "scored.html"
    path.write_text(render(facts.scored()), "utf-8")
    tab.look(width=width)
    tab.open(path)
    assert tab.messages() == []
    assert tab.run("return document.getElementById('what-if-tool')") is None
    tab.run(OPEN_ALL)
    assert tab.run("return document.documentElement.scrollWidth") <= width


def test_what_is_written_is_what_was_computed(tab: Browser, german_page: Path) -> None:
    tab.open(german_page)
    tab.run("document.getElementById('what-if-fill').click()")
    found = tab.run("return whatIf.query(whatIf.codesOf())")
    status = tab.run("return document.getElementById('what-if-status').textContent")
    positive = facts.german()[0].coding_.labels.positive
    assert f"{found['decision'][positive]:.1%}, the recorded label" in status
    assert f"with {found['observed'][positive]:.1%}." in status


def test_the_keyboard_alone_is_enough(tab: Browser, german_page: Path) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    tab.open(german_page)
    body = tab.driver.find_element(By.TAG_NAME, "body")
    body.send_keys(Keys.TAB)
    assert tab.run("return document.activeElement.className") == "skip"
    before = tab.run("return document.getElementById('what-if-answers').textContent")
    fold = tab.driver.find_element(By.XPATH, "//details[section[@id='what-if']]/summary")
    fold.send_keys(Keys.ENTER)
    select = tab.driver.find_element(By.CSS_SELECTOR, "#what-if-form select")
    tab.run("arguments[0].focus()", select)
    select.send_keys(Keys.ARROW_DOWN)
    after = tab.run("return document.getElementById('what-if-answers').textContent")
    assert before != after
    select.send_keys(Keys.TAB)
    assert tab.run("return document.activeElement.tagName") == "SELECT"
    assert tab.messages() == []


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_wider_than_the_window(tab: Browser, german_page: Path, width: int) -> None:
    tab.look(width=width)
    tab.open(german_page)
    tab.run(OPEN_ALL)
    tab.run("document.getElementById('what-if-fill').click()")
    assert tab.run("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [1280, 390])
def test_hostile_names_are_shown_as_text(tab: Browser, tmp_path: Path, width: int) -> None:
    path = tmp_path / "hostile.html"
    path.write_text(render(facts.hostile()[1]), "utf-8")
    tab.look(width=width)
    tab.open(path)
    tab.run("document.getElementById('what-if-fill').click()")
    assert tab.requests() == [path.resolve().as_uri()]
    assert tab.messages() == []
    assert tab.run("return document.scripts.length") == 4
    assert tab.run("return document.images.length") == 0
    tab.run(OPEN_ALL)
    assert facts.SCRIPT in tab.run("return document.body.innerText")
    assert tab.run("return document.documentElement.scrollWidth") <= width


def closed(tab: Browser) -> list[str]:
    return list(
        tab.run(
            "return [...document.querySelectorAll('details.fold:not([open]) > section')]"
            ".map((section) => section.id)"
        )
    )


@pytest.mark.parametrize("width", [1280, 390])
def test_the_verdict_is_the_first_screen_and_the_rest_is_folded(
    tab: Browser, german_page: Path, width: int
) -> None:
    tab.look(width=width)
    tab.open(german_page)
    assert len(closed(tab)) == tab.run("return document.querySelectorAll('section').length") - 1
    assert "verdict" not in closed(tab)
    gists = tab.run("return [...document.querySelectorAll('.gist')].map((g) => g.innerText)")
    assert len(gists) == len(closed(tab))
    assert tab.run("return document.getElementById('verdict').getBoundingClientRect().top") < 350


def test_a_link_opens_its_section(tab: Browser, german_page: Path) -> None:
    tab.look(width=1280)
    tab.open(german_page)
    tab.run("document.querySelector('nav.contents a[href=\"#gaps\"]').click()")
    tab.wait("return document.getElementById('gaps').closest('details').open")
    assert "gaps" not in closed(tab)
    assert "evidence" in closed(tab)


def test_the_contents_follow_the_reader(tab: Browser, german_page: Path) -> None:
    current = (
        "return [...document.querySelectorAll('nav.contents a[aria-current]')]"
        ".map((a) => a.getAttribute('href'))"
    )
    for width in (1280, 390):
        tab.look(width=width)
        tab.open(german_page)
        assert tab.run(current) == ["#verdict"]
        tab.run(OPEN_ALL)
        tab.run("document.documentElement.style.scrollBehavior = 'auto'")
        tab.run("document.getElementById('evidence').scrollIntoView()")
        tab.wait(f"{current}[0] === '#evidence'")
        assert tab.run(current) == ["#evidence"]
        top = tab.run("return document.querySelector('nav.contents').getBoundingClientRect().top")
        assert -1 <= top <= 20  # still in view


def test_one_button_opens_and_folds_all(tab: Browser, german_page: Path) -> None:
    tab.look(width=1280)
    tab.open(german_page)
    tab.run("document.getElementById('open-all').click()")
    assert closed(tab) == []
    tab.wait("return document.getElementById('open-all').innerText.startsWith('Fold')")
    tab.run("document.getElementById('open-all').click()")
    assert len(closed(tab)) == 5


def test_on_paper_everything_is_open_without_a_script(
    tab: Browser, german_page: Path, tmp_path: Path
) -> None:
    page = german_page.read_text("utf-8")
    path = tmp_path / "still.html"
    path.write_text(page[: page.index("<script")] + "</body></html>", "utf-8")
    heights = (
        "return [...document.querySelectorAll('details.fold > section')]"
        ".map((section) => section.checkVisibility({contentVisibilityAuto: true}))"
    )
    tab.look(width=800)
    tab.open(path)
    assert not any(tab.run(heights))
    tab.look(width=800, media="print")
    shown = tab.run(
        "return [...document.querySelectorAll('details.fold > section')]"
        ".map((section) => section.getBoundingClientRect().height)"
    )
    assert all(height > 40 for height in shown)
    tab.look(width=1280)


def test_words_stay_whole_in_tables_on_a_phone(tab: Browser, german_page: Path) -> None:
    """No cell is narrower than its longest word: a table scrolls rather than break one."""
    tab.look(width=390)
    tab.open(german_page)
    tab.run(OPEN_ALL)
    broken = tab.run(
        """
        const found = [];
        const shown = "main tbody th, main td, main .table:not(.cards) thead th";
        for (const cell of document.querySelectorAll(shown)) {
          if (cell.clientHeight < 36) continue;  // one line
          const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
          for (let node = walker.nextNode(); node; node = walker.nextNode()) {
            for (const word of node.data.matchAll(/[\\p{L}\\p{N}]+/gu)) {
              const range = document.createRange();
              range.setStart(node, word.index);
              range.setEnd(node, word.index + word[0].length);
              const tops = new Set([...range.getClientRects()].map((r) => Math.round(r.top)));
              if (tops.size > 1 && word[0].length < 25) found.push(word[0]);
            }
          }
        }
        return found;
        """
    )
    assert broken == []


def test_a_script_that_is_not_ours_is_stopped(tab: Browser, german_page: Path) -> None:
    """The policy holds: what a hostile name would do if it got past the escaping."""
    page = german_page.read_text("utf-8")
    broken = german_page.with_name("broken.html")
    evil = "<script>window.ran = 1</script><p onclick='window.ran = 1' id='evil'>x</p>"
    broken.write_text(page.replace("</main>", f"{evil}</main>"), "utf-8")
    tab.open(broken)
    tab.run("document.getElementById('evil').click()")
    assert tab.run("return window.ran === undefined")
    assert any("Content Security Policy" in message for message in tab.messages())
