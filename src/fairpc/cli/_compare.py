"""``fairpc compare``: the models beside other methods, by cross-validation on one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final

import fairpc.cli._options as opt
import fairpc.cli._tables as tables
from fairpc import data, models
from fairpc.cli._fit import estimator, refusing_copies
from fairpc.cli._labelled import labelled
from fairpc.cli._learned import FROM_SCORES
from fairpc.cli._screen import Screen, grid, print_json, say
from fairpc.core import FairpcError, counted

if TYPE_CHECKING:
    from fairpc.comparison import Comparison

DEFAULT: Final = ("FairPC", "TwoNB", "LR", "FairLR", "Reweight", "Boosting", "ReweighedBoosting")
_FAIR: Final = {
    "accuracy": "accuracy",
    "tpr_gap": "gap of true positive rates",
    "fpr_gap": "gap of false positive rates",
}
_SHOWN: Final = {
    "accuracy": "accuracy",
    "f1": "F1",
    "auc": "AUC",
    "log_likelihood": "log-likelihood",
    "discrimination": "gap of scores",
    "selection_gap": "gap of decisions",
    "fit_seconds": "seconds",
}


def compare(
    table: opt.Table,
    cv: Annotated[int, opt.option("N", "Folds of the cross-validation.", min=2, max=100)] = 10,
    methods: Annotated[
        list[str] | None,
        opt.option(
            "NAME",
            "FairPC, NLatPC, LatNB, TwoNB, LatentDecision, LR, FairLR, Reweight, Boosting, "
            "ReweighedBoosting, Reduction, ThresholdOptimizer, Rand. Default: "
            "FairPC, TwoNB, LR, FairLR, Reweight, Boosting, ReweighedBoosting.",
            "--method",
        ),
    ] = None,
    decision: Annotated[
        list[str] | None,
        opt.option(
            "COL",
            "A column of decisions that were made already, to compare with. It is "
            "not used as a feature.",
        ),
    ] = None,
    output: Annotated[str | None, opt.output("The numbers as a table file.")] = None,
    *,
    roles: opt.ColumnOptions,
    structure: opt.Structure = "auto",
    bins: opt.Bins = None,
    seed: opt.Seed = 0,
    text: opt.TextFormat,
    engine: opt.Engine,
    screen: Screen,
) -> None:
    """Compare models with other methods by cross-validation.

    Example: fairpc compare loans.csv --label approved --positive yes --sensitive sex --cv 5
    """
    from fairpc import comparison

    if output is not None:
        data.format_of(output)
        tables.check_output(output, table)
    names = methods or DEFAULT
    learner = opt.ModelOptions(structure=structure, n_bins=bins, random_state=seed)
    _estimators(names, learner, roles)  # a wrong name is refused before the table is read
    with tables.opened(table, text) as files, tables.about(files.source):
        rows = labelled(files, roles)
        made = [tables.column(rows.X.columns, n, "--decision", rows.source) for n in decision or ()]
        features = rows.X.drop(data.exactly(made))
        shown = screen.shows_progress
        with (
            refusing_copies(),
            tables.client_of(engine) as client,
            models.progress(shown) as step,
        ):
            scores = comparison.compare(
                _estimators(names, learner, rows.roles),
                features,
                rows.y,
                decisions={name: rows.X[name].to_numpy() for name in made},
                cv=cv,
                positive=rows.roles.positive,
                random_state=seed,
                client=client,
                progress=step,
            )
    if output is not None:
        data.write_table([scores.frame], scores.frame.schema, output)
    if screen.json:
        print_json(scores.to_dict() | {"table": rows.source, "output": output})
    elif screen.prints_text:
        size = f"{counted(scores.n_rows, 'row')}, {counted(scores.n_folds, 'fold')}"
        say(f"{rows.source}: {size}", "bold")
        show(scores)
        if output is not None:
            say(f"The numbers are in {output}.")


def _estimators(
    methods: Sequence[str], learner: opt.ModelOptions, roles: opt.ColumnOptions
) -> dict[str, Any]:
    """The methods by name, not yet fitted."""
    from fairpc.comparison import every_baseline

    baselines = every_baseline(learner.random_state)
    plain = replace(learner, structure="auto")
    learners = {
        "FairPC": learner,
        "NLatPC": learner,
        "LatNB": plain,
        "TwoNB": plain,
        FROM_SCORES: opt.ModelOptions(random_state=learner.random_state),
    }
    made: dict[str, Any] = {}
    for name in dict.fromkeys(methods):
        if name in learners:
            model = opt.LATENT if name == FROM_SCORES else name
            made[name] = estimator(replace(learners[name], model=model), roles, {})
        elif name in baselines:
            made[name] = baselines[name].set_params(sensitive=roles.sensitive)
        elif name in ("Reduction", "ThresholdOptimizer"):
            raise FairpcError(f"{name} needs fairlearn: pip install 'fairpc[baselines]'")
        else:
            known = ", ".join((*learners, *baselines))
            raise FairpcError(f"there is no method {name!r}: choose among {known}")
    return made


def show(comparison: Comparison) -> None:
    """Print the means over the folds, and ranges against the latent fair decision."""
    from fairpc.comparison import AGAINST_FAIR

    say(f"Positive class: {comparison.positive}\n")
    lines = [[row["method"], *(_cell(row, name) for name in _SHOWN)] for row in comparison.means()]
    grid(("method", *_SHOWN.values()), lines)
    say(comparison.caption)
    spread = "; ± is the standard deviation over folds" if comparison.n_folds > 1 else ""
    say(
        "Gaps are the largest differences between groups, of mean scores and of the share of "
        f"positive decisions{spread}."
    )
    if comparison.fair:
        say("\nAgainst the fair decision, in percent and points", "bold")
        ranges = [
            [name, *(_span(getattr(found, key)) for key in _FAIR)]
            for name, found in comparison.fair.items()
        ]
        grid(("method", *_FAIR.values()), ranges)
        say(AGAINST_FAIR)
    for name, reason in comparison.no_fair.items():
        say(f"{name} has no ranges against the fair decision: {reason}.")
    if comparison.filled:
        say(
            f"For {', '.join(comparison.filled)} missing cells were filled: text with a level of "
            "its own, numbers with the mean."
        )
    if comparison.identifiers:
        columns = ", ".join(map(repr, comparison.identifiers))
        say(f"No method was given what has a different value in every row, or nearly: {columns}.")
    for name, reason in comparison.failures.items():
        say(f"{name} could not be run: {reason}")


def _span(ends: tuple[float, float]) -> str:
    return f"{100 * ends[0]:.1f} to {100 * ends[1]:.1f}"


def _cell(row: dict[str, Any], name: str) -> str:
    value, spread = row[name], row[f"{name}_sd"]
    if value is None:
        return "-"
    digits = 1 if name == "fit_seconds" else 3
    return f"{value:.{digits}f}" + ("" if spread is None else f" ± {spread:.{digits}f}")
