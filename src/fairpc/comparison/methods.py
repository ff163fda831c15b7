"""The methods that are compared: those given, or the paper's and every baseline there is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from fairpc.baselines import LR, FairLR, Rand, Reduction, Reweight
from fairpc.errors import ComparisonError
from fairpc.estimators import FairPC, LatNB, NLatPC, TwoNB


def default_models(random_state: int = 0) -> dict[str, Any]:
    """The paper's four distributions and the baselines; fairlearn's where it is installed."""
    circuits = {
        "FairPC": FairPC(random_state=random_state),
        "NLatPC": NLatPC(random_state=random_state),
        "LatNB": LatNB(random_state=random_state),
        "TwoNB": TwoNB(random_state=random_state),
    }
    return circuits | default_baselines(random_state)


def default_baselines(random_state: int = 0) -> dict[str, Any]:
    """LR, Rand, FairLR, Reweight; Reduction where fairlearn is installed."""
    found: dict[str, Any] = {
        "LR": LR(),
        "Rand": Rand(random_state=random_state),
        "FairLR": FairLR(),
        "Reweight": Reweight(),
    }
    if find_spec("fairlearn") is not None:
        found["Reduction"] = Reduction()
    return found


def named_methods(
    models: Mapping[str, Any] | Sequence[Any] | None, random_state: int
) -> dict[str, Any]:
    """Estimators by name; of several of one class the later ones are numbered."""
    if models is None:
        return default_models(random_state)
    if isinstance(models, Mapping):
        named = {str(name): model for name, model in models.items()}
    elif hasattr(models, "fit"):
        named = {type(models).__name__: models}
    elif not isinstance(models, Iterable):
        raise ComparisonError(f"models is {models!r}: give classifiers, by name or in a list")
    else:
        named = {}
        for model in models:
            name = type(model).__name__
            count = sum(other.split(" ")[0] == name for other in named)
            named[f"{name} {count + 1}" if count else name] = model
    for name, model in named.items():
        if not hasattr(model, "fit") or not hasattr(model, "predict_proba"):
            raise ComparisonError(
                f"model {name!r} is a {type(model).__name__}: give classifiers with fit and "
                "predict_proba"
            )
    if not named:
        raise ComparisonError("no models were given: give at least one, or None for the defaults")
    return named
