"""Numbers and names as the page writes them."""

from __future__ import annotations

import math

import pytest

from fairpc.auditing import _formats as text


@pytest.mark.parametrize(
    ("form", "value", "expected"),
    [
        (text.share, 0.3142, "31.4%"),
        (text.share, -0.00001, "0.0%"),
        (text.share, None, "–"),
        (text.share, math.nan, "–"),
        (text.share, math.inf, "∞"),
        (text.threshold, 0.3142, "31.4%"),
        (text.threshold, 0.000366, "0.037%"),
        (text.threshold, 4e-9, "4·10⁻⁷%"),
        (text.threshold, 0.9996, "99.96%"),
        (text.threshold, 0.0, "0.0%"),
        (text.points, -0.1963, "−19.6"),
        (text.points, 0.05, "+5.0"),
        (text.points, 0.0, "0.0"),
        (text.points, -0.0004, "0.0"),
        (text.number, 0.358, "0.358"),
        (text.number, -math.inf, "−∞"),
        (text.count, 48842.0, "48,842"),
        (text.p_value, 1e-12, "<\N{NO-BREAK SPACE}0.001"),
        (text.p_value, 0.0321, "0.032"),
        (text.p_value, 1.0, "1"),
        (text.number_tick, 0.5, "0.5"),
        (text.number_tick, 4e-05, "4·10⁻⁵"),
        (text.share_tick, 0.2, "20%"),
        (text.points_tick, -0.05, "−5"),
        (text.points_tick, 0.30000000000000004, "30"),
    ],
)
def test_numbers(form: object, value: float, expected: str) -> None:
    assert callable(form)
    assert form(value) == expected


def test_a_span_is_two_numbers_or_nothing() -> None:
    assert text.span((0.309, 0.316)) == "30.9% to 31.6%"
    assert text.span((-0.2, 0.1), text.points) == "−20.0 to +10.0"
    assert text.span(None) == text.span((0.1, math.nan)) == "–"


def test_a_range_that_rounds_to_one_number_is_said_once() -> None:
    assert text.ranged(14.6, 33.2) == "15 to 33"
    assert text.ranged(5.6, 6.4) == "5.6 to 6.4"
    assert text.ranged(97.6, 97.61) == "97.6"
    assert text.ranged(0.0, 0.0) == "0"
    assert text.ranged(20.0, 20.0, 1) == "20.0"
    assert text.more_often(-0.0549, -0.0546, 0) == "5.5 points less often"
    assert text.more_often(0.01, 0.01, 0) == "1 point more often"


def test_names_stay_on_one_line_and_hide_nothing() -> None:
    assert text.name("a\nb") == "a⏎b"
    assert text.name("\u202eevil") == "\\u202eevil"
    assert text.name("nul\x00") == "nul\\u0000"
    assert text.name("") == "(empty)"
    assert text.name("שלום 🎈") == "שלום 🎈"
    assert text.name(("F", "B")) == "F, B"


def test_no_line_breaks_inside_a_p_value() -> None:
    sentence = "Rates differ (p < 0.001); others do not (p = 0.032), if p < q."
    joined = text.prose(sentence)
    assert joined.replace("\N{NO-BREAK SPACE}", " ") == sentence
    assert "p\N{NO-BREAK SPACE}<\N{NO-BREAK SPACE}0.001" in joined
    assert "p\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}0.032" in joined
    assert joined.endswith("if p < q.")


def test_long_names_are_cut() -> None:
    assert len(text.short("x" * 300)) == text.LONGEST
    assert text.short("short") == "short"


def test_lists_in_a_sentence() -> None:
    assert text.listed(["a"]) == "a"
    assert text.listed(["a", "b", "c"]) == "a, b and c"
    assert text.counted(1, "row") == "1 row"
    assert text.counted(2000, "row") == "2,000 rows"
