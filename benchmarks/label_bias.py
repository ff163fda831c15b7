"""Methods that look for the decision behind altered labels: plain classifiers, fairlearn, and ours.

A method takes training rows of ``injected_bias.py`` and a seed, and gives a rule for rows of which
it sees X and S. ``rivals.py`` has methods of others that correct labels, ``proof.py`` compares all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import BernoulliNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from fairpc import FairPC, LatentDecision, LatNB
from fairpc.comparison import Reduction, Reweight
from fairpc.comparison._runner import Decided, FittedMethod, Method, Run, run_method
from fairpc.models import TableClassifier
from injected_bias import Rows
from reproduction.methods import estimator_method

Floats = npt.NDArray[np.float64]


def runs(
    methods: Mapping[str, Method], folds: Iterable[tuple[Rows, Rows]], seed: int = 0
) -> Iterator[tuple[str, Run, Rows]]:
    """Each method on each fold: its name, what it did, and the test rows."""
    for train, test in folds:
        for name, method in methods.items():
            yield name, run_method(method, train, test, seed), test


GROUP = "the group"


def grouped(rows: Rows) -> pl.DataFrame:
    return rows.x.with_columns(pl.Series(GROUP, rows.s))


def with_group(rows: Rows) -> Any:
    return grouped(rows).to_pandas()


TEXT = make_column_selector(dtype_exclude="number")
NUMBERS = make_column_selector(dtype_include="number")


def on_indicators(model: Any, **options: Any) -> Any:
    """A model on indicators of levels and on scaled numbers."""
    given = options or {"min_frequency": 5}
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", **given), TEXT),
        (make_pipeline(SimpleImputer(), StandardScaler()), NUMBERS),
    )
    return make_pipeline(columns, model)


def logistic(seed: int) -> Any:
    return on_indicators(LogisticRegression(max_iter=1000))


class Boosting(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Gradient boosting that takes categories as such, at most 250 of a column, and holes."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def fit(self, table: Any, label: Any, sample_weight: Any = None) -> Boosting:
        codes = OrdinalEncoder(
            handle_unknown="use_encoded_value",
            unknown_value=np.nan,
            encoded_missing_value=np.nan,
            max_categories=250,
        )
        model = HistGradientBoostingClassifier(
            categorical_features=range(len(TEXT(table))), random_state=self.seed
        )
        columns = make_column_transformer((codes, TEXT(table)), ("passthrough", NUMBERS(table)))
        weights = {"histgradientboostingclassifier__sample_weight": sample_weight}
        self.model_ = make_pipeline(columns, model).fit(table, label, **weights)
        return self

    def predict_proba(self, table: Any) -> Any:
        return self.model_.predict_proba(table)


def classifier(
    make: Callable[[int], Any], *, on_df: bool = False, table: Callable[[Rows], Any] = with_group
) -> Method:
    """A classifier of D, or of Df itself, with S as a feature."""

    def fit(train: Rows, seed: int) -> FittedMethod:
        model = make(seed).fit(table(train), train.f if on_df else train.d)
        return FittedMethod(scored(model, table), model)

    return fit


def fit_weighted(model: Any, table: Any, label: Any, weights: Any) -> Any:
    """Fit with weights of rows, which the last step of a pipeline takes."""
    name = "sample_weight"
    if hasattr(model, "steps"):
        name = f"{model.steps[-1][0]}__{name}"
    return model.fit(table, label, **{name: weights})


def tuned(seed: int) -> Any:
    """The regularised gradient boosting that LatentDecision has inside."""
    return TableClassifier("hgb", random_state=seed)


N_PARTS = 5


def parts(table: Any, label: Any, seed: int) -> Any:
    """Training and held-out rows, five times, stratified by the label."""
    return StratifiedKFold(N_PARTS, shuffle=True, random_state=seed).split(table, label)


class Boosts(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The mean of five of these, each fitted on four fifths of the rows, as LatentDecision is."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def fit(self, table: Any, label: Any, sample_weight: Any = None) -> Boosts:
        label = np.asarray(label)
        weights = np.ones(len(label)) if sample_weight is None else np.asarray(sample_weight)
        self.classes_ = np.unique(label)
        self.models_ = [
            tuned(self.seed).fit(table.iloc[rows], label[rows], weights[rows])
            for rows, _ in parts(table, label, self.seed)
        ]
        return self

    def predict_proba(self, table: Any) -> Any:
        return np.mean([model.predict_proba(table) for model in self.models_], axis=0)


class AsGiven(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Scores as an estimator that was fitted before, for fairlearn."""

    def fit(self, scores: Any, label: Any) -> AsGiven:
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict_proba(self, scores: Any) -> Any:
        return np.column_stack([1 - np.ravel(scores), np.ravel(scores)])


def optimised(method: Method, *, drawn: bool = False) -> Method:
    """The scores of a method with fairlearn's thresholds per group.

    Its random rule is averaged, or drawn from, where decisions take the place of scores.
    """

    def fit(train: Rows, seed: int) -> FittedMethod:
        from fairlearn.postprocessing import ThresholdOptimizer

        of = method(train, seed).decide
        rule = ThresholdOptimizer(
            estimator=AsGiven(), prefit=True, predict_method="predict_proba"
        ).fit(_column(of(train)), train.d, sensitive_features=train.s)

        def decide(test: Rows) -> Decided:
            column, groups = _column(of(test)), {"sensitive_features": test.s}
            if drawn:
                return Decided.by_half(rule.predict(column, **groups, random_state=0) * 1.0)
            chances = rule._pmf_predict(column, **groups)
            return Decided(None, np.asarray(chances, np.float64)[:, 1])

        return FittedMethod(decide)

    return fit


def _column(decided: Decided) -> Floats:
    assert decided.scores is not None
    return decided.scores.reshape(-1, 1)


def circuit(**settings: Any) -> Method:
    return estimator_method(lambda seed: FairPC(random_state=seed, **settings))


def scored(classifier: Any, table: Callable[[Rows], Any] = with_group) -> Callable[[Rows], Decided]:
    """Decisions of a fitted classifier of tables."""
    return lambda test: Decided.by_half(classifier.predict_proba(table(test))[:, 1])


def latent(make: Callable[[int], Any] = lambda seed: None) -> Method:
    """Df from the scores of a classifier of D; by default from that of LatentDecision."""
    return classifier(lambda seed: LatentDecision(make(seed), sensitive=GROUP, random_state=seed))


def soft(make: Callable[[int], Any]) -> Method:
    """A classifier that learns the soft labels of a LatentDecision."""

    def fit(train: Rows, seed: int) -> FittedMethod:
        model = latent()(train, seed).model
        rows, labels, weights = model.relabel(with_group(train), train.d)
        return FittedMethod(scored(fit_weighted(make(seed), rows, labels, weights)))

    return fit


def forest(seed: int) -> Any:
    return on_indicators(RandomForestClassifier(200, min_samples_leaf=10, random_state=seed))


def tree(seed: int) -> Any:
    return on_indicators(DecisionTreeClassifier(min_samples_leaf=100, random_state=seed))


def naive_bayes(seed: int) -> Any:
    return on_indicators(BernoulliNB())


def baseline(make: Callable[[], Any], *, votes: bool = False) -> Method:
    """A baseline of ours, which refuses missing cells; votes are chances of a random decision."""

    def fit(train: Rows, seed: int) -> FittedMethod:
        fitted = make().fit(filled(train, train), train.d, sensitive_features=train.s)

        def decide(test: Rows) -> Decided:
            scores = fitted.predict_proba(filled(test, train), sensitive_features=test.s)[:, 1]
            return Decided(None, scores) if votes else Decided.by_half(scores)

        return FittedMethod(decide)

    return fit


def filled(rows: Rows, train: Rows) -> pl.DataFrame:
    """X with missing text as a level of its own and missing numbers at the training mean."""
    return rows.x.with_columns(
        pl.col(pl.String).fill_null("missing"),
        *(
            pl.col(name).cast(pl.Float64).fill_null(train.x[name].mean())
            for name in train.x.select(pl.selectors.numeric()).columns
        ),
    )


METHODS: dict[str, Method] = {
    "lr": classifier(logistic),
    "hgb": classifier(Boosting),
    "boost": classifier(Boosts),
    "rf": classifier(forest),
    "lr+to": optimised(classifier(logistic)),
    "hgb+to": optimised(classifier(Boosting)),
    "boost+to": optimised(classifier(Boosts)),
    "reweight": baseline(Reweight),
    "reduction": baseline(Reduction, votes=True),
    "limit": classifier(Boosting, on_df=True),
    "limit-boost": classifier(Boosts, on_df=True),
    "latnb": estimator_method(lambda seed: LatNB(random_state=seed)),
    "fairpc": circuit(),
    "strudel": circuit(structure="strudel"),
    "forest": circuit(structure="forest"),
    "latent": latent(),
    "latent-lr": latent(logistic),
    "latent-hgb": latent(Boosting),
    "soft-lr": soft(logistic),
    "soft-hgb": soft(Boosting),
    "soft-forest": soft(forest),
    "soft-tree": soft(tree),
    "soft-nb": soft(naive_bayes),
}
