"""Figure "Predictive performance vs. discrimination score": FairPC and the fair classifiers."""

from __future__ import annotations

from typing import Any, Final

from fairpc.paper.exhibit import Claim, Exhibit, Grid, Record, number
from fairpc.paper.figures import Figure, panels, point
from fairpc.paper.methods import FAIR_CLASSIFIERS
from fairpc.paper.real_world import Score, scores
from fairpc.paper.sources import TITLES
from fairpc.paper.study import Study

NAME: Final = "trade-off"
METHODS: Final = ("FairPC", *FAIR_CLASSIFIERS, "LR", "Rand")
QUALITIES: Final = {"accuracy": "accuracy", "rate_f1": "F1 from rates"}


def above_line(s: Score, rand: Score, lr: Score, quality: str) -> float:
    """How far a method lies above the line between Rand and LR, at its discrimination.

    Paper: "the further above the line between these baselines, the better".
    """
    run = lr.discrimination - rand.discrimination
    low, high = float(getattr(rand, quality)), float(getattr(lr, quality))
    share = (s.discrimination - rand.discrimination) / run if run else 0.0
    return float(getattr(s, quality)) - (low + share * (high - low))


def exhibit(study: Study) -> Exhibit:
    """The points, and their distance from the line between Rand and LR."""
    found = [s for s in scores(study) if s.method in METHODS]
    names = list(dict.fromkeys(s.dataset for s in found))
    by = {(s.dataset, s.method): s for s in found}
    records = tuple(_record(by, n, m) for n in names for m in METHODS)
    return Exhibit(
        name=NAME,
        title="Accuracy and F1 against discrimination",
        records=records,
        grids=tuple(_grid(n, [r for r in records if r["dataset"] == n]) for n in names),
        notes=(
            "The line joins Rand, which knows nothing, and LR, which knows no constraint; the "
            "further above it, the better the trade-off.",
            *study.real_world[1],
        ),
        claims=tuple(_claims(records, names)),
        draw=lambda: _draw(by, names),
    )


def _record(by: dict[tuple[str, str], Score], name: str, method: str) -> Record:
    s, rand, lr = by[name, method], by[name, "Rand"], by[name, "LR"]
    record: Record = {"dataset": name, "method": method, "discrimination": s.discrimination}
    for quality in QUALITIES:
        record[quality] = getattr(s, quality)
        record[f"{quality}_above_line"] = above_line(s, rand, lr, quality)
    return record


def _grid(name: str, records: list[Record]) -> Grid:
    head = ("method", "discrimination", "accuracy", "above the line", "F1", "above the line")
    keys = ("discrimination", "accuracy", "accuracy_above_line", "rate_f1", "rate_f1_above_line")
    lines = tuple((r["method"], *(number(r[k]) for k in keys)) for r in records)
    return Grid(head, lines, TITLES[name])


def _claims(records: tuple[Record, ...], names: list[str]) -> list[Claim]:
    claims = []
    for name in [n for n in ("compas", "adult") if n in names]:
        some = {r["method"]: r for r in records if r["dataset"] == name}
        rivals = [some[m] for m in FAIR_CLASSIFIERS]
        ours = some["FairPC"]
        best = {q: max(r[q] for r in rivals) for q in QUALITIES}
        claims.append(
            Claim(
                f"{TITLES[name]}: FairPC has the best or close to best accuracy and F1 of the "
                "fair methods (within .005, .04)",
                ours["accuracy"] > best["accuracy"] - 0.005
                and ours["rate_f1"] > best["rate_f1"] - 0.04,
                f"accuracy {number(ours['accuracy'])}, best other {number(best['accuracy'])}; "
                f"F1 {number(ours['rate_f1'])}, best other {number(best['rate_f1'])}",
            )
        )
    if "german" in names:
        some = {r["method"]: r for r in records if r["dataset"] == "german"}
        order = sorted(
            (m for m in some if m not in ("LR", "Rand")), key=lambda m: -some[m]["accuracy"]
        )
        claims.append(
            Claim(
                "German: FairLR and Reweight have the best performance on average",
                set(order[:2]) == {"FairLR", "Reweight"},
                "accuracy " + ", ".join(f"{m} {number(some[m]['accuracy'])}" for m in order),
            )
        )
    return claims


def _draw(by: dict[tuple[str, str], Score], names: list[str]) -> Figure:
    figure, axes = panels(len(names), 2, 3.6, 2.6)
    for row, name in enumerate(names):
        for column, (quality, words) in enumerate(QUALITIES.items()):
            _panel(axes[row][column], [by[name, m] for m in METHODS], quality)
            axes[row][column].set(
                title=TITLES[name], ylabel=words, xlabel="|discrimination|, mean over folds"
            )
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(METHODS))
    return figure


def _panel(axes: Any, found: list[Score], quality: str) -> None:
    ends = [s for s in found if s.method in ("Rand", "LR")]
    axes.plot(
        [s.discrimination for s in ends], [getattr(s, quality) for s in ends],
        color="#777777", linestyle="--", linewidth=1, zorder=1,
    )  # fmt: skip
    for s in found:
        point(axes, s.method, [s.discrimination], [getattr(s, quality)])
