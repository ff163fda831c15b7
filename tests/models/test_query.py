"""Queries in words: what they mean, against sums over every row that the model can have."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from hypothesis import given, strategies as st

from fairpc import FairPC, Knowledge, LatNB, TwoNB
from fairpc.errors import EvidenceError, QueryError
from fairpc.models import CircuitClassifier, Query, Vocabulary, parse
from fairpc.models._query_language import Term

SETTINGS: dict[str, Any] = {
    "structure": "chow-liu",
    "n_bins": 4,
    "random_state": 0,
    "guard": False,  # of 300 rows by chance some give an alarm
}

Event = dict[str, Callable[[Any], bool]]
"""Which values of each variable fit."""


def rows(n: int = 300) -> tuple[pl.DataFrame, pl.Series]:
    rng = np.random.default_rng(0)
    age, grade = rng.integers(20, 60, n), rng.integers(1, 4, n)
    sex, race = rng.choice(["F", "M"], n), rng.choice(["a", "b", "c"], n)
    job = rng.choice(["clerk", "cook, chef", "x=1 | y"], n)
    label = np.where(rng.random(n) < 0.2 + 0.01 * (age - 20), ">50K", "<=50K")
    frame = pl.DataFrame(
        {"age": age, "grade": grade, "job": job, "S": rng.choice(["s", "t"], n)}
        | {"sex": sex, "race": race}
    )
    return frame, pl.Series("income", label)


@pytest.fixture(scope="module")
def model() -> CircuitClassifier:
    X, y = rows()
    return FairPC(["sex", "race"], **SETTINGS).fit(X, y)


@pytest.fixture(scope="module")
def words(model: CircuitClassifier) -> Vocabulary:
    return vocabulary(model)


def vocabulary(model: CircuitClassifier) -> Vocabulary:
    coding = model.coding_
    return Vocabulary(model.distribution_, coding.features, coding.labels, coding.groups)


def probability(words: Vocabulary, text: str) -> float:
    ((_, value),) = words.answer(parse(text)).rows
    return value


class Everything:
    """The joint distribution as a list: each complete row with its probability."""

    def __init__(self, model: CircuitClassifier) -> None:
        circuit = model.circuit_
        self.names = circuit.names
        self.rows = np.array(list(product(*(range(k) for k in circuit.arities))), np.int16)
        self.p = np.exp(circuit.log_marginal(self.rows))
        coding = model.coding_
        classes, cells = list(coding.labels.classes), list(coding.groups.cells)
        self.labels: dict[str, list[Any]] = {"Df": classes, "D": classes, "S*": cells}
        self.labels |= {c.name: list(c.labels) for c in coding.features.columns}

    def mass(self, name: str, fits: Callable[[Any], bool]) -> npt.NDArray[np.bool_]:
        """Which rows have a value of this variable that fits."""
        column = self.rows[:, self.names.index(name)]
        good = [k for k, label in enumerate(self.labels[name]) if fits(label)]
        return np.isin(column, good)


@pytest.fixture(scope="module")
def everything(model: CircuitClassifier) -> Everything:
    return Everything(model)


def test_the_joint_is_whole(everything: Everything) -> None:
    assert everything.p.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "event", "known"),
    [
        ("Df='>50K'", {"Df": lambda v: v == ">50K"}, {}),
        ("Df=>50K", {"Df": lambda v: v == ">50K"}, {}),
        ("P(D = <=50K | Df = >50K)", {"D": lambda v: v == "<=50K"}, {"Df": lambda v: v == ">50K"}),
        ("income='>50K' | grade=2", {"D": lambda v: v == ">50K"}, {"grade": lambda v: v == "2"}),
        ("Df=>50K | sex=F", {"Df": lambda v: v == ">50K"}, {"S*": lambda c: c[0] == 0}),
        ("sex=F | race=b", {"S*": lambda c: c[0] == 0}, {"S*": lambda c: c[1] == 1}),
        ("D=>50K | sex!=F, race=?", {"D": lambda v: v == ">50K"}, {"S*": lambda c: c[0] == 1}),
        ("D=>50K | grade>=2", {"D": lambda v: v == ">50K"}, {"grade": lambda v: int(v) >= 2}),
        ("grade<3, D=>50K", {"grade": lambda v: int(v) < 3, "D": lambda v: v == ">50K"}, {}),
        ("job='cook, chef'", {"job": lambda v: v == "cook, chef"}, {}),
        ('job="x=1 | y" | "S"=s', {"job": lambda v: v == "x=1 | y"}, {"S": lambda v: v == "s"}),
        ("S='sex=M, race=c'", {"S*": lambda c: c == (1, 2)}, {}),
    ],
)
def test_answers_equal_sums_over_all_rows(
    words: Vocabulary, everything: Everything, text: str, event: Event, known: Event
) -> None:
    condition = np.ones(len(everything.p), bool)
    for name, fits in known.items():
        condition &= everything.mass(name, fits)
    both = condition.copy()
    for name, fits in event.items():
        both &= everything.mass(name, fits)
    expected = everything.p[both].sum() / everything.p[condition].sum()
    assert probability(words, text) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "event", "known"),
    [
        ("Df=>50K | sex=F, race=b", {"Df": ">50K"}, {"sex": "F", "race": "b"}),
        ("sex=F | race=b", {"sex": "F"}, {"race": "b"}),
        ("income='>50K' | grade=2", {"income": ">50K"}, {"grade": 2}),
        ("D=>50K | S='sex=M, race=c'", {"D": ">50K"}, {"sex": "M", "race": "c", "job": None}),
        ("job=clerk | 'S'=s", {"job": "clerk"}, {"S": "s"}),
        ("sex=F | sex=M", {"sex": "F"}, {"sex": "M"}),
    ],
)
def test_python_and_the_command_line_take_the_same_names(
    model: CircuitClassifier, words: Vocabulary, text: str, event: Any, known: Any
) -> None:
    assert model.probability(event, known) == pytest.approx(probability(words, text), abs=1e-12)


def test_a_group_goes_by_its_value_and_by_the_name_that_is_shown() -> None:
    X, y = rows()
    X = X.drop("sex", "S").with_columns(X["sex"].replace({"F": "yes", "M": "no"}).alias("afam"))
    model = LatNB("afam").fit(X, y)
    words = vocabulary(model)
    assert model.coding_.group_names == ("afam=no", "afam=yes")
    asked = [probability(words, f"age<40 | {name}") for name in ("S=yes", "S=afam=yes", "afam=yes")]
    given: list[dict[str, Any]] = [{"S": "yes"}, {"S": "afam=yes"}, {"afam": "yes"}]
    asked += [model.probability({"age": (None, 40)}, known) for known in given]
    assert len(set(asked)) == 1
    raised = [
        LatNB("afam", knowledge=Knowledge(one_sided={name: "raised"})).fit(X, y).bias_mechanism_
        for name in ("yes", "afam=yes")
    ]
    assert (raised[0] == raised[1]).all()


def test_a_name_asks_for_all_its_values(words: Vocabulary, everything: Everything) -> None:
    answer = words.answer(parse("Df, sex | grade=1"))
    assert [values for values, _ in answer.rows] == list(product(["<=50K", ">50K"], "FM"))
    assert sum(p for _, p in answer.rows) == pytest.approx(1.0, abs=1e-12)
    grade = everything.mass("grade", lambda v: v == "1")
    assert answer.given_probability == pytest.approx(everything.p[grade].sum(), abs=1e-12)


def test_the_decision_does_not_depend_on_the_group(words: Vocabulary) -> None:
    known = [probability(words, f"Df=>50K | sex={sex}") for sex in "FM"]
    assert known == pytest.approx([probability(words, "Df=>50K")] * 2, abs=1e-12)


def test_whole_numbers_share_their_bin(words: Vocabulary) -> None:
    edge = int(words.features.column("age").edges[0])
    at_least = probability(words, f"age>={edge}")
    assert at_least == pytest.approx(1 - probability(words, f"age<{edge}"), abs=1e-12)
    assert probability(words, f"age>{edge - 1}") == pytest.approx(at_least, abs=1e-12)
    assert probability(words, f"age>={edge - 0.5}") == pytest.approx(at_least, abs=1e-12)
    one = probability(words, f"age={edge}")
    assert probability(words, f"age={edge + 1}") == pytest.approx(one, abs=1e-12)
    assert 0 < one < at_least


def test_a_number_beyond_the_table_stands_for_its_bin(words: Vocabulary) -> None:
    column = words.features.column("age")
    (reading,) = words.answer(parse("Df | age=1000")).readings
    assert reading.values == (column.labels[-1],)
    assert probability(words, "age>=1000") == 0.0


def test_a_bin_is_left_out_by_its_label(words: Vocabulary, everything: Everything) -> None:
    column = words.features.column("age")
    rest = everything.mass("age", lambda v: v != column.labels[1])
    asked = probability(words, f"age != '{column.labels[1]}'")
    assert asked == pytest.approx(everything.p[rest].sum(), abs=1e-12)


def test_many_wide_terms_are_one_pass(words: Vocabulary, everything: Everything) -> None:
    """Each term leaves several codes; the answer is that of the sum over all of their rows."""
    text = "Df=>50K | age >= 21, grade != 2, job != clerk, S != 'sex=M, race=c'"
    known = everything.mass("grade", lambda v: v != "2") & everything.mass(
        "job", lambda v: v != "clerk"
    )
    known &= everything.mass("S*", lambda c: c != (1, 2))
    column = words.features.column("age")
    share = column.intervals.between(21.0, np.inf)
    ages = share[everything.rows[:, everything.names.index("age")]]
    p = everything.p * known * ages
    both = p[everything.mass("Df", lambda v: v == ">50K")].sum()
    assert probability(words, text) == pytest.approx(both / p.sum(), abs=1e-12)


def test_what_is_left_out_may_be_one_value() -> None:
    """A bin of one whole number is that number; a merged level is one of several."""
    rng = np.random.default_rng(0)
    n = 600
    kind = np.where(rng.random(n) < 0.004, "rare", rng.choice(["a", "b"], n))
    kind[:2] = "rare", "odd"
    number = np.where(rng.random(n) < 0.5, 7, rng.integers(0, 40, n))
    frame = pl.DataFrame({"number": number, "kind": kind, "sex": rng.choice(["F", "M"], n)})
    label = pl.Series(rng.choice(["no", "yes"], n))
    words = vocabulary(
        LatNB("sex", numeric=["number"], rare=0.02, min_cell=1, max_iter=5).fit(frame, label)
    )
    labels = words.features.column("number").labels
    assert "7" in labels
    others = probability(words, "number != 7")
    assert others == pytest.approx(1 - probability(words, "number = 7"), abs=1e-12)
    with pytest.raises(QueryError, match="'rare' is one of several values in 'other'"):
        probability(words, "kind != rare")
    assert probability(words, "kind != a") == pytest.approx(
        1 - probability(words, "kind = a"), abs=1e-12
    )


def test_what_contradicts_is_zero_or_refused(words: Vocabulary) -> None:
    assert probability(words, "grade=1 | grade=2") == 0.0
    with pytest.raises(EvidenceError, match="'grade = 1, grade = 2' has probability zero"):
        probability(words, "Df=>50K | grade=1, grade=2")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("   ", "is empty"),
        ("|", "cannot be read at '|'"),
        ("Df | sex", "'sex' stands after the bar without a value: write sex=value"),
        ("Df | age=30, job", "'job' stands after the bar without a value"),
        ("| age=3", "cannot be read"),
        ("Df,", "ends with a comma"),
        ("Df,,D", "cannot be read at ',D'"),
        ("Df=", "'Df' has no value after '='"),
        ("Df='x", "cannot be read"),
        ("Df | age=3 | sex=F", "two bars"),
        ("Df=x", "'Df' has no value 'x': use one of '<=50K', '>50K'"),
        ("Df | agee=3", "no 'agee' in the model: did you mean 'age'"),
        ("df", "did you mean 'Df'"),
        ("Df | s=x", "did you mean 'S'"),
        ("Df | job=clark", "did you mean 'clerk'"),
        ("Df | age=old", "'age' has no value 'old'"),
        ("Df | sex>F", "'sex' has no order"),
        ("Df | S<x", "groups have no order"),
        ("Df | S=nobody", "S has no value 'nobody'"),
        ("Df | age>old", "'old' is not a number"),
    ],
)
def test_errors_say_where_and_what(words: Vocabulary, text: str, says: str) -> None:
    with pytest.raises(QueryError) as caught:
        words.answer(parse(text))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_dropped_column_says_why() -> None:
    X, y = rows()
    frame = X.with_columns(pl.lit("one").alias("constant"))
    words = vocabulary(LatNB(["sex", "race"]).fit(frame, y))
    with pytest.raises(QueryError, match="'constant' is not used: .*: ask without it"):
        words.answer(parse("Df | constant=one"))


def test_models_without_a_latent_decision() -> None:
    X, y = rows()
    words = vocabulary(TwoNB(["sex", "race"]).fit(X, y))
    with pytest.raises(QueryError, match="TwoNB has no Df: ask for D"):
        words.answer(parse("Df"))
    assert sum(p for _, p in words.answer(parse("D | sex=F")).rows) == pytest.approx(1.0)


TEXTS = st.text(min_size=1, max_size=8)


@given(name=TEXTS, value=TEXTS, mark=st.sampled_from("\"'"))
def test_quotes_carry_any_name_and_value(name: str, value: str, mark: str) -> None:
    quoted = [mark + text.replace(mark, mark * 2) + mark for text in (name, value)]
    query = parse(f"Df | {quoted[0]} = {quoted[1]}, x=?")
    assert query == Query((Term("Df"),), (Term(name, True, "=", value), Term("x")))


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        query = parse(text)
    except QueryError:
        return
    assert query.targets
