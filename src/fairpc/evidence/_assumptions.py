"""Do the data contradict the assumptions, and which P(Df) do they leave?

The assumptions: Df is independent of S; D is independent of X given Df and S;
in every group D = c is at least as frequent under Df = c as under any other Df.
Together they bound P(Df = c) from above, group by group, by the rate of c over
its rate in any set of rows. The assumptions are rejected together where groups then need fair rates
that differ, see ``fairpc.evidence._group_range``.

Within strata of attributes A the first is weaker: Df is independent of S *given* A, P(Df = 1 | a) =
π_a. Labels may be altered differently in each stratum: the test of each is the one above, of its
rows alone, and they hold together by Bonferroni.
"""

# ruff: noqa: N803, PT028 - a test of hypotheses, not of code: its arguments may have defaults.

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final, TypedDict, Unpack, overload

import numpy as np
import numpy.typing as npt

from fairpc.core import (
    MetricError,
    check_array,
    check_choice,
    check_classes,
    check_clusters,
    check_groups,
    check_level,
    check_positive_weight,
    whole_number,
)
from fairpc.evidence._chosen_sets import TopSets, check_two
from fairpc.evidence._gaps import SMALL
from fairpc.evidence._group_range import check_difference
from fairpc.evidence._intervals import some_of
from fairpc.evidence._strata import apart, check_strata, level_of_each
from fairpc.evidence._test_records import (
    SMALLEST_P,
    AssumptionTest,
    Method,
    StratumTest,
    TestsByStratum,
)
from fairpc.evidence._top_sets import Watch

MOST_SEEDS: Final = 10_000


class _Options(TypedDict, total=False):
    """What every form of the test takes."""

    positive: Any
    classifier: Any
    level: float
    delta: float
    method: Method
    n_seeds: int
    seeds: Iterable[int] | None
    clusters: npt.ArrayLike | None
    sample_weight: npt.ArrayLike | None
    progress: Watch | None


@overload
def test_assumptions(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    sensitive_features: npt.ArrayLike,
    *,
    given: None = None,
    **options: Unpack[_Options],
) -> AssumptionTest: ...


@overload
def test_assumptions(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    sensitive_features: npt.ArrayLike,
    *,
    given: npt.ArrayLike,
    **options: Unpack[_Options],
) -> TestsByStratum: ...


def test_assumptions(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    sensitive_features: npt.ArrayLike,
    *,
    given: npt.ArrayLike | None = None,
    positive: Any = None,
    classifier: Any = None,
    level: float = 0.95,
    delta: float = 0.0,
    method: Method = "cross-fit",
    n_seeds: int = 11,
    seeds: Iterable[int] | None = None,
    clusters: npt.ArrayLike | None = None,
    sample_weight: npt.ArrayLike | None = None,
    progress: Watch | None = None,
) -> AssumptionTest | TestsByStratum:
    """Test the assumptions of the latent fair decision, and bound P(Df) if they hold.

    Within each group a classifier ranks the rows by P(D = c | X); sets in which
    nearly every row has class c are chosen on training folds and counted on
    held-out ones. The median over several ways of splitting is taken.

    Args:
        X: features, any types; missing cells allowed.
        y: observed class per row; two classes.
        sensitive_features: group per row; several columns are crossed.
        given: stratum per row, several columns are crossed: test the weaker claim that Df is
            independent of the group within strata. Each stratum has its own mechanism and is tested
            by itself, all together at the level; a :class:`TestsByStratum`.
        positive: class that ``lower`` and ``upper`` are about; the last if None.
        classifier: "logistic", "boosting", a scikit-learn classifier, or None: for each
            training part the better of the first two by log-loss on inner folds.
        level: of the confidence set; the test rejects at 1 − level.
        delta: by how much fair rates of groups may differ; the test rejects where they must by
            more.
        method: "cross-fit", or "single-split": one split, exact for independent rows, wider. It
            rejects where separate intervals of two groups, which hold together at the level, lie
            further apart than ``delta``.
        n_seeds: ways of splitting, with seeds 0, 1, …; "single-split" takes the first only,
            because choosing among splits would undo its exactness.
        seeds: the seeds themselves, instead of ``n_seeds``.
        clusters: who each row is about, where persons repeat; a person stays in one fold.
        sample_weight: how many people a row stands for in the population; not counts of equal
            rows, which must be repeated. Counts are then shrunk to the effective sample size.
        progress: called before each way of splitting a group with how many are done and how many
            there are; with strata of each anew.
    """
    check_level(level)
    delta = check_difference("delta", delta)
    check_choice("method", method, ("cross-fit", "single-split"), MetricError)
    asked: dict[str, Any] = {"positive": positive, "classifier": classifier, "method": method}
    asked |= {"seeds": _seeds(n_seeds, seeds, method), "progress": progress}
    asked |= {"clusters": clusters, "sample_weight": sample_weight}
    if given is None:
        return TopSets.of(X, y, sensitive_features, **asked).test(level, delta)
    return _test_by_stratum(X, y, sensitive_features, given, level, delta, asked)


test_assumptions.__test__ = False  # type: ignore[attr-defined]


def _test_by_stratum(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    sensitive_features: npt.ArrayLike,
    given: npt.ArrayLike,
    level: float,
    delta: float,
    asked: dict[str, Any],
) -> TestsByStratum:
    """Each stratum by itself; those with too few rows or without a label are left out."""
    table = check_array("X", x)
    classes, labels = check_classes("y", y, len(table))
    check_two(classes)
    names, ids = check_groups(sensitive_features, len(table), "sensitive_features")
    strata, where = check_strata(given, len(table))
    persons = check_clusters(asked["clusters"], len(table))
    weights = check_positive_weight(asked["sample_weight"], len(table))
    cells = np.zeros((len(strata), len(names), 2), np.int64)
    np.add.at(cells, (where, ids, labels), 1)

    def unfit(a: int) -> str:
        rows = cells[a].sum(axis=1)
        g = int(np.argmin(rows))
        if rows[g] < SMALL:
            return f"group {names[g]!r} has {rows[g]} of the {SMALL} that a test needs"
        if not cells[a].all():
            g, c = divmod(int(np.argmin(cells[a])), 2)
            return f"class {classes[c]!r} does not occur in group {names[g]!r}"
        return ""

    kept, left_out = apart(strata, where, unfit)
    own = level_of_each(level, len(kept))
    y_all, s_all = (check_array(*pair) for pair in (("y", y), ("s", sensitive_features)))
    tests = []
    for name, here in kept:
        rows = table[here], y_all[here], s_all[here]
        asked |= {"clusters": some_of(persons, here), "sample_weight": some_of(weights, here)}
        test = TopSets.of(*rows, **asked).test(own, delta)
        tests.append(StratumTest(name, int(here.sum()), test))
    least = min(s.test.p_value for s in tests)
    return TestsByStratum(
        rejected=any(s.test.rejected for s in tests),
        p_value=min(1.0, len(tests) * least) if least > SMALLEST_P else SMALLEST_P,
        level=level,
        strata=tuple(tests),
        left_out=left_out,
    )


def _seeds(n_seeds: int, seeds: Iterable[int] | None, method: Method) -> list[int]:
    if seeds is None:
        numbers = list(range(whole_number("n_seeds", n_seeds, 1, MOST_SEEDS)))
    else:
        try:
            given = list(islice(seeds, MOST_SEEDS + 1))
        except TypeError as error:
            raise MetricError("seeds is not a list of whole numbers: give some") from error
        numbers = [whole_number("a seed", seed, 0, 2**32 - 1) for seed in given]
        if not 1 <= len(numbers) <= MOST_SEEDS:
            raise MetricError(f"seeds is empty or endless: give 1 to {MOST_SEEDS:,} of them")
    return numbers[:1] if method == "single-split" else numbers
