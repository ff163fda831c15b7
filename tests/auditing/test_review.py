"""What an audit says after a review: conclusions of the two tests, and the facts of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from fairpc import FairPC, LatNB, audit
from fairpc.auditing import render
from fairpc.auditing._review import ReviewFacts, facts_of_review
from fairpc.core import Floats
from fairpc.datasets import load_loans
from fairpc.models import Reviewed, ReviewRows

N = 3000


def review(*, fair: tuple[float, float], altering: bool) -> tuple[ReviewFacts, Floats]:
    """600 random reviews of a table with these fair rates; one column may alter labels."""
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, N)
    truth = (rng.random(N) < np.array(fair)[s]).astype(float)
    branch = rng.choice(["north", "south"], N)
    missed = np.where(altering & (branch == "north"), 0.7, 0.1)
    y = np.where(rng.random(N) < missed, 0.0, truth)
    rows = ReviewRows(
        n_table=N,
        at=np.arange(N),
        y=y,
        groups=np.array(["a", "b"])[s],
        decisions=(rng.random(N) < 0.5).astype(float),
        posterior=np.where(y == 1, 0.95, 0.2),
        columns={"branch": branch.astype(object), "noise": rng.random(N)},
        classes=("no", "yes"),
    )
    drawn = rng.choice(N, 600, replace=False)
    chance = np.full(600, 600 / N)
    return facts_of_review(rows, Reviewed.of(N, [(drawn, chance, truth[drawn])])), truth


def test_tied_rates_and_one_mechanism_may_be_kept() -> None:
    facts, truth = review(fair=(0.5, 0.5), altering=False)
    rates, columns = facts.conclusions
    assert "does not contradict equal fair rates" in rates
    assert "No column is seen to alter labels" in columns
    assert [test.rejected for test in facts.columns] == [False, False]
    rate = facts.rates[0]
    assert (rate.name, rate.group) == ("fair_rate", "a")
    assert rate.interval[0] < truth.mean() < rate.interval[1]
    assert rate.recorded is not None
    assert rate.recorded < rate.value


def test_what_contradicts_is_named() -> None:
    facts, _ = review(fair=(0.6, 0.3), altering=True)
    rates, columns = facts.conclusions
    assert "contradicts equal fair rates" in rates
    assert "delta=" in rates
    assert "Labels depend on branch" in columns
    assert "given=['branch']" in columns
    assert {test.column for test in facts.columns if test.rejected} == {"branch"}


def test_a_plan_before_a_review() -> None:
    """Three questions, with curves that fall, where rows and a label of two classes are known."""
    data = load_loans()
    X, y = data.X.head(600), data.y.head(600)
    model = LatNB().fit(X, y, sensitive_features=data.sensitive.head(600))
    found = audit(model, X, y, sensitive_features=data.sensitive.head(600))
    plan = found.review_plan
    assert plan is not None
    assert [q.name for q in plan.questions] == ["mechanism_1", "fair_rate", "tpr"]
    for question in plan.questions:
        halves = [half for _, half in question.curve]
        assert halves == sorted(halves, reverse=True)
        assert question.n == 300
    page = render(found)
    assert "What a review would show" in page
    assert "20 files would not help" in page
    assert "What the review showed" not in page


def test_after_a_review_the_page_begins_with_what_it_showed() -> None:
    data, names = load_loans(), {"sex": {"F": "women", "M": "men"}}
    X, y, s = data.X.head(2500), data.y.head(2500), data.sensitive.head(2500)
    model = LatNB(positive="yes").fit(X, y, sensitive_features=s)
    design = model.review(X, y, 300, sensitive_features=s, random_state=0)
    truth = (np.asarray(data.df)[:2500] == "yes").astype(float)
    batch = design.rows, design.probability[design.rows], truth[design.rows]
    reviewed = Reviewed.of(2500, [batch])
    found = audit(model, X, y, sensitive_features=s, reviewed=reviewed, names=names)
    assert found.review is not None
    assert found.review_plan is None
    assert {rate.group for rate in found.review.rates} == {"women", "men"}
    rate = next(r for r in found.review.rates if (r.name, r.group) == ("mechanism_1", "women"))
    first = render(found).partition('<p class="finding')[2][:300]
    assert f"{100 * (1 - rate.value):.0f} (" in first
    assert "of 100 women" in first
    assert "By the review" in first
    gap = next(g for g in found.review.gaps if g.name == "mechanism_1")
    assert (gap.first, gap.last) == ("men", "women")  # of shares that were recorded rightly
    low, high = (round(-100 * end) for end in gap.interval[::-1])
    assert 0 < low < high
    assert found.verdict.headline.endswith(f": women {low} to {high} points more often.")
    least, most = next(g.interval for g in found.review.gaps if g.name == "tpr")
    assert least < 0 < most
    assert found.review.more == 0  # how women and men were recorded differs for sure
    assert any("Look again at files of women" in one for one in found.verdict.to_do)
    selected = replace(found.review, asked="tpr")  # as of decisions that are audited
    # Variances go with 1 / files less 1 / rows; where it takes nearly all rows, all are asked for.
    wanted = 1 / (1 / 2500 + (1 / 300 - 1 / 2500) * (0.1 / (most - least)) ** 2)
    assert selected.more == 10 * np.ceil((wanted - 300) / 10)
    wide = replace(selected.gaps[0], name="tpr", interval=(-0.1, 0.1))
    assert replace(selected, n_rows=100, n_drawn=95, gaps=(wide,)).more == 5
    few = np.arange(80)
    one = Reviewed.of(80, [(few[:20], np.full(20, 0.25), truth[:20])])
    small = audit(
        np.asarray(X["owns_home"])[few], X[few], y[few], sensitive_features=s[few], reviewed=one
    )
    assert "Have all 60 other files reviewed" in (said := "".join(small.verdict.to_do))
    assert "would be known exactly" in said
    (rows,) = (bar for bar in found.review.rates if (bar.name, bar.group) == ("fair_rate", "men"))
    drawn = " to ".join(f"{100 * end:.0f}%" for end in rows.interval)
    page = render(found)
    assert drawn in page.partition("by the review, with 95% confidence")[2]
    shown = page.partition("What the review showed")[2].partition("In brackets")[0]
    assert "share of decisions that are the fair one" in shown
    assert "none" not in shown  # without a review they are not known
    said = " ".join((*found.verdict.found, *found.verdict.sure))
    assert "In this table" not in said
    assert "By the labels alone, the fair rate may be anything" in said


def test_a_review_that_misses_the_range_of_the_labels_withdraws_it() -> None:
    """Rows that reviewers call fair at random: the labels' range of the mechanism cannot hold."""
    data = load_loans()
    X, y, s = data.X.head(1500), data.y.head(1500), data.sensitive.head(1500)
    model = FairPC(structure="forest", random_state=0, positive="yes")
    model.fit(X, y, sensitive_features=s).choose_threshold(value=0.98)
    truth = np.random.default_rng(0).integers(0, 2, 1500).astype(float)
    drawn = np.arange(0, 1500, 4)
    reviewed = Reviewed.of(1500, [(drawn, np.full(len(drawn), 0.25), truth[drawn])])
    found = audit(model, X, y, sensitive_features=s, reviewed=reviewed)
    assert found.review is not None
    outside = [
        r
        for r in found.review.rates
        if r.without and (r.interval[0] > r.without[1] or r.interval[1] < r.without[0])
    ]
    assert outside
    assert found.verdict.withdrawn
    said = " ".join((*found.verdict.found, *found.verdict.sure))
    assert "contradicts the range from labels alone" in said
    assert "do not contradict the assumptions behind" not in said
    assert "deserved “yes” and were recorded otherwise" not in said
    assert not any("review decides" in one for one in found.verdict.to_do)
    assert "are decided “yes” by the model" in said
    assert not any(one.startswith("Choose") for one in found.verdict.to_do)


def test_a_complete_review_of_decisions_is_exact_and_read_back() -> None:
    """Of three groups one is recorded "no" too often: it is named once, whatever the pairs."""
    rng = np.random.default_rng(0)
    s, truth = rng.choice(["a", "b", "c"], 900), rng.random(900) < 0.5
    y = np.where(truth & ~((s == "a") & (rng.random(900) < 0.5)), "yes", "no")
    X = pl.DataFrame({f"x{k}": truth + rng.normal(size=900) for k in range(3)})
    reviewed = Reviewed.of(900, [(np.arange(900), np.ones(900), truth.astype(float))])
    given: dict[str, Any] = {
        "sensitive_features": s,
        "positive": "yes",
        "reviewed": reviewed,
        "n_seeds": 1,
    }
    found = audit(np.where(X["x0"] > 0.5, "yes", "no"), X, y, **given)
    assert found.review is not None
    assert any(r.without for r in found.review.rates if r.name == "tpr")
    assert sum("Look again" in one for one in found.verdict.to_do) == 1
    said = found.verdict.sentences
    assert any("is exact" in one for one in said)
    assert not any("0 to 0 of 100" in one for one in said)
