"""What benchmarks/contract.py says of two recordings, on recordings written by hand."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest

from scripts import script

contract = script("contract")
CASE = "same/forest.loans.plain.memory"
BEFORE = {"/proba": [0.2, 0.8], "/audit/n/F": [250.0], "/bounds": [math.nan, 1.0], "/onnx": "Error"}


def verdict(after: dict[str, object], *expected: str) -> tuple[bool, str]:
    good, line = contract.compared(CASE, BEFORE, BEFORE | after, expected)
    assert line.startswith(CASE)
    return good, line.removeprefix(CASE).strip()


def test_equal_numbers_are_equal_with_nan_and_text() -> None:
    assert verdict({}) == (True, "equal")


@pytest.mark.parametrize(
    ("after", "good"),
    [
        ({"/proba": [0.2, 0.804]}, True),
        ({"/proba": [0.2, 0.806]}, False),
        ({"/audit/n/F": [251.0]}, False),
        ({"/bounds": [0.5, 1.0]}, False),
        ({"/bounds": [math.nan]}, False),
        ({"/onnx": [0.5]}, False),
        ({"/fair_rates": [0.5]}, False),
    ],
)
def test_differences_are_held_to_the_tolerance_of_their_quantity(
    after: dict[str, object], good: bool
) -> None:
    found, line = verdict(after)
    assert found == good
    assert line.startswith("within tolerance" if good else "DIFFERS")
    assert next(iter(after)).strip("/")[:5] in line


def test_differences_may_be_expected_by_a_pattern() -> None:
    good, line = verdict({"/proba": [0.1, 0.9], "/audit/n/F": [1.0]}, "same/forest.*/proba")
    assert not good
    good, line = verdict({"/proba": [0.1, 0.9]}, "same/forest.*/proba")
    assert good
    assert line == "differs as expected: proba 1.0e-01 (> 0.005)"


def test_an_expected_difference_has_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "expected.txt"
    path.write_text("# all of them\nauto/*  # without mixtures\n", encoding="utf-8")
    assert contract.expected_of(path) == ["auto/*"]
    path.write_text("auto/*\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="no reason"):
        contract.expected_of(path)


def test_a_case_that_is_gone_ends_with_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    one.write_text(json.dumps({CASE: BEFORE}), encoding="utf-8")
    two.write_text("{}", encoding="utf-8")
    for files, code in (((one, one), 0), ((one, two), 1)):
        monkeypatch.setattr(sys, "argv", ["contract.py", "compare", *map(str, files)])
        with pytest.raises(SystemExit) as end:
            contract.main()
        assert end.value.code == code
    assert "equal" in capsys.readouterr().out


def test_a_recording_is_the_same_twice(tmp_path: Path) -> None:
    for name in ("one", "two"):
        contract.record(tmp_path / name, "same/circuits.chow-liu")
    one = (tmp_path / "one").read_text(encoding="utf-8")
    assert one == (tmp_path / "two").read_text(encoding="utf-8")
    assert list(json.loads(one)) == ["same/circuits.chow-liu"]
