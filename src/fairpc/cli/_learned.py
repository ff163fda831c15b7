"""What was read and what was learned by a fit: as plain data, and as lines on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fairpc.cli._options import THRESHOLD
from fairpc.cli._screen import grid, say
from fairpc.core import Floats, counted

if TYPE_CHECKING:
    from fairpc.cli._labelled import LabelledTable
    from fairpc.data import Encoding, TableCoding
    from fairpc.models import FittedModel

Facts = dict[str, Any]

FROM_SCORES: Final = "LatentDecision"
DECIDING: Final = ("FairPC", "LatNB", FROM_SCORES)
"""Models with a latent fair decision."""
WORDS: Final = {"hgb": "gradient boosting", "logistic": "logistic regression", "forest": "a forest"}
"""What classifiers are called."""
RATES_ALIKE: Final = 0.01
"""A difference of rates that is not spoken of."""
MAX_SENTENCES: Final = 8
"""Where groups or classes are many, the table says it better than as many sentences."""
MAX_SHARES: Final = 4
"""Groups up to which the table of strata has a column for each."""


def facts(model: FittedModel, rows: LabelledTable, seconds: float) -> Facts:
    """What was read and what was learned, as plain data."""
    features = model.coding_.features
    if type(model).__name__ == FROM_SCORES:
        features = model.estimators_[0][0].encoding_
    return {
        "model": type(model).__name__,
        **read_facts(model.coding_, rows, features),
        "learned": _learned(model),
        "thresholds": _thresholds(model),
        **_how(model),
        "hints": list(rows.hints),
        "warnings": list(model.warnings_),
        "seconds": seconds,
    }


def _thresholds(model: FittedModel) -> dict[str, float]:
    """The score of each group above which the decision is positive; none of many classes."""
    if len(model.classes_) > 2:
        return {}
    values = np.broadcast_to(model.threshold_.values, len(model.groups_)).tolist()
    return dict(zip(model.coding_.group_names, values, strict=True))


def read_facts(coding: TableCoding, rows: LabelledTable, features: Encoding) -> Facts:
    """What was read, as plain data."""
    *counts, missing = rows.label_counts(coding.labels)
    return {
        "table": rows.source,
        "rows": rows.height,
        "columns": _columns(coding, features, rows),
        "label": {
            "column": coding.labels.name,
            "classes": [str(c) for c in coding.labels.classes],
            "counts": counts,
            "missing": missing,
            "positive": str(coding.labels.classes[coding.labels.positive]),
            "positive_chosen": rows.roles.positive is not None,
        },
        "groups": {
            "columns": list(coding.groups.column_names),
            "rows": dict(zip(coding.group_names, coding.groups.rows, strict=True)),
            "missing": rows.height - sum(coding.groups.rows),
            "small": [name for name, _ in coding.small_groups()],
        },
        "weight": rows.weight,
    }


def _how(model: FittedModel) -> Facts:
    """How the model was learned."""
    if type(model).__name__ == FROM_SCORES:
        classifier = model.estimators_[0][0].kind
        twice = model.second_round_ is not None
        return {"classifier": classifier, "folds": len(model.estimators_), "twice": twice}
    return {
        "log_likelihood_per_row": model.log_likelihood_,
        "iterations": int(model.n_iter_),
        "converged": bool(model.converged_),
    }


def _columns(coding: TableCoding, features: Encoding, rows: LabelledTable) -> list[Facts]:
    """What encoding did, a record per column of the table."""
    records = {record["column"]: dict(record) for record in features.describe()}

    def add(name: str, kind: str | None, values: list[str], missing: Any, done: str) -> None:
        record = {"column": name, "used": kind is not None, "kind": kind, "values": values}
        records[name] = records.get(name, {}) | record | {"missing": missing, "done": done}

    for column in coding.groups.columns:
        done = "sensitive attribute, " + column.done
        add(column.name, "sensitive", list(column.labels), column.missing_share, done)
    label, classes = coding.labels.column, [str(c) for c in coding.labels.classes]
    add(coding.labels.name, "label", classes, label.missing_share, label.done)
    if rows.weight is not None:
        add(rows.weight, "weight", [], None, "weight of the rows")
    for name in rows.roles.drop:
        add(name, None, [], None, "dropped: left out on request")
    return list(records.values())


def _learned(model: FittedModel) -> Facts:
    """The rates and the mechanism of a fitted model."""
    account = model.explain_bias()
    latent = type(model).__name__ in DECIDING
    mechanism = _cells(account.mechanism, account.classes, group=account.groups)
    _add("estimated_labels", account.counts, mechanism)
    if account.ranges is not None and account.count_ranges is not None:
        for end, name in enumerate(("lower", "upper")):
            _add(name, account.ranges[..., end], mechanism)
            _add(f"estimated_labels_{name}", account.count_ranges[..., end], mechanism)
    return {
        "decision": "Df" if latent else "D",
        "decision_rate": dict(zip(account.classes, map(float, model.fair_rate_), strict=True)),
        "delta": float(model.delta),
        "decision_rates": {
            group: dict(zip(account.classes, rates, strict=True))
            for group, rates in zip(account.groups, model.fair_rates_.tolist(), strict=True)
        },
        "positive_rate_set": _rate_set(model) if latent else None,
        "group_rate": dict(zip(account.groups, map(float, model.group_rate_), strict=True)),
        "mechanism": mechanism if latent else [],
        "contradiction": account.contradiction,
        "no_difference": account.no_difference if latent else "",
        "sentences": list(account.sentences) if latent and not model.warnings_ else [],
        "strata": strata_facts(model),
    }


def _add(name: str, values: Floats, cells: list[Facts]) -> None:
    for cell, value in zip(cells, values.ravel().tolist(), strict=True):
        cell[name] = value


def _rate_set(model: FittedModel) -> Facts | None:
    """Confidence set of the fair rate; None where no range was looked for, or none is left."""
    from fairpc.evidence import LEVEL

    bounds = model.label_ends_
    if bounds is None:
        return None
    lower, upper = bounds.rate_set(LEVEL, model.subgroup_rate_)
    return {"lower": lower, "upper": upper, "level": LEVEL} if lower <= upper else None


def _cells(mechanism: Floats, classes: Sequence[str], **of: Sequence[str]) -> list[Facts]:
    """A record per cell of a mechanism, whose last axes are decision and label."""
    names = of | {"decision": classes, "label": classes}
    return [
        {name: values[i] for (name, values), i in zip(names.items(), at, strict=True)}
        | {"probability": float(mechanism[at])}
        for at in np.ndindex(mechanism.shape)
    ]


def show_read(facts: Mapping[str, Any]) -> None:
    """Print what was read: the columns, the label and the groups."""
    columns, label, groups = facts["columns"], facts["label"], facts["groups"]
    size = f"{counted(facts['rows'], 'row')}, {counted(len(columns), 'column')}"
    say(f"{facts['table']}: {size}\n", "bold")
    grid(("column", "what was done"), [(c["column"], c["done"]) for c in columns], right=False)
    classes = zip(label["classes"], label["counts"], strict=True)
    say(f"Label {label['column']!r}: {_sizes(classes, label['missing'])}")
    why = "as asked" if label["positive_chosen"] else "the last one; choose with --positive"
    say(f"Positive class: {label['positive']} ({why})", "bold")
    names = " × ".join(map(repr, groups["columns"]))
    say(f"Groups by {names}: {_sizes(groups['rows'].items(), groups['missing'])}")
    if groups["small"]:
        say(f"Few rows, read with care: {', '.join(groups['small'])}")
    for hint in facts["hints"]:
        say(f"Hint: {hint}")
    say()


def _sizes(sizes: Iterable[tuple[str, int]], missing: int) -> str:
    """Rows of each class or group, and those without one, which are kept and summed over."""
    unknown = f"; not known in {counted(missing, 'row')}" if missing else ""
    return ", ".join(f"{name} ({n:,})" for name, n in sizes) + unknown


def show_learned(learned: Mapping[str, Any]) -> None:
    """Print the rates and the mechanism: what labels leave possible, then the point."""
    model, facts = learned["model"], learned["learned"]
    say(f"{model} in {learned['seconds']:.1f} s: {_how_learned(learned)}", "bold")
    positive, strata = learned["label"]["positive"], facts["strata"]
    _show_rate(model, facts, positive)
    if strata is not None:
        show_strata(strata, positive)
    say()
    cells, classes = facts["mechanism"], learned["label"]["classes"]
    if not cells:
        return
    if facts["contradiction"]:
        say(f"Nothing is said about altered labels. {facts['contradiction']}")
    elif "lower" in cells[0]:
        if facts["no_difference"]:
            say(facts["no_difference"])
        _show_ranges(cells, strata)
    else:
        _show_points(facts, classes)
    if strata is not None and strata["stratum_mechanism"] and not facts["contradiction"]:
        say("In each stratum, P(D | Df, S, stratum):\n")
        _show_mechanism(strata["stratum_mechanism"], classes, ("stratum", "group"))
    _show_thresholds(learned["thresholds"], learned.get("selection_rates", {}), positive)
    _show_assumptions(strata, facts["delta"])


def _show_rate(model: str, facts: Mapping[str, Any], positive: str) -> None:
    """Print the fair rate: its range, where one is known, and the point."""
    tied = ", the same in every group under the model" if model != "TwoNB" else ""
    if facts["strata"] is not None or facts["delta"]:
        tied = " in the whole table"
    say(f"P({facts['decision']} = {positive}) = {facts['decision_rate'][positive]:.3f}{tied}")
    if facts["delta"]:
        each = (f"{rates[positive]:.3f} in {g}" for g, rates in facts["decision_rates"].items())
        where = "" if facts["strata"] is None else ", within strata"
        say(f"By group: {', '.join(each)}; they may differ by {facts['delta']:.3g}{where}.")
    possible = facts["positive_rate_set"]
    if possible is not None and not facts["contradiction"]:
        say(
            f"Held-out labels leave {possible['lower']:.3f} to {possible['upper']:.3f} possible "
            f"({possible['level']:.0%} confidence); the point is a convention."
        )


def _show_ranges(cells: Sequence[Mapping[str, Any]], strata: Mapping[str, Any] | None) -> None:
    """Print a row per group and decision: how often another label was recorded."""
    where, point = "", "the point is a convention"
    if strata is not None and strata["mechanism"] == "within":
        where, point = " in any stratum", f"{point}, here the mean over strata"
    elif strata is not None:
        where = ", in all strata alike"
    lines = [
        (
            cell["group"],
            cell["decision"],
            cell["label"],
            _between(cell["lower"], cell["upper"], ".1%"),
            _between(cell["estimated_labels_lower"], cell["estimated_labels_upper"], ",.0f"),
            f"{cell['probability']:.1%}",
        )
        for cell in cells
        if cell["label"] != cell["decision"]
    ]
    say(f"How often the recorded label is not the fair decision{where} (95% confidence):\n")
    heads = "group", "fair decision", "recorded", "share", "labels", "point"
    grid(heads, lines)
    say(f"The range is what the labels leave possible; {point}.")


def _between(low: float, high: float, digits: str) -> str:
    """A range of shares or of labels, whole where its ends print alike."""
    ends = format(low, digits), format(high, digits)
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def _show_points(facts: Mapping[str, Any], classes: Sequence[str]) -> None:
    """Print the mechanism of a model whose ranges are not known."""
    which, strata = "", facts["strata"]
    if strata is not None:
        own = strata["mechanism"] == "within"
        which = ", the mean over strata" if own else ", in all strata alike"
    say(f"How labels depend on the fair decision Df and the group, P(D | Df, S){which}:\n")
    _show_mechanism(facts["mechanism"], classes, ("group",))
    if len(facts["sentences"]) <= MAX_SENTENCES:
        for sentence in facts["sentences"]:
            say(sentence)


def _show_assumptions(strata: Mapping[str, Any] | None, delta: float) -> None:
    within, through = "", "Df and S"
    independent = "Df does not depend on S"
    if delta:
        independent = f"rates of Df differ by at most {delta:.3g} between groups"
    if strata is not None:
        within = " within strata"
        through = "Df, S and the stratum" if strata["mechanism"] == "within" else through
    say(
        f"\nThis is what the model learned under its assumptions: {independent}"
        f"{within}, and D depends on the features only through {through}.\nThe data may "
        "contradict them: `fairpc audit` looks closer."
    )


def _show_thresholds(
    thresholds: Mapping[str, float], rates: Mapping[str, float], positive: str
) -> None:
    """Print what the decision takes, where that is not the usual, and whom it favours."""
    different = dict.fromkeys(thresholds.values())
    if len(different) > 1:
        each = ", ".join(f"{value:.3f} for {group}" for group, value in thresholds.items())
        say(f"\nThe decision is {positive} above these scores: {each}.")
    elif different and THRESHOLD not in different:
        say(f"\nThe decision is {positive} above a score of {next(iter(different)):.3f}.")
    if rates:
        each = ", ".join(f"{rate:.1%} of {group}" for group, rate in rates.items())
        why = ""
        if max(rates.values()) - min(rates.values()) > RATES_ALIKE:
            why = " They are not equal, because many rows have the same score."
        say(f"In this table it is {positive} for {each}.{why}")


def _show_mechanism(
    cells: Sequence[Mapping[str, Any]], classes: Sequence[str], named: Sequence[str]
) -> None:
    """Print a row per group and decision, a column per label."""
    rows = [cells[i : i + len(classes)] for i in range(0, len(cells), len(classes))]
    lines = [
        (
            *(row[0][name] for name in (*named, "decision")),
            *(f"{c['probability']:.3f}" for c in row),
        )
        for row in rows
    ]
    grid((*named, "Df", *(f"D = {c}" for c in classes)), lines)


def _how_learned(facts: Mapping[str, Any]) -> str:
    if "classifier" in facts:
        twice = ", then Df behind the labels" if facts["twice"] else ""
        return f"{WORDS[facts['classifier']]}, {counted(facts['folds'], 'fold')}{twice}"
    end = "" if facts["converged"] else "; it stopped at the limit before it converged"
    steps = counted(facts["iterations"], "iteration")
    return f"{steps} of EM{end}; log-likelihood per row {facts['log_likelihood_per_row']:.4f}"


def strata_facts(model: FittedModel) -> Facts | None:
    """Within what Df is independent of S, and its rates there and by group; None without strata."""
    strata = model._fair().strata
    if not strata:
        return None
    groups = model.coding_.group_names
    classes = [str(c) for c in model.classes_]
    shares = model.subgroup_rate_ / model.subgroup_rate_.sum(axis=1, keepdims=True)

    def rates(of: Any) -> Facts:
        return dict(zip(classes, map(float, of), strict=True))

    each = [
        {
            "stratum": name,
            "decision_rate": rates(model.stratum_rate_[a]),
            "share_of_group": dict(zip(groups, map(float, shares[:, a]), strict=True)),
        }
        for a, name in enumerate(model.strata_)
    ]
    by_group = {g: rates(model.group_decision_rate_[s]) for s, g in enumerate(groups)}
    within = model.stratum_mechanism_.swapaxes(0, 1)
    features = model.coding_.features.names
    return {
        "delta": strata.delta,
        "columns": [features[j] for j in strata.columns],
        "mechanism": model.mechanism,
        "strata": each,
        "group_decision_rate": by_group,
        "stratum_mechanism": _cells(within, classes, stratum=model.strata_, group=groups)
        if model.mechanism == "within"
        else [],
    }


def show_strata(strata: Mapping[str, Any], positive: str) -> None:
    """Print P(Df | stratum), and what the mix of strata makes of it in each group."""
    names, each = " × ".join(map(repr, strata["columns"])), strata["strata"]
    if strata["delta"]:
        say(f"Strata by {names}: within each of {len(each)}, rates of groups are kept near.\n")
    else:
        say(
            f"Strata by {names}: within each of {len(each)}, Df is independent of S under the "
            "model.\nIn the whole table it need not be: the rates of the groups differ by their "
            "mix of strata alone.\n"
        )
    groups = strata["group_decision_rate"]
    shown = list(groups) if len(groups) <= MAX_SHARES else []
    lines = [
        (
            stratum["stratum"],
            f"{stratum['decision_rate'][positive]:.3f}",
            *(f"{stratum['share_of_group'][group]:.3f}" for group in shown),
        )
        for stratum in each
    ]
    heads = (f"share of {group}" for group in shown)
    grid(("stratum", f"P(Df = {positive} | stratum)", *heads), lines)
    rates = [(group, f"{rate[positive]:.3f}") for group, rate in groups.items()]
    grid(("group", f"P(Df = {positive} | group)"), rates)
