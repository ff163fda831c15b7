"""Methods of others that correct altered labels or decisions, on the learners that ours have.

Confident learning (Northcutt, Jiang and Chuang, JAIR 2021; cleanlab), forward loss correction with
noise rates per group (Natarajan et al., NeurIPS 2013; Patrini et al., CVPR 2017), label flipping in
the manner of Fair-OBNC (Silva et al., ECAI 2024), reweighing (Kamiran and Calders, KAIS 2012),
fairlearn's reductions (Agarwal et al., ICML 2018). Each takes logistic regression, or the boosting
that LatentDecision has inside; the names of the latter end in "-boost". S is a feature throughout.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.ensemble import BaggingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from fairpc.comparison._runner import Decided, FittedMethod, Method
from injected_bias import FAVOURED, OTHER, Codes, Rows
from label_bias import (
    Boosts,
    Floats,
    fit_weighted,
    logistic,
    on_indicators,
    parts,
    scored,
    tuned,
    with_group,
)

Make = Callable[[int], Any]
Rates = dict[str, tuple[float, float]]
"""Per group P(D = 1 | Df = 0) and P(D = 1 | Df = 1)."""

GROUPS = (FAVOURED, OTHER)
SINGLE: dict[Any, Make] = {Boosts: tuned}
"""What stands for a learner where it is fitted many times: one booster for the mean of five."""


def single(make: Make) -> Make:
    return SINGLE.get(make, make)


def held_out(make: Make, table: Any, label: Codes, seed: int) -> Floats:
    """P(D = 1 | x, s) of each row by a learner that has not seen it."""
    scores = np.empty(len(label))
    for rows, rest in parts(table, label, seed):
        model = single(make)(seed).fit(table.iloc[rows], label[rows])
        scores[rest] = model.predict_proba(table.iloc[rest])[:, 1]
    return scores


def reweighing(make: Make) -> Method:
    """Weights P(s) P(d) / P(s, d), under which D is independent of S (Kamiran and Calders)."""

    def fit(train: Rows, seed: int) -> FittedMethod:
        weights = independence_weights(train.s, train.d)
        return FittedMethod(scored(fit_weighted(make(seed), with_group(train), train.d, weights)))

    return fit


def independence_weights(s: npt.NDArray[np.str_], d: Codes) -> Floats:
    weights = np.ones(len(d))
    for group in GROUPS:
        for label in (0, 1):
            here, both = (s == group, d == label), (s == group) & (d == label)
            if both.any():
                weights[both] = here[0].mean() * here[1].mean() / both.mean()
    return weights


def confident(make: Make, *, by_group: bool) -> Method:
    """Rows whose label held-out scores contradict are left out; cleanlab says which.

    cleanlab takes noise to depend on the class alone. With ``by_group`` it looks at each group by
    itself, so that noise may depend on the group too.
    """

    def fit(train: Rows, seed: int) -> FittedMethod:
        table = with_group(train)
        scores = held_out(make, table, train.d, seed)
        wrong = label_issues(train.d, scores, train.s if by_group else None)
        return FittedMethod(scored(make(seed).fit(table.iloc[~wrong], train.d[~wrong])))

    return fit


def label_issues(
    d: Codes, scores: Floats, groups: npt.NDArray[np.str_] | None = None
) -> npt.NDArray[np.bool_]:
    """Rows that cleanlab takes for mislabelled, with its defaults."""
    from cleanlab.filter import find_label_issues

    wrong = np.zeros(len(d), np.bool_)
    chances = np.column_stack([1 - scores, scores])
    for group in (None,) if groups is None else GROUPS:
        here = np.ones(len(d), np.bool_) if groups is None else groups == group
        if len(np.unique(d[here])) == 2:
            wrong[here] = find_label_issues(d[here], chances[here], n_jobs=1)
    return wrong


def forward(make: Make, *, known: bool) -> Method:
    """Loss of the label that a corrected score predicts, −log Σ_f P(d | f, s) P(f | x, s).

    Noise rates of each group are the true ones, which nobody has (``known``), or scores of its
    anchors: the 97th and the 3rd percentile of P(D = 1 | x, s) (Patrini et al., section 4.2).
    """

    def fit(train: Rows, seed: int) -> FittedMethod:
        table = with_group(train)
        if known:
            rates = true_rates(train)
        else:
            rates = anchors(held_out(make, table, train.d, seed), train.s)
        b0, b1 = (np.array([rates[group][f] for group in train.s]) for f in (0, 1))
        learner = ForwardTrees(seed) if make is Boosts else ForwardLogistic()
        learner.fit(table, train.d, b0, b1)
        rate = float(learner.predict_proba(table)[:, 1].mean())
        return FittedMethod(scored(learner), None if known else found_rates(rates, rate))

    return fit


def true_rates(rows: Rows) -> Rates:
    """Shares of D = 1 by group and Df, as they came out in these rows."""
    found = {}
    for group in GROUPS:
        ends = (rows.d[(rows.s == group) & (rows.f == f)] for f in (0, 1))
        found[group] = tuple(float((d.sum() + 0.5) / (len(d) + 1)) for d in ends)
    return found  # type: ignore[return-value]  # two each


ANCHOR = 0.97


def anchors(scores: Floats, s: npt.NDArray[np.str_]) -> Rates:
    """Per group the scores of the rows that stand for Df = 0 and Df = 1."""
    ends = {group: np.quantile(scores[s == group], (1 - ANCHOR, ANCHOR)) for group in GROUPS}
    # Two that are alike say nothing of Df.
    return {g: (float(min(low, high - 0.01)), float(high)) for g, (low, high) in ends.items()}


def found_rates(rates: Rates, rate: float) -> Any:
    """Noise rates in the form in which a fitted model has its mechanism."""
    table = [[[1 - b, b] for b in rates[group]] for group in GROUPS]
    return SimpleNamespace(
        groups_=GROUPS, bias_mechanism_=np.array(table), fair_rate_=np.array([1 - rate, rate])
    )


def forward_slope(z: Floats, d: Codes, b0: Floats, b1: Floats) -> tuple[Floats, Floats, Floats]:
    """Loss, its derivative by the log odds z of Df, and the expected second derivative."""
    q = expit(z)
    p = np.clip(b0 + (b1 - b0) * q, 1e-9, 1 - 1e-9)
    step = (b1 - b0) * q * (1 - q)
    loss = -np.where(d == 1, np.log(p), np.log1p(-p))
    return loss, (p - d) / (p * (1 - p)) * step, step**2 / (p * (1 - p))


class ForwardLogistic:
    """Logistic regression of Df, C = 1, under the corrected loss; started from that of D."""

    def fit(self, table: Any, d: Codes, b0: Floats, b1: Floats) -> ForwardLogistic:
        pipeline = on_indicators(LogisticRegression(max_iter=1000)).fit(table, d)
        self.columns_, model = pipeline[0], pipeline[1]
        x = self.columns_.transform(table)

        def objective(theta: Floats) -> tuple[float, Floats]:
            loss, slope, _ = forward_slope(x @ theta[1:] + theta[0], d, b0, b1)
            penalty = np.append(0.0, theta[1:])
            gradient = np.append(slope.sum(), x.T @ slope) + penalty
            return float(loss.sum() + penalty @ penalty / 2), gradient

        start = np.append(model.intercept_, model.coef_[0])
        found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 500})
        self.theta_ = found.x
        return self

    def predict_proba(self, table: Any) -> Floats:
        q = expit(self.columns_.transform(table) @ self.theta_[1:] + self.theta_[0])
        return np.column_stack([1 - q, q])


class ForwardTrees:
    """Boosted trees of Df under the corrected loss: the mean of five, as ``Boosts`` is.

    LightGBM with the settings of ``Boosts``, because scikit-learn's boosting takes no loss; the
    rows that each of the five leaves out end its rounds.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def fit(self, table: Any, d: Codes, b0: Floats, b1: Floats) -> ForwardTrees:
        self.levels_ = {
            name: table[name].astype("category").cat.categories
            for name in table.select_dtypes(exclude="number")
        }
        coded = self._coded(table)
        self.boosters_ = [
            _boosted(coded, (rows, rest), (d, b0, b1), self.seed)
            for rows, rest in parts(table, d, self.seed)
        ]
        return self

    def _coded(self, table: Any) -> Any:
        import pandas as pd

        levels = {n: pd.Categorical(table[n], categories=c) for n, c in self.levels_.items()}
        return table.assign(**levels)

    def predict_proba(self, table: Any) -> Floats:
        coded = self._coded(table)
        scores = [expit(b.predict(coded, raw_score=True) + z) for b, z in self.boosters_]
        q = np.mean(scores, axis=0)
        return np.column_stack([1 - q, q])


def _boosted(
    coded: Any,
    split: tuple[Any, Any],
    labels: tuple[Codes, Floats, Floats],
    seed: int,
) -> tuple[Any, float]:
    """One booster and the log odds that it starts from."""
    import lightgbm as lgb

    d, b0, b1 = labels
    start = float(logit(np.clip((d - b0).mean() / (b1 - b0).mean(), 0.05, 0.95)))
    noise = [tuple(part[rows] for part in labels) for rows in split]
    sets = [lgb.Dataset(coded.iloc[rows], d[rows], free_raw_data=False) for rows in split]
    small = len(split[0]) < 1000

    def objective(z: Floats, data: Any) -> tuple[Floats, Floats]:
        _, slope, curve = forward_slope(z + start, *noise[0])
        return slope, np.maximum(curve, 1e-3)

    def loss(z: Floats, data: Any) -> tuple[str, float, bool]:
        at = 0 if data is sets[0] else 1
        return "loss", float(forward_slope(z + start, *noise[at])[0].mean()), False

    settings = {
        "objective": objective,
        "metric": "none",
        "learning_rate": 0.08,
        "num_leaves": 12,
        "min_data_in_leaf": 10 if small else 40,
        "lambda_l2": 5.0,
        "feature_fraction_bynode": 0.5,
        "num_threads": 1,
        "seed": seed,
        "verbose": -1,
    }
    stop = lgb.early_stopping(8, verbose=False)
    model = lgb.train(settings, sets[0], 200, valid_sets=[sets[1]], feval=loss, callbacks=[stop])
    return model, start


def flipped(make: Make) -> Method:
    """A learner of labels that were flipped until groups have the same rate of D = 1."""

    def fit(train: Rows, seed: int) -> FittedMethod:
        margins = ensemble_margins(train, seed)
        labels = flip_labels(train.d, train.s, margins)
        return FittedMethod(scored(make(seed).fit(with_group(train), labels)))

    return fit


N_TREES = 10


def ensemble_margins(rows: Rows, seed: int) -> Floats:
    """Share of trees that vote for a row's label less share against it; the trees do not see S.

    Ten trees, each on half of the rows drawn with replacement, as in Fair-OBNC.
    """
    bag = BaggingClassifier(
        DecisionTreeClassifier(), n_estimators=N_TREES, max_samples=0.5, random_state=seed
    )
    table = rows.x.to_pandas()
    pipeline = on_indicators(bag).fit(table, rows.d)
    x = pipeline[0].transform(table)
    votes = np.mean([tree.predict(x) for tree in pipeline[1].estimators_], axis=0)
    return np.asarray((2 * votes - 1) * (2 * rows.d - 1), np.float64)


def flip_labels(d: Codes, s: npt.NDArray[np.str_], margins: Floats) -> Codes:
    """Flip labels that the ensemble votes against, surest first, if that evens the groups' rates.

    Each group moves towards the rate of all rows and stops there. A label with a margin above 0
    stays, so that rates may stay apart. There is no cap on the share of flipped labels (the
    published default is a tenth), because the mechanisms here turn up to a third of them.
    """
    labels, rate = d.copy(), d.mean()
    for group in GROUPS:
        here = np.flatnonzero(s == group)
        lacking = round(float(rate * len(here) - d[here].sum()))
        turned = 0 if lacking > 0 else 1
        open_ = here[(d[here] == turned) & (margins[here] <= 0)]
        order = open_[np.argsort(margins[open_], kind="stable")]
        labels[order[: abs(lacking)]] = 1 - turned
    return labels


class ByPlace:
    """A learner whose X is the numbers of rows of a table, because fairlearn takes only numbers."""

    def __init__(self, read: Callable[[Any], Any], make: Callable[[], Any]) -> None:
        # Functions, which copies share: fairlearn copies its estimator for every fit.
        self.read, self.make = read, make

    def fit(self, places: Any, label: Any, sample_weight: Any = None) -> ByPlace:
        table = self.read(np.ravel(places))
        self.model = fit_weighted(self.make(), table, np.asarray(label), np.asarray(sample_weight))
        return self

    def predict(self, places: Any) -> Any:
        return (self.model.predict_proba(self.read(np.ravel(places)))[:, 1] > 0.5).astype(np.int64)


def _by_place(make: Make, train: Rows, seed: int) -> tuple[ByPlace, Any]:
    table = with_group(train)
    learner = ByPlace(lambda places: table.iloc[places], lambda: single(make)(seed))
    return learner, np.arange(len(train)).reshape(-1, 1)


def _scores_of(predictor: Any, test: Rows) -> Floats:
    """Of a learner by place; fairlearn puts a constant where all labels of a fit are equal."""
    if isinstance(predictor, ByPlace):
        return np.asarray(predictor.model.predict_proba(with_group(test))[:, 1], np.float64)
    return np.asarray(predictor.predict(np.zeros((len(test), 1))), np.float64)


def reductions(make: Make) -> Method:
    """fairlearn's ExponentiatedGradient under demographic parity; its random rule is averaged."""

    def fit(train: Rows, seed: int) -> FittedMethod:
        from fairlearn.reductions import DemographicParity, ExponentiatedGradient

        learner, places = _by_place(make, train, seed)
        rule = ExponentiatedGradient(learner, DemographicParity())
        rule.fit(places, train.d, sensitive_features=train.s)
        used = [(rule.predictors_[i], w) for i, w in rule.weights_.items() if w > 0]

        def decide(test: Rows) -> Decided:
            return Decided(None, sum(w * (_scores_of(h, test) > 0.5) for h, w in used))

        return FittedMethod(decide)

    return fit


def grid(make: Make) -> Method:
    """fairlearn's GridSearch under demographic parity, ten points, its own choice among them."""

    def fit(train: Rows, seed: int) -> FittedMethod:
        from fairlearn.reductions import DemographicParity, GridSearch

        learner, places = _by_place(make, train, seed)
        search = GridSearch(learner, DemographicParity())
        search.fit(places, train.d, sensitive_features=train.s)
        chosen = search.predictors_[search.best_idx_]
        return FittedMethod(lambda test: Decided.by_half(_scores_of(chosen, test)))

    return fit


RIVALS: dict[str, Method] = {
    "reduction-boost": reductions(Boosts),
    "grid-lr": grid(logistic),
    "grid-boost": grid(Boosts),
    "reweighing-lr": reweighing(logistic),
    "reweighing-boost": reweighing(Boosts),
    "confident-lr": confident(logistic, by_group=False),
    "confident-boost": confident(Boosts, by_group=False),
    "confident-group-lr": confident(logistic, by_group=True),
    "confident-group-boost": confident(Boosts, by_group=True),
    "forward-lr": forward(logistic, known=False),
    "forward-boost": forward(Boosts, known=False),
    "oracle-lr": forward(logistic, known=True),
    "oracle-boost": forward(Boosts, known=True),
    "flip-lr": flipped(logistic),
    "flip-boost": flipped(Boosts),
}
