"""What the verdict says first: decisions beside labels, learned beside possible, what to do."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache
from html import unescape
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from auditing.tables import QUICK, fitted, job_of_table, table
from fairpc.auditing import Audit, audit, render
from fairpc.auditing._assumptions import Bar, ConfidenceSet, assumption_facts, learned_rate
from fairpc.auditing._parity import GapChange, _one_class, outcome
from fairpc.auditing._tested import assumption_test
from fairpc.auditing._verdict import _to_do
from fairpc.cli._learned import _of_a_hundred as of_a_hundred
from fairpc.errors import ContradictionWarning
from fairpc.evidence import TopSets
from fairpc.models import OVERLAP, FairPC, LatNB, TwoNB


def admissions(n: int = 2000) -> pl.DataFrame:
    """Applicants whose chances hang on the department, and women ask for the hard one."""
    rng = np.random.default_rng(7)
    women = rng.random(n) < 0.41
    easy = rng.random(n) < np.where(women, 0.25, 0.75)
    admitted = rng.random(n) < np.where(easy, 0.62, 0.35)
    gender, label = np.where(women, "Female", "Male"), np.where(admitted, "yes", "no")
    test = rng.integers(0, 3, n) + admitted
    dept = np.where(easy, "A", "B")
    return pl.DataFrame({"Gender": gender, "Dept": dept, "test": test, "Admit": label})


@cache
def admission() -> tuple[LatNB, Audit]:
    frame = admissions()
    model = LatNB("Gender", positive="yes", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ContradictionWarning)
        model.fit(frame.drop("Admit"), frame["Admit"])
    return model, audit(model, frame.drop("Admit"), frame["Admit"], **QUICK)


def test_decisions_are_set_beside_labels() -> None:
    model, found = admission()
    frame = admissions()
    men = (frame["Gender"] == "Male").to_numpy()
    labels = (frame["Admit"] == "yes").to_numpy()
    decisions = model.predict(frame.drop("Admit")) == "yes"
    assert found.parity is not None
    change = found.parity.change
    assert change is not None
    assert (change.first, change.last) == ("Female", "Male")
    of_labels, of_decisions = (v[men].mean() - v[~men].mean() for v in (labels, decisions))
    assert change.label_gap == pytest.approx(abs(of_labels))
    assert change.decision_gap == pytest.approx(abs(of_decisions))
    assert change.change == pytest.approx(of_decisions - of_labels)
    assert change.interval[0] < change.change < change.interval[1]
    assert change.outcome == "wider"
    assert of_decisions > 2.5 * of_labels
    said = change.sentence
    assert said in found.verdict.found
    assert said.startswith("Decisions of fairpc's model widen the gap between groups")
    for people, sex in (("women", ~men), ("men", men)):
        assert f"{labels[sex].sum():,} of {sex.sum():,} {people}" in said
        assert f"{decisions[sex].sum():,} (" in said
    assert f"{100 * of_labels:.1f} percentage points apart" in said
    assert f"{100 * of_decisions:.1f} percentage points apart" in said
    assert any("choose a threshold for each group" in one for one in found.verdict.to_do)


def test_the_interval_of_the_change_is_that_of_differences_by_row() -> None:
    """Welch's interval of (decision − label), wide enough and not wider than separate ones."""
    _, found = admission()
    assert found.parity is not None
    assert found.parity.change is not None
    low, high = found.parity.change.interval
    frame, (model, _) = admissions(), admission()
    men = (frame["Gender"] == "Male").to_numpy()
    moved = (model.predict(frame.drop("Admit")) == "yes") * 1.0 - (
        frame["Admit"] == "yes"
    ).to_numpy()
    spread = np.sqrt(sum(moved[part].var(ddof=1) / part.sum() for part in (men, ~men)))
    assert high - low == pytest.approx(2 * 1.96 * spread, rel=0.02)


def changed(labels: tuple[float, float], decisions: tuple[float, float], half: float) -> GapChange:
    """Two groups of the same size, intervals of ± half."""
    change = (decisions[1] - decisions[0]) - (labels[1] - labels[0])
    apart = decisions[1] - decisions[0]
    ends = change - half, change + half
    how = outcome(labels, decisions, ends, (apart - half, apart + half))
    if _one_class(sum(labels) / 2, sum(decisions) / 2):
        how = "one class"
    named: Any = {"sizes": (50.0, 50.0), "people": ("women", "men"), "said": "approved"}
    return GapChange(
        "yes", "a=0", "a=1", labels, decisions, change, ends, 100, **named, outcome=how
    )


@pytest.mark.parametrize(
    ("labels", "decisions", "half", "name", "begins"),
    [
        ((0.3, 0.44), (0.2, 0.64), 0.05, "wider", "The decisions widen"),
        ((0.44, 0.3), (0.64, 0.2), 0.05, "wider", "The decisions widen"),
        ((0.9, 0.7), (0.95, 0.94), 0.05, "narrower", "The decisions narrow"),
        # The other group is ahead by less than chance explains: that is not a reversal.
        ((0.86, 0.74), (0.970, 0.977), 0.01, "narrower", "The decisions narrow"),
        ((0.5, 0.6), (0.6, 0.5), 0.05, "reversed", "The decisions reverse"),
        ((0.5, 0.6), (0.51, 0.61), 0.05, "unclear", "The decisions keep the gap"),
        ((0.5, 0.6), (0.5, 0.61), 0.05, "unclear", "The gap is larger in the"),
        ((0.852, 0.83), (0.908, 0.912), 0.05, "unclear", "The gap is smaller in the"),
        ((0.49, 0.50), (0.50, 0.49), 0.05, "unclear", "The gap is as large in the"),
        ((0.3, 0.44), (0.14, 0.37), 0.3, "unclear", "The gap is larger in the"),
        ((0.3, 0.44), (0.30, 0.37), 0.3, "unclear", "The gap is smaller in the"),
        ((0.06, 0.10), (0.0, 0.001), 0.01, "one class", "The decisions hardly tell people apart"),
        ((0.6, 0.8), (1.0, 0.99), 0.01, "one class", "The decisions hardly tell people apart"),
    ],
)
def test_what_decisions_do_to_a_gap(
    labels: tuple[float, float],
    decisions: tuple[float, float],
    half: float,
    name: str,
    begins: str,
) -> None:
    one = changed(labels, decisions, half)
    assert one.outcome == name
    said = one.sentence
    assert said.startswith(begins)
    turned = (labels[1] - labels[0]) * (decisions[1] - decisions[0]) < 0
    assert said.endswith("percentage points apart the other way.") == turned
    assert ("chance may explain" in said) == (name == "unclear" and "keep" not in begins)
    assert said.index(f"{100 * max(labels):.1f}%") < said.index(f"{100 * min(labels):.1f}%")


def test_a_rate_that_the_rows_exclude_is_said_and_withdraws_the_mechanism() -> None:
    job = job_of_table(1)
    tested = assumption_test(job)
    test = assumption_facts(tested.unstratified, tested.rows)
    (one,) = test.sets
    rate = float(fitted().fair_rate_[list(fitted().classes_).index(one.label)])
    inside = learned_rate(job, test)
    assert inside is not None
    assert not inside.outside
    assert inside.learned == rate
    moved = replace(test, sets=(replace(one, lower=rate + 0.02, upper=rate + 0.03),))
    outside = learned_rate(job, moved)
    assert outside is not None
    assert outside.outside
    assert "the model does not describe these rows" in outside.sentence
    assert outside.p_value is None  # the test was not kept
    assert learned_rate(job, replace(test, rejected=True)) is None
    near = learned_rate(job, replace(test, sets=(replace(one, lower=0.0, upper=rate - 4e-4),)))
    assert near is not None
    assert not near.outside
    assert (
        f"to {rate - 4e-4:.1%}; where one number is needed, the model uses {rate - 4e-4:.1%}"
        in (near.sentence)
    )


@pytest.mark.parametrize(
    ("p", "words"),
    [
        (0.012, "(p = 0.012): these rows speak against it, but do not rule it out"),
        (0.004, "the model does not describe these rows (p = 0.004), and its mechanism must not"),
    ],
)
def test_what_is_said_of_an_excluded_rate_is_as_strong_as_the_evidence(
    p: float, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of_table(1)
    tested = assumption_test(job)
    job.results["decidable.test"] = tested
    test = assumption_facts(tested.unstratified, tested.rows)
    (one,) = test.sets
    assert learned_rate(job, test).p_value is None  # type: ignore[union-attr] # it is inside
    rates: list[float] = []

    def p_value_of(_: TopSets, rate: float) -> float:
        rates.append(rate)
        return p

    monkeypatch.setattr(TopSets, "p_value_of", p_value_of)
    outside = learned_rate(job, replace(test, sets=(replace(one, lower=0.9, upper=0.95),)))
    assert outside is not None
    assert (outside.p_value, rates) == (p, [outside.learned])
    assert words in outside.sentence
    assert "The fit left" in outside.sentence  # with other classifiers


def test_a_withdrawn_mechanism_is_not_put_into_words_on_the_page() -> None:
    X, y, s = table()
    found = audit(fitted(), X, y, sensitive_features=s, **QUICK)
    assert found.mechanism is not None
    assert found.mechanism.sentence in unescape(render(found))
    assert found.decidable.learned is not None
    learned = replace(found.decidable.learned, outside=True, sentence="It does not fit.")
    page = render(
        replace(
            found,
            decidable=replace(found.decidable, learned=learned),
            verdict=replace(found.verdict, withdrawn=True),
        )
    )
    assert found.mechanism.sentence not in unescape(page)
    assert page.count("It does not fit.") >= 1


def test_groups_are_told_by_column_and_values_stay_in_the_contract() -> None:
    frame = admissions(600).with_columns(
        pl.when(pl.col("Gender") == "Female")
        .then(pl.lit("yes"))
        .otherwise(pl.lit("no"))
        .alias("woman")
    )
    X, y = frame.drop("Admit", "Gender"), frame["Admit"]
    model = LatNB("woman", positive="yes", random_state=0, max_iter=30).fit(X, y)
    assert list(model.groups_) == ["no", "yes"]
    found = audit(model, X, y, **QUICK)
    assert [group.name for group in found.data.groups] == ["woman=no", "woman=yes"]
    for group in ("people in group woman=no", "people in group woman=yes"):
        assert group in found.verdict.found[0]
    assert str(model.explain_bias()).startswith("In group woman=no, ")
    page = render(found)
    for bare in (">yes and no<", "Group no<", "Group yes<", "group no,", "group yes,"):
        assert bare not in page


def test_the_finding_is_a_range_that_a_person_repeats() -> None:
    """A third of the first group's fair "yes" were altered: the range has it, and says so first."""
    X, y, s = table(4000)
    model = FairPC(structure="forest", random_state=0).fit(X, y, sensitive_features=s)
    found = audit(model, X, y, sensitive_features=s, **QUICK)
    assert found.mechanism is not None
    cell = next(c for c in found.mechanism.altered if (c.group, c.decision) == ("g0", "yes"))
    low, high = (round(100 * end) for end in cell.range or (0, 0))
    assert found.verdict.headline.startswith(
        f"If both groups deserve “yes” equally often, between {low} and {high} of 100 people in "
        "group g0 who deserved “yes” were recorded “no”; among people in group g1 at most "
    )
    assert 0 < low <= 31 <= high
    plan = found.review_plan
    assert plan is not None
    width = next(q for q in plan.questions if q.name == "mechanism_1")
    assert width.n == 300
    (sure,) = (one for one in found.verdict.sure if "the fair rate is the same" in one)
    assert sure.endswith("recorded wrongly more often, only a review shows it.")
    said = next(one for one in found.verdict.to_do if one.startswith("Have 300 files reviewed"))
    assert f"±{100 * width.half_width:.0f} points" in said
    for half, ends in ((0.051, "known to ±5 points."), (0.06, "±6 points; for ±5 review 402.")):
        one = replace(width, half_width=half, n_needed=402)
        near = replace(found, review_plan=replace(plan, questions=(one,)))
        assert next(_to_do(near, withdrawn=False, amiss=())).endswith(ends)


def test_bars_that_overlap_are_not_said_to_be_apart() -> None:
    """The test of a difference rejects where the ranges of two rates still share a little."""
    X, y, s = table()
    found = audit(fitted(), X, y, sensitive_features=s, **QUICK)
    test = found.decidable.test
    assert test is not None
    (one,) = test.sets
    first, second = one.groups
    for upper, said in ((0.31, "the difference of two is known better"), (0.29, "do not overlap")):
        bars = replace(first, lower=0.1, upper=upper), replace(second, lower=0.3, upper=0.5)
        changed = replace(test, rejected=True, sets=(replace(one, groups=bars),))
        clash = replace(found, decidable=replace(found.decidable, test=changed))
        page = render(clash)
        assert "No one rate fits all groups" in page or "no one rate fits all groups" in page
        assert said in page
        assert ("bars do not overlap" in page) == (upper < 0.3)


def test_decisions_without_the_group_are_those_of_predict_without_it() -> None:
    X, y, s = table()
    found = audit(fitted(), X, y, sensitive_features=s, **QUICK)
    hidden = found.group_hidden
    assert hidden is not None
    decided = fitted().predict(X)
    rates = [(decided[s == g] == "yes").mean() for g in ("g0", "g1")]
    assert hidden.gap == pytest.approx(abs(rates[1] - rates[0]))
    with_group = fitted().predict(X, sensitive_features=s)
    assert hidden.changed == pytest.approx((decided != with_group).mean())
    assert hidden.sentence in found.verdict.found
    cases = {
        (0.027, 0.036, 0.040, False): "otherwise for 2.7% of the rows, and decisions differ by 3.6 "
        "percentage points between groups instead of 4.0.",
        (0.027, 0.036, 0.040, True): "otherwise for 2.7% of the rows, and decisions differ by 3.6 "
        "percentage points between groups, the other way, instead of 4.0.",
        (0.013, 0.047, 0.047, False): "otherwise for 1.3% of the rows, and decisions differ by 4.7 "
        "percentage points between groups, as before.",
    }
    for (part, gap, before, turned), said in cases.items():
        of: Any = (SimpleNamespace(gap=gap),)
        one = replace(hidden, decisions=of, gap_with=before, changed=part, turned=turned)
        assert one.sentence.endswith(f"the model decides {said}")


@pytest.mark.parametrize("kind", [LatNB, TwoNB])
def test_a_gap_that_turns_where_the_group_is_hidden_is_said_to(kind: Any) -> None:
    """TwoNB selects more women with the group, and more men without it; LatNB more men in both."""
    rng = np.random.default_rng(0)
    s = rng.choice(["men", "women"], 4000)
    x = rng.random(4000) + 0.3 * (s == "men")
    y = np.where(x + 0.35 * (s == "women") + 0.1 * rng.normal(size=4000) > 0.8, "yes", "no")
    frame = pl.DataFrame({"x": x})
    model = kind(guard=False).fit(frame, y, sensitive_features=s)
    decided = [model.predict(frame, sensitive_features=known) == "yes" for known in (s, None)]
    apart = [of[s == "men"].mean() - of[s == "women"].mean() for of in decided]
    found = audit(model, frame, y, sensitive_features=s, **QUICK).group_hidden
    assert found is not None
    assert found.turned == (apart[0] * apart[1] < 0) == (kind is TwoNB)
    assert (", the other way, instead of" in found.sentence) == found.turned


def test_ranges_that_overlap_are_not_called_a_finding() -> None:
    """A difference that is allowed leaves open whose labels were altered: that is said first."""
    X, y, s = table(4000)
    for delta, decided in ((0.0, True), (0.3, False)):
        model = FairPC(structure="forest", delta=delta, random_state=0)
        found = audit(model.fit(X, y, sensitive_features=s), X, y, sensitive_features=s, **QUICK)
        assert found.mechanism is not None
        ways = [[c for c in found.mechanism.altered if c.decision == f] for f in ("no", "yes")]
        spans = [[c.range or (0.0, 1.0) for c in cells] for cells in ways]
        assert any(max(a) > min(b) for a, b in (zip(*each, strict=True) for each in spans)) is (
            decided
        )
        assert found.verdict.headline.startswith(OVERLAP) is not decided


@pytest.mark.parametrize("label", ["yes", "no"])
def test_five_people_with_one_label_are_no_finding(label: str) -> None:
    """Though labels of a larger group were altered for certain: theirs might have been, too."""
    X, y, s = table(2000)
    X, s = pl.concat([X, X[:5]]), np.append(s, ["few"] * 5)
    y = np.append(y, [label] * 5)
    model = FairPC(structure="chow-liu", random_state=0).fit(X, y, sensitive_features=s)
    found = audit(model, X, y, sensitive_features=s, **QUICK)
    assert found.mechanism is not None
    few = [c for c in found.mechanism.altered if c.group == "few" and c.range]
    others = [c for c in found.mechanism.altered if c.group != "few" and c.range]
    assert max(c.range[0] for c in others if c.range) > 0.05
    for cell, other in product(few, others):
        assert cell.range is not None
        assert other.range is not None
        if cell.decision == other.decision:
            assert cell.range[0] <= other.range[1]
            assert other.range[0] <= cell.range[1]
            assert cell.range[1] > 0.4


def test_the_decisions_named_are_not_the_only_gap() -> None:
    """Labels of two groups are farthest apart, decisions of two others: both gaps are said."""
    one = replace(changed((0.33, 0.467), (0.435, 0.436), 0.02), farthest=0.0066)
    assert one.sentence.endswith("0.1 percentage points apart; of all groups, up to 0.7.")
    rng = np.random.default_rng(0)
    s = np.repeat(["A", "B", "C"], 400)
    frame = pl.DataFrame({"x": rng.integers(0, 5, 1200)})
    y = np.where(rng.random(1200) < np.where(s == "B", 0.3, 0.5), "yes", "no")
    decided = np.where(rng.random(1200) < np.where(s == "A", 0.6, 0.4), "yes", "no")
    found = audit(decided, frame, y, sensitive_features=s, positive="yes", **QUICK).parity
    assert found is not None
    assert found.change is not None
    assert found.change.farthest == pytest.approx(found.decisions[0].gap)


def test_a_report_gives_the_fair_rate_that_the_fit_gave() -> None:
    """Where rates may differ the chart shades the range of the whole table, as a fit prints it."""
    X, y, s = table(2000)
    model = FairPC(structure="forest", delta=0.05, random_state=0).fit(X, y, sensitive_features=s)
    assert model.label_ends_ is not None
    low, high = model.label_ends_.rate_set(0.95, model.subgroup_rate_)
    found = audit(model, X, y, sensitive_features=s)
    assert found.decidable.test is not None
    (one,) = found.decidable.test.sets
    assert (one.lower, one.upper) == pytest.approx((low, high), abs=1e-12)
    assert found.mechanism is not None
    assert found.mechanism.rate_range == pytest.approx((low, high), abs=1e-12)
    said = f"whole table, {100 * low:.1f}% to {100 * high:.1f}%, if the rates of two groups differ"
    assert said in render(found)


def test_a_model_that_selects_hardly_anybody_is_said_to() -> None:
    """Hardly any score reaches .98, and a third or more deserve a "yes": below any fair rate."""
    X, y, s = table(2000)
    model = FairPC(structure="forest", random_state=0).fit(X, y, sensitive_features=s)
    before = audit(model, X, y, sensitive_features=s, **QUICK)
    assert not any("few are decided" in one for one in before.verdict.found)
    model.choose_threshold(value=0.98)
    found = audit(model, X, y, sensitive_features=s, **QUICK)
    assert found.parity is not None
    assert found.decidable.test is not None
    shares = {g.group: g.mean for g in found.parity.decisions[0].parity.groups}
    (one,) = found.decidable.test.sets
    assert all(shares[bar.group] < bar.lower for bar in one.groups)
    said = next(one for one in found.verdict.found if one.startswith("Too few are decided “yes”"))
    assert said.count(f"at least {100 * one.lower:.1f}% of them all deserve it") == 2
    scores = model.predict_proba(X, sensitive_features=s)[:, 1]
    share: dict[str, Any] = {
        "q": 1 - one.lower,
        "method": "inverted_cdf",
    }
    cut = min(np.quantile(scores[s == g], **share) for g in ("g0", "g1"))
    assert f"such as {100 * cut:.1f}%" in found.verdict.to_do[0]
    assert found.verdict.to_do[0].startswith("Choose a lower threshold")


def test_rates_that_may_differ_bound_each_other() -> None:
    """Of 50 to 70 % and 30 to 50 %, with 5 points between: 50 to 55 % and 45 to 50 %."""
    bars = Bar("men", 100, 0.5, 0.7), Bar("women", 100, 0.3, 0.5)
    both = ConfidenceSet("yes", 0.5, 0.5, False, bars)
    near = dict(both.within(0.05))
    assert near == {"men": pytest.approx((0.5, 0.55)), "women": pytest.approx((0.45, 0.5))}
    assert dict(both.within(1.0)) == {"men": (0.5, 0.7), "women": (0.3, 0.5)}
    far = replace(both, groups=(*bars, Bar("far", 100, 0.8, 0.9)))  # no rate is near enough
    assert dict(far.within(0.05))["far"] == (0.8, 0.9)


def test_a_range_of_everything_is_not_a_finding() -> None:
    """Of labels that hardly anybody has, neither audit nor fit counts from 0 to 98 of a hundred."""
    rng = np.random.default_rng(0)
    s = np.where(rng.random(3000) < 0.5, "f", "m")
    y = np.where(rng.random(3000) < np.where(s == "f", 0.01, 0.03), "yes", "no")
    X = pl.DataFrame({"a": rng.normal(size=3000), "b": rng.normal(size=3000)})
    model = LatNB(positive="yes", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y, sensitive_features=s)
    ends = model.mechanism_range_[:, 1]
    assert (ends[:, 1] - ends[:, 0] > 0.95).any()
    found = audit(model, X, y, sensitive_features=s, **QUICK)
    counted = (" of 100 people", "In counts")
    assert not any(word in one for one in found.verdict.sentences for word in counted)
    cell = {"lower": 0.001, "upper": 0.998, "probability": 0.3}
    assert "100" not in of_a_hundred(cell)
    assert of_a_hundred(cell | {"upper": 0.4}).endswith("of 100")
