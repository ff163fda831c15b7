"""Run the battery and print how many attacks ended how; exit code 1 where one did harm."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from battery.attacks import table
from battery.runner import run, suites, work


def main() -> int:
    """The command line of the battery."""
    parser = argparse.ArgumentParser(prog="python -m battery", description=__doc__)
    parser.add_argument("suites", nargs="*", default=[], help=", ".join(suites()))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="of the full number of attacks")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", type=int, help="the number of one attack, to repeat it")
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--last", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(given.suites[0], given.seed, given.first, given.last)
        return 0
    if given.only is not None:
        given.first, given.last = given.only, given.only + 1
        work(given.suites[0], given.seed, given.first, given.last)
        return 0
    found = []
    for name in given.suites or suites():
        begun = time.monotonic()
        n = round(suites()[name].full * given.share)
        found += run(name, given.seed, n, given.workers)
        print(f"{name}: {n:,} in {time.monotonic() - begun:.0f} s", file=sys.stderr)
    harm = [outcome for outcome in found if outcome.verdict.failed]
    print(f"seed {given.seed}\n{table(found)}")
    for note, n in Counter(f"{o.verdict.value}: {o.note}" for o in harm).most_common(40):
        first = next(o for o in harm if f"{o.verdict.value}: {o.note}" == note)
        print(f"{n}× {note[:300]}\n    such as {first.suite} --only {first.number}: {first.kind}")
    return 1 if harm else 0


if __name__ == "__main__":
    sys.exit(main())
