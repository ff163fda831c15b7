"""What an audit says of altered labels: ranges first, then the point."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from auditing.tables import QUICK, table
from fairpc.auditing import _mechanism as mechanism, audit
from fairpc.auditing._mechanism import LabelChanges
from fairpc.models import OUTSIDE, BiasAccount, LatNB


def account(ranges: Any = None, counts: Any = None, **more: Any) -> BiasAccount:
    """Two groups of 1,000 labels, of which 400 are "yes"; ranges are of "yes" given Df, [s, f]."""
    mechanism = np.array([[[0.99, 0.01], [0.2, 0.8]], [[1.0, 0.0], [0.05, 0.95]]])
    if ranges is not None:
        own = np.array(ranges)
        ranges = np.stack([1 - own[..., ::-1], own], axis=-2)
    given = np.array([[[500.0, 5.0], [100.0, 395.0]], [[580.0, 0.0], [20.0, 400.0]]])
    counts = given if counts is None else counts
    return BiasAccount(("a", "b"), ("no", "yes"), mechanism, counts, ranges, **more)


POSSIBLE = [[[0.0, 0.05], [0.7, 0.9]], [[0.0, 0.0], [0.9, 1.0]]]


def test_the_sentence_of_the_verdict_leads_with_ranges() -> None:
    said = mechanism._sentence(account(POSSIBLE), 1, grouped=True)
    assert said == (
        "If the assumptions hold, with 95% confidence: of the people whose fair decision is 'yes', "
        "between 10.0% and 30.0% in group 'a' and at most 10.0% in group 'b' were recorded 'no'; "
        "of the people whose fair decision is 'no', at most 5.0% in group 'a' and practically none "
        "in group 'b' were recorded 'yes'."
    )


def test_equal_recorded_rates_are_no_proof_of_right_labels() -> None:
    said = mechanism._sentence(account(POSSIBLE, alike=True), 1, grouped=True)
    assert said.startswith("No difference between the groups needs explaining")
    assert "Errors that all groups share cannot be seen" in said
    assert "between 10.0% and 30.0%" in said


def test_a_contradiction_silences_words_and_ranges() -> None:
    one = account(POSSIBLE, contradiction="They clash.")
    assert mechanism._sentence(one, 1, grouped=True) == (
        "Nothing is said about altered labels. They clash."
    )
    assert all(cell.range is None for cell in mechanism._cells(one))
    assert mechanism._altered_labels(one, 0, 1).down_range is None


def test_counts_are_ranges_too() -> None:
    """b0 from 0 to .05 and b1 from .7 to .9 of 400 "yes" in 1,000 rows.

    The most are missed at b0 = 0, b1 = .7: 400 / .7 − 400. The fewest at b0 = .05, b1 = .9:
    a share (.4 − .05) / .85 has Df = yes, and a tenth of it is recorded no.
    """
    one = account(POSSIBLE)
    low, high = mechanism._altered_labels(one, 0, 1).down_range or (0.0, 0.0)
    assert low == pytest.approx(1000 * 0.35 / 0.85 * 0.1)
    assert high == pytest.approx(400 / 0.7 - 400)


def test_without_a_range_the_point_says_so() -> None:
    said = mechanism._sentence(account(), 1, grouped=True)
    assert "the point of the model, whose range is not known" in said
    assert "in group 'a' 5 of 1,000 labels were altered to 'yes' and 100 away from it" in said


def test_a_sentence_names_few_of_many_groups() -> None:
    names = tuple(f"g{k}" for k in range(50))
    ranges = np.column_stack([np.zeros(50), np.arange(50) / 100])
    many = mechanism._shares(names, ranges)
    assert many.startswith("at most 49.0% in group 'g49'")
    assert many.count("in group") == 5
    assert many.endswith("and at most 44.0% in any other")
    assert mechanism._shares(names[:6], ranges[:6]).count("in group") == 6
    altered = tuple(LabelChanges(f"g{k}", 100.0, float(k), 0.0, 0.0) for k in range(50))
    points = mechanism._points(altered, "yes")
    assert points.count("in group") == 5
    assert points.endswith("no larger share in any of the other 45 groups")


@pytest.mark.parametrize(("rate", "said"), [(0.9, OUTSIDE), (0.8, "the fair rate may be anything")])
def test_a_point_outside_its_range_is_not_quoted(rate: float, said: str) -> None:
    """P(no | yes, a) is 0.2 at the point, and 0.3 to 0.4 by the labels."""
    ranges = [[[0.0, 0.05], [0.6, 0.7]], [[0.0, 0.0], [0.9, 1.0]]]
    one = account(ranges, rate=rate, rate_range=(0.87, 0.93))
    assert one.outside
    assert str(one).count(said) == 1
    assert "convention" not in str(one)


def test_where_every_group_has_few_people_with_some_label_no_count_is_said() -> None:
    X, y, s = table(260)
    y = y.astype("U3")
    for group in np.unique(s):
        y[np.flatnonzero(s == group)[:2]] = "few"
    found = audit(LatNB().fit(X, y, sensitive_features=s), X, y, sensitive_features=s, **QUICK)
    assert found.mechanism is not None
    assert "too few people" in found.mechanism.sentence


def test_counts_are_those_of_the_table_and_never_of_few_people() -> None:
    """Rows of unknown group are not shared out; of 40 people only 3 are recorded "yes"."""
    X, y, s = table(1500, n_groups=3)
    s[1460:], y[1460:1497], y[1497:] = "g9", "no", "yes"
    s = np.where(np.arange(1500) < 40, None, s)
    found = audit(LatNB().fit(X, y, sensitive_features=s), X, y, sensitive_features=s, **QUICK)
    assert found.mechanism is not None
    known = {group.name: group.n for group in found.data.groups}
    for one in found.mechanism.turned:
        if one.group == "g9":
            assert one.down_range is None
        else:
            assert one.n == pytest.approx(known[one.group])
