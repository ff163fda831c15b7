"""Strata of a fitted model on the command line: what was learned within them, and what is printed.

Df is independent of S within strata. In the whole table the rates of the groups may differ, by
their mix of strata alone; both are shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fairpc.cli._screen import grid, say

if TYPE_CHECKING:
    from fairpc.models import FittedModel

Facts = dict[str, Any]

MAX_SHARES: Final = 4
"""Groups up to which the table of strata has a column for each."""


def strata_facts(model: FittedModel) -> Facts | None:
    """Within what Df is independent of S, and its rates there and by group; None without strata."""
    strata = model._fitted_strata()
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
    own = model.stratum_mechanism_
    within = [
        {
            "stratum": model.strata_[a],
            "group": groups[s],
            "decision": classes[f],
            "label": classes[d],
            "probability": float(own[s, a, f, d]),
        }
        for a, s, f, d in np.ndindex(own.shape[1], own.shape[0], *own.shape[2:])
    ]
    features = model.coding_.features.names
    return {
        "columns": [features[j] for j in strata.columns],
        "mechanism": model.mechanism,
        "strata": each,
        "group_decision_rate": by_group,
        "stratum_mechanism": within if model.mechanism == "within" else [],
    }


def alike(strata: Mapping[str, Any]) -> str:
    """Of which strata a mechanism is."""
    return ", the mean over strata" if strata["mechanism"] == "within" else ", in all strata alike"


def show_strata(strata: Mapping[str, Any], positive: str) -> None:
    """Print P(Df | stratum), and what the mix of strata makes of it in each group."""
    names, each = " × ".join(map(repr, strata["columns"])), strata["strata"]
    say(
        f"Strata by {names}: within each of {len(each)}, Df is independent of S under the model.\n"
        "In the whole table it need not be: the rates of the groups differ by their mix of strata "
        "alone.\n"
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
