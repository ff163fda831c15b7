"""The numbers that users get, recorded from one tree and compared with those of another.

    PYTHONPATH=old/src python benchmarks/contract.py record before.json
    PYTHONPATH=new/src python benchmarks/contract.py record after.json
    python benchmarks/contract.py compare before.json after.json --expected differences.txt

A case is a model fitted in one way to one table, or a few calls without a model; it is named
``kind/model.table.change.way``, and its numbers ``…/quantity/part``. The kind says which cases are
meant to change: ``auto`` where the structure is selected, ``strata`` with ``given=``, ``classes``
with more than two of them where only circuits go on; ``same`` the rest. A call that fails is
recorded as the class of its error. Seconds go to stderr.

``compare`` ends with code 1 where a number moves by more than its tolerance (``TOLERANCES``) and no
line of the file of expected differences, ``pattern  # reason``, names it. Only names that users
have are called, and ``audited`` alone knows where the JSON of an audit has its figures.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from contract_questions import CASES, said

TOLERANCES: tuple[tuple[str, float, str], ...] = (
    ("*/n/*", 0.0, "counts"),
    ("*/exact/*", 1e-6, "two ways to one number: a file, an export; only rounding differs"),
    ("*/parity*/*", 1e-6, "closed forms"),
    ("*/equal_rates/*", 1e-6, "closed forms"),
    ("*/metrics/*", 1e-6, "closed forms"),
    ("*/recorded*/*", 1e-6, "shares of rows"),
    ("*/review_estimates/*", 1e-6, "closed forms of a given draw and a given posterior"),
    ("*/circuits.*", 1e-6, "one structure, and parameters that are counted"),
    ("*/group_rate/*", 1e-6, "shares of rows"),
    ("*/log_density*/*", 0.002, "2 % of the probability of a row, whose log is about -10"),
    ("*/decided/*", 0.01, "share of 500 rows; a few are at the threshold"),
    ("*/distil/*", 0.01, "share of some hundred rows; a few are at the threshold"),
    ("*/latnb*/proba/*", 0.001, "EM of few parameters, ended by its tolerance"),
    ("*/latnb*/mechanism/*", 0.001, "EM of few parameters, ended by its tolerance"),
    ("*/twonb*/*", 1e-6, "closed forms"),
    ("*", 0.005, "half a point: held-out scores, splits and EM, where only their path changes"),
)
"""Patterns of numbers, the tolerance of those that none before has, and why; above 1 relative."""


def leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Paths, and the numbers or the text at the end of each."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from leaves(item, f"{path}/{key}")
    elif isinstance(value, str):
        yield path, value
    else:
        yield path, np.asarray(value, float).ravel().round(9).tolist()


def flat(run: Callable[[], Any]) -> dict[str, Any]:
    return dict(leaves(run(), ""))


def record(path: Path, only: str) -> None:
    found = {}
    for name, run in CASES.items():
        if fnmatchcase(name, only):
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                numbers = said(partial(flat, run))
            found[name] = numbers if isinstance(numbers, dict) else {"/failed": numbers}
            print(f"{name:45} {time.process_time() - start:5.1f} s", file=sys.stderr, flush=True)
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(found[name])}" for name in found)
    path.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def difference(one: Any, two: Any) -> float:
    """How far two leaves are apart: relatively above 1, infinitely if they are not alike."""
    if isinstance(one, str) or isinstance(two, str) or one is None or two is None:
        return 0.0 if one == two else math.inf
    if len(one) != len(two):
        return math.inf
    pairs = [(a, b) for a, b in zip(one, two, strict=True) if a != b and (a == a or b == b)]
    apart = [abs(a - b) / max(1.0, abs(a), abs(b)) for a, b in pairs]
    return max((each if math.isfinite(each) else math.inf for each in apart), default=0.0)


def compared(
    name: str, one: dict[str, Any], two: dict[str, Any], expected: Sequence[str]
) -> tuple[bool, str]:
    """Whether nothing unexpected is outside its tolerance; the largest difference per quantity."""
    words: dict[str, tuple[int, float, str]] = {}
    for path in one | two:
        apart = difference(one.get(path), two.get(path))
        if apart > 0:
            allowed = next(
                t for pattern, t, _ in TOLERANCES if fnmatchcase(name + path + "/", pattern)
            )
            known = any(fnmatchcase(name + path, pattern) for pattern in expected)
            rank = 0 if apart <= allowed else 1 if known else 2
            quantity = "/".join(path.split("/")[1:3])
            text = f"{quantity} {apart:.1e} (> {allowed:g})" if rank else f"{quantity} {apart:.1e}"
            words[quantity] = max(words.get(quantity, (0, 0.0, "")), (rank, apart, text))
    ranks = ("within tolerance", "differs as expected", "DIFFERS")
    worst = max((rank for rank, _, _ in words.values()), default=0)
    texts = "; ".join(text for _, _, text in sorted(words.values(), reverse=True))
    return worst < 2, f"{name:45} {f'{ranks[worst]}: {texts}' if words else 'equal'}"


def expected_of(path: Path | None) -> list[str]:
    rules = [] if path is None else path.read_text(encoding="utf-8").splitlines()
    pairs = [rule.partition("#") for rule in rules if rule.strip() and rule.strip()[0] != "#"]
    for pattern, _, reason in pairs:
        if not reason.strip():
            sys.exit(f"{path}: {pattern.strip()!r} has no reason: write one after a #")
    return [pattern.strip() for pattern, _, _ in pairs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("files", nargs="+", type=Path, help="one to record, two to compare")
    parser.add_argument("--only", default="*", help="pattern of the names of cases")
    parser.add_argument("--expected", type=Path, help="differences that are known, with reasons")
    given = parser.parse_args()
    if len(given.files) != 1 + (given.what == "compare"):
        parser.error("give one file to record, or two to compare")
    if given.what == "record":
        return record(given.files[0], given.only)
    one, two = (json.loads(path.read_text(encoding="utf-8")) for path in given.files)
    expected = expected_of(given.expected)
    names = [name for name in one | two if fnmatchcase(name, given.only)]
    results = [compared(name, one.get(name, {}), two.get(name, {}), expected) for name in names]
    print(*(line for _, line in results), sep="\n")
    sys.exit(not all(good for good, _ in results))


if __name__ == "__main__":
    main()
