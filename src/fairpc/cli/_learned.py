"""What was read and what was learned by a fit: as plain data, and as lines on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import fairpc.cli._options as opt
from fairpc import data, models
from fairpc.cli._screen import Tone, grid, headline, say
from fairpc.core import Array, counted, ranged

if TYPE_CHECKING:
    from fairpc.cli._labelled import LabelledTable

Facts = dict[str, Any]

FROM_SCORES: Final = "LatentDecision"
DECIDING: Final = ("FairPC", "LatNB", FROM_SCORES)
"""Models with a latent fair decision."""
RATES_ALIKE: Final = 0.01
"""A difference of rates that is not spoken of."""
MAX_LINES: Final = 8
"""Groups that have a line each; of more, --json has all."""
SEEN: Final = 0.005
"""A share that rounds to one of a hundred."""
WHO: Final = ("deserved", "did not deserve")
SURE: Final = "95% confidence, if the assumptions hold"
ASSUMED: Final = (
    "The ranges need labels that depend on the features only through the fair decision; where some "
    "kinds of cases are recorded wrongly more often, only a review (`fairpc review`) shows it."
)
POINTS: Final = "Points are chosen by a rule, not found."


def facts(
    model: models.FittedModel,
    rows: LabelledTable,
    seconds: float,
    names: data.GivenNames | None = None,
) -> Facts:
    """What was read and what was learned, as plain data; classes and groups under these names."""
    coding = model.coding_
    classes, groups = called = coding.called(coding.names_of(names))
    few = dict(coding.small_groups())
    if type(model).__name__ == FROM_SCORES:
        first, twice = model.estimators_[0], model.second_round_ is not None
        features, folds = first.encoding_, len(model.estimators_)
        how: Facts = {"classifier": first.kind, "folds": folds, "twice": twice}
    else:
        features = coding.features
        how = {
            "log_likelihood_per_row": model.log_likelihood_,
            "iterations": int(model.n_iter_),
            "converged": bool(model.converged_),
        }
    thresholds: dict[str, float] = {}
    if len(model.classes_) == 2:  # the score of each group above which the decision is positive
        values = np.broadcast_to(model.threshold_.values, len(model.groups_)).tolist()
        thresholds = dict(zip(groups, values, strict=True))
    *counts, missing = rows.label_counts(coding.labels)
    return {
        "model": type(model).__name__,
        "table": rows.source,
        "rows": rows.height,
        "columns": _columns(coding, features, rows),
        "label": {
            "column": coding.labels.name,
            "classes": list(classes),
            "counts": counts,
            "missing": missing,
            "positive": classes[coding.labels.positive],
        },
        "groups": {
            "columns": list(coding.groups.column_names),
            "rows": dict(zip(groups, coding.groups.rows, strict=True)),
            "missing": rows.height - sum(coding.groups.rows),
            "small": [g for g, own in zip(groups, coding.group_names, strict=True) if own in few],
        },
        "weight": rows.weight,
        "learned": _learned(model, *called),
        "thresholds": thresholds,
        **how,
        "hints": list(rows.hints),
        "warnings": list(model.warnings_),
        "seconds": seconds,
    }


def _columns(coding: data.TableCoding, features: data.Encoding, rows: LabelledTable) -> list[Facts]:
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


def _learned(model: models.FittedModel, classes: tuple[str, ...], groups: tuple[str, ...]) -> Facts:
    """The rates and the mechanism of a fitted model."""
    account = replace(model.explain_bias(), classes=classes, groups=groups)
    latent = type(model).__name__ in DECIDING
    values: dict[str, Array] = {
        "probability": account.mechanism,
        "estimated_labels": account.counts,
    }
    if account.ranges is not None and account.count_ranges is not None:
        for end, name in enumerate(("lower", "upper")):
            values[name] = account.ranges[..., end]
            values[f"estimated_labels_{name}"] = account.count_ranges[..., end]
    if account.without_prior is not None:
        mostly = np.broadcast_to(account.mostly_prior[..., None], account.mechanism.shape)
        values |= {"without_prior": account.without_prior, "mostly_prior": mostly}
    mechanism = _cells(values, account.classes, group=account.groups)
    rate_set = None
    if account.rate_range is not None:
        lower, upper = account.rate_range
        rate_set = {"lower": lower, "upper": upper, "level": account.level}
    return {
        "decision": "Df" if latent else "D",
        "decision_rate": dict(zip(account.classes, map(float, model.fair_rate_), strict=True)),
        "delta": float(model.delta),
        "decision_rates": {
            group: dict(zip(account.classes, rates, strict=True))
            for group, rates in zip(account.groups, model.fair_rates_.tolist(), strict=True)
        },
        "positive_rate_set": rate_set,
        "group_rate": dict(zip(account.groups, map(float, model.group_rate_), strict=True)),
        "mechanism": mechanism if latent else [],
        "prior_rows": account.prior_rows,
        "contradiction": account.contradiction,
        "withheld": account.withheld,
        "outside": account.outside,
        "no_difference": account.no_difference if latent else "",
        "sentences": list(account.sentences) if latent and not model.warnings_ else [],
        "strata": _strata(model, classes, groups),
    }


def _cells(values: Mapping[str, Array], classes: Sequence[str], **of: Sequence[str]) -> list[Facts]:
    """A record per cell of arrays, whose last axes are decision and label."""
    names = of | {"decision": classes, "label": classes}
    return [
        {name: words[i] for (name, words), i in zip(names.items(), at, strict=True)}
        | {name: each[at].item() for name, each in values.items()}
        for at in np.ndindex(values["probability"].shape)
    ]


def _strata(
    model: models.FittedModel, classes: tuple[str, ...], groups: tuple[str, ...]
) -> Facts | None:
    """Within what groups have the same fair rate, and these rates; None without strata."""
    strata = model._fair().strata
    if not strata:
        return None
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
        "strata": each,
        "group_decision_rate": by_group,
        "stratum_mechanism": _cells(
            {"probability": within}, classes, stratum=model.strata_, group=groups
        ),
    }


def show_learned(learned: Mapping[str, Any]) -> None:
    """Print what was found, a line per group, and what was read."""
    label, groups = learned["label"], learned["groups"]
    (tone, verdict), lines = verdict_of(learned)
    headline(verdict, tone)
    for line in lines:
        say(f"  {line}")
    classes = zip(label["classes"], label["counts"], strict=True)
    say(
        f"Read {counted(learned['rows'], 'row')} of {learned['table']}; {label['column']!r}: "
        f"{_sizes(classes, label['missing'])}; favourable: {label['positive']!r}"
    )
    by = " × ".join(map(repr, groups["columns"]))
    say(f"Groups by {by}: {_sizes(groups['rows'].items(), groups['missing'])}")
    if groups["small"]:
        say(f"Few rows, read with care: {', '.join(groups['small'])}")
    for hint in learned["hints"]:
        say(f"Hint: {hint}")
    _show_thresholds(learned["thresholds"], learned.get("selection_rates", {}), label["positive"])


def verdict_of(learned: Mapping[str, Any]) -> tuple[tuple[Tone, str], list[str]]:
    """The finding in a sentence, and a line per group and the fair rate, or what does not fit."""
    found = learned["learned"]
    lines = [sentence for sentence in learned["warnings"] if sentence not in found["withheld"]]
    if not (found["withheld"] or lines):
        lines = [*_group_lines(learned), _fair_rate(learned)]
        if found["decision"] == "Df" and "lower" in found["mechanism"][0]:
            lines.append(f"{ASSUMED} {models.OUTSIDE if found['outside'] else POINTS}")
    return _verdict(learned), lines


def _verdict(learned: Mapping[str, Any]) -> tuple[Tone, str]:
    """The finding in a sentence, and whether it is good news."""
    found = learned["learned"]
    if found["decision"] == "D":
        return "plain", f"{learned['model']} has no fair decision: it describes recorded labels."
    if found["withheld"]:
        return "bad", f"Nothing is said about altered labels. {found['withheld']}"
    if learned["warnings"]:
        return "warn", "The fit check failed: nothing is said about altered labels."
    if found["no_difference"]:
        return "good", found["no_difference"]
    if "lower" not in found["mechanism"][0]:
        said, how = "A point for each rate, without a range", "`fairpc audit` says how sure it is"
        labelled = {cell["group"] for cell in found["mechanism"] if cell["estimated_labels"]}
        if bare := [repr(name) for name in learned["groups"]["rows"] if name not in labelled]:
            how = f"hardly any label is known of {', '.join(bare)}, and a range needs some of each"
        return "plain", f"{said}: {how}."
    positive = learned["label"]["positive"]
    for cells, who in zip(_off_diagonal(learned), WHO, strict=True):
        if differ := models.apart([(cell["lower"], cell["upper"]) for cell in cells]):
            worst, best = (cells[s] for s in differ)
            return "warn", (
                f"The labels are biased ({SURE}): of those who {who} {positive}, more were "
                f"recorded {worst['label']} among {worst['group']} than among {best['group']}."
            )
    return "plain", f"{models.OVERLAP} ({SURE})."


def _off_diagonal(learned: Mapping[str, Any]) -> tuple[list[Facts], list[Facts]]:
    """Cells of two classes: the favourable decision recorded as the other; and the reverse."""
    positive = learned["label"]["positive"]
    cells = [c for c in learned["learned"]["mechanism"] if c["label"] != c["decision"]]
    return (
        [c for c in cells if c["decision"] == positive],
        [c for c in cells if c["decision"] != positive],
    )


def _group_lines(learned: Mapping[str, Any]) -> Iterator[str]:
    """How often the label of each group is not the fair decision: the range, and the point."""
    found = learned["learned"]
    cells = found["mechanism"]
    if len(learned["label"]["classes"]) > 2:
        for group in list(dict.fromkeys(cell["group"] for cell in cells))[:MAX_LINES]:
            own = [cell for cell in cells if cell["group"] == group]
            kept = sum(c["estimated_labels"] for c in own if c["label"] == c["decision"])
            share = kept / max(sum(c["estimated_labels"] for c in own), 1)
            yield f"{group}: {100 * share:.0f} of 100 labels are the fair decision"
        return
    positive = learned["label"]["positive"]
    pairs = list(zip(*_off_diagonal(learned), strict=True))
    for missed, granted in pairs[:MAX_LINES]:
        yield (
            f"{missed['group']}: of those who deserved {positive}, {_of_a_hundred(missed)} were "
            f"recorded {missed['label']}; of the others, {_of_a_hundred(granted)} were recorded "
            f"{granted['label']}{_convention(found['outside'], missed, granted)}"
        )
    if len(pairs) > MAX_LINES:
        yield f"… and {len(pairs) - MAX_LINES} more groups: see --json"


def _of_a_hundred(cell: Mapping[str, Any]) -> str:
    """A range of shares, or the point where there is none, as so many of a hundred."""
    if "lower" not in cell and cell.get("mostly_prior"):
        return "an unknown number (mostly prior)"
    low, high = (cell.get(end, cell["probability"]) for end in ("lower", "upper"))
    if high - low > models.ANYTHING_FROM:
        return "an unknown number (from none to all)"
    digits = 1 if SEEN / 10 < high < 2 * SEEN else 0
    return f"{ranged(100 * low, 100 * high, digits)} of 100"


def _convention(outside: bool, *cells: Mapping[str, Any]) -> str:
    """The point of each, where it stands in a range; and without its prior rows, if any."""
    if outside:
        return ""

    def points(of: str) -> str:
        each = ("none" if c.get("mostly_prior") else f"{100 * c[of]:.0f}" for c in cells)
        return " and ".join(each)

    named, said = "point" if len(cells) == 1 else "points", list[str]()
    if "lower" in cells[0]:
        said.append(f"{named}: {points('probability')}, by convention")
    if not all(cell.get("mostly_prior", True) for cell in cells):
        said.append(f"{points('without_prior')} without prior rows")
    return f" ({'; '.join(said)})" if said else ""


def _fair_rate(learned: Mapping[str, Any]) -> str:
    """The fair rate: its range, where one is known, and the point."""
    found, strata = learned["learned"], learned["learned"]["strata"]
    positive, possible = learned["label"]["positive"], found["positive_rate_set"]
    rate = {"probability": found["decision_rate"][positive]}
    if possible is not None:
        rate |= {"lower": possible["lower"], "upper": possible["upper"]}
    what = "Fair rate" if found["decision"] == "Df" else "Rate"
    said = f"{what} of {positive}: {_of_a_hundred(rate)}{_convention(found['outside'], rate)}"
    if found["delta"]:
        rates = found["decision_rates"].items()
        each = ", ".join(f"{100 * of[positive]:.0f} in {group}" for group, of in rates)
        said += f"; by group {each}, which may differ by {100 * found['delta']:.3g} points"
    if strata is not None:
        by = " × ".join(map(repr, strata["columns"]))
        equal = "near each other" if strata["delta"] else "equal"
        return f"{said}, in the whole table; {equal} between groups within strata of {by} only"
    return said if found["delta"] or learned["model"] == "TwoNB" else f"{said}, in every group"


def _sizes(sizes: Iterable[tuple[str, int]], missing: int) -> str:
    """Rows of each class or group, and those without one, which are kept and marginalised."""
    unknown = f"; not known in {counted(missing, 'row')}" if missing else ""
    return ", ".join(f"{name} ({n:,})" for name, n in sizes) + unknown


def _show_thresholds(
    thresholds: Mapping[str, float], rates: Mapping[str, float], positive: str
) -> None:
    """Print what the decision takes, where that is not the usual, and whom it favours."""
    different = dict.fromkeys(thresholds.values())
    if len(different) > 1:
        each = ", ".join(f"{value:.3f} for {group}" for group, value in thresholds.items())
        say(f"The decision is {positive} above these scores: {each}.")
    elif different and opt.THRESHOLD not in different:
        say(f"The decision is {positive} above a score of {next(iter(different)):.3f}.")
    if rates:
        each = ", ".join(f"{rate:.1%} of {group}" for group, rate in rates.items())
        why = ""
        if max(rates.values()) - min(rates.values()) > RATES_ALIKE:
            why = " They are not equal, because many rows have the same score."
        say(f"In this table it is {positive} for {each}.{why}")


def show_columns(learned: Mapping[str, Any]) -> None:
    """Print how each column was read."""
    say()
    columns = [(c["column"], c["done"]) for c in learned["columns"]]
    grid(("column", "how it was read"), columns, right=False)
