"""``fairpc distil``: a scorer that does without the group, and what it costs.

``fairpc predict`` takes its file in place of a model.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from shlex import quote
from typing import Annotated, Any, Final, Literal

import fairpc.cli._options as opt
import fairpc.cli._polars as pl
import fairpc.cli._tables as tables
from fairpc import data, models
from fairpc.cli._screen import Screen, print_json, say
from fairpc.core import Floats, TableError, counted

PREFIX: Final = "p_df_"


def distil(
    model_file: opt.ModelFile,
    table: opt.Table,
    output: Annotated[str, opt.output("The scorer file to write.")],
    classifier: Annotated[
        Literal["hgb", "logistic", "forest"],
        opt.option("NAME", "What learns the scores: hgb (boosting), logistic or forest."),
    ] = "hgb",
    seed: opt.Seed = 0,
    *,
    text: opt.TextFormat,
    screen: Screen,
) -> None:
    """Make a scorer that does not need the group, and say what that costs.

    A classifier of the other columns learns what the model scores with the group. It is for places
    where the group must not be used at decision time. The price is measured on rows of the table
    that were held out: how often it decides as the model, gaps between groups, and, if the table
    has the label, how often it decides as the fair decision.

    Example: fairpc distil loans.fairpc loans.csv -o scorer.fairpc

    Then: fairpc predict scorer.fairpc new.csv --decide -o decided.csv
    """
    tables.check_output(output, model_file, table)
    model, warned = tables.loaded(model_file), data.Warned()
    with tables.opened(table, text, model.table_options_) as files, tables.about(files.source):
        tables.note_absent(model, files, screen)
        cells, label = tables.ready(files.read(), files), model.coding_.labels.name
        given = tables.evidence(model, cells)
        missing = model.coding_.features.missing_values
        learner = models.TableClassifier(classifier, missing_values=missing, random_state=seed)
        labels = cells[label] if label in cells.columns else None
        features = given.pop("X")
        if labels is not None:
            features = features.drop(label)
        with warned.watching():
            scorer = model.distil(learner, features, labels, **given)
    scorer.save(output)
    price = scorer.price
    if screen.json:
        facts = {"model_file": model_file, "table": files.source, "output": output}
        print_json(facts | {"price": None if price is None else price.to_dict()})
    elif screen.prints_text:
        groups = ", ".join(map(repr, model.coding_.groups.column_names))
        learned_from = counted(sum(group.n for group in scorer.gap.groups), "row")
        say(f"A scorer without {groups}, learned from {learned_from}.", "bold")
        for sentence in () if price is None else price.sentences:
            say(sentence)
        say(f"The scorer is in {output}.")
        paths = f"{quote(output)} {quote(table)}"
        say(f"Next: fairpc predict {paths} --decide-as decided -o decided.csv")
        if labels is not None:
            named = [f"--sensitive {quote(name)}" for name in model.coding_.groups.column_names]
            named += [f"--label {quote(label)}", f"--positive {quote(str(scorer.positive))}"]
            say(f"To audit it: fairpc audit decided.csv --decision decided {' '.join(named)}")
    screen.notes(warned)


def score_table(
    path: str,
    table: str,
    target: Any,
    decision: str | None,
    digits: int | None,
    text: opt.TextFormat,
    screen: Screen,
) -> dict[str, Any]:
    """Append the scores of a scorer to a table, and its decisions if a name for them is given."""
    scorer = models.Distilled.load(path)
    added: dict[str, Any] = {f"{PREFIX}{c}": pl.Float64 for c in scorer.classes_}
    if decision is not None:
        added[decision] = pl.String
    with tables.opened(table, text) as files, tables.about(files.source):
        for name in added:
            if name in files.names():
                raise TableError(
                    f"{files.source} has a column {name!r} already, which predict would write: "
                    "rename or drop it"
                )
        lacking = [n for n in scorer.estimator.feature_names_in_ if n not in files.names()]
        if lacking:
            raise TableError(
                f"{files.source} has no column {lacking[0]!r}, which the scorer needs: give it"
            )
        cells = tables.ready(files.read(), files)
        decide = partial(scorer.predict, cells)
        scored = cells.with_columns(appended(added, scorer.predict_proba(cells), decide, digits))
        data.write_table([scored], scored.schema, target, delimiter=files.delimiter)
    screen.note(f"{counted(cells.height, 'row')} written with {', '.join(added)}")
    return {"model_file": path, "table": files.source, "rows": cells.height, "added": list(added)}


def appended(
    added: Collection[str], scores: Floats, predict: Callable[[], Any], digits: int | None
) -> Iterator[pl.Series]:
    """The columns that are added to some rows: their scores, and last what is decided, if asked."""
    for name, own in zip(added, scores.T, strict=False):
        yield pl.Series(name, own if digits is None else own.round(digits))
    if len(added) > scores.shape[1]:
        yield pl.Series([*added][-1], [str(d) for d in predict()], dtype=pl.String)
