"""The page in a real browser: it opens from a file and asks for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from auditing import facts
from auditing.browser import Browser, browser, require_browser
from fairpc.auditing import render

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


def test_it_opens_without_a_word_and_asks_for_nothing(tab: Browser, german_page: Path) -> None:
    tab.open(german_page)
    assert tab.requests() == [german_page.resolve().as_uri()]
    assert tab.messages() == []


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["scored", "strata", "without_labels"])
def test_every_kind_of_page_opens_without_a_word(
    tab: Browser, tmp_path: Path, name: str, width: int
) -> None:
    path = tmp_path / "page.html"
    path.write_text(render(getattr(facts, name)()), "utf-8")
    tab.look(width=width)
    tab.open(path)
    assert tab.messages() == []
    tab.run(OPEN_ALL)
    assert tab.run("return document.documentElement.scrollWidth") <= width


def test_the_keyboard_alone_is_enough(tab: Browser, german_page: Path) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    tab.open(german_page)
    body = tab.driver.find_element(By.TAG_NAME, "body")
    body.send_keys(Keys.TAB)
    assert tab.run("return document.activeElement.className") == "skip"
    fold = tab.driver.find_element(By.XPATH, "//details[section[@id='evidence']]/summary")
    assert "evidence" in closed(tab)
    fold.send_keys(Keys.ENTER)
    assert "evidence" not in closed(tab)
    assert tab.messages() == []


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_wider_than_the_window(tab: Browser, german_page: Path, width: int) -> None:
    tab.look(width=width)
    tab.open(german_page)
    tab.run(OPEN_ALL)
    assert tab.run("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [1280, 390])
def test_hostile_names_are_shown_as_text(tab: Browser, tmp_path: Path, width: int) -> None:
    path = tmp_path / "hostile.html"
    path.write_text(render(facts.hostile()[1]), "utf-8")
    tab.look(width=width)
    tab.open(path)
    assert tab.requests() == [path.resolve().as_uri()]
    assert tab.messages() == []
    assert tab.run("return document.scripts.length") == 1
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
    assert len(closed(tab)) == 4


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
