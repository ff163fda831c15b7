"""The exhibits on small tables, the pictures, and the command."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from fairpc.errors import MissingExtraError
from published import paper_folder
from reproduction import (
    figures,
    learning,
    protocol,
    real_world,
    significance_tables,
    synthetic,
)
from reproduction.__main__ import main, show
from reproduction.distributions import LATNB_MOVED
from reproduction.exhibit import (
    Exhibit,
    Record,
    Records,
    as_json,
    markdown,
    number,
    p_value,
    write,
)
from reproduction.figures import LOOKS
from reproduction.methods import ALL_METHODS, DISTRIBUTIONS, METHODS
from reproduction.page import EXHIBITS, page_text, write_page
from reproduction.runs import Study
from reproduction.sources import REAL_WORLD, drawn
from small_folder import small_folder, small_study

NUMBERS = {"log_likelihood", "log_likelihood_all", "accuracy", "f1", "rate_f1", "discrimination"}
FIELDS = {"dataset", "method", *NUMBERS, *(f"{name}_error" for name in NUMBERS)}
NEED_SYNTHETIC = ("synthetic", "init", "missing")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    pytest.importorskip("fairlearn")
    folder = small_folder(tmp_path_factory.mktemp("authors"))
    return small_study(folder, tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def table(study: Study) -> Exhibit:
    return real_world.table(study)


def test_a_record_per_table_and_method(table: Exhibit) -> None:
    assert [(r["dataset"], r["method"]) for r in table.records] == [
        (name, method) for name in REAL_WORLD for method in ALL_METHODS
    ]
    for record in json.loads(as_json(table.records)):
        assert set(record) == FIELDS
        has_likelihood = record["method"] in DISTRIBUTIONS
        assert (record["log_likelihood"] is not None) == has_likelihood
        assert (record["log_likelihood_all"] is not None) == has_likelihood
        assert 0 <= record["discrimination"] <= 1


def test_scores_are_means_over_folds_of_absolute_values(study: Study, table: Exhibit) -> None:
    (found,) = [r for r in table.records if (r["dataset"], r["method"]) == ("adult", "LR")]
    data = study.real_world[0][1]
    gaps, right = [], []
    for fold, outcome in zip(data.folds, study.real_world_runs["adult", "LR"], strict=True):
        s, d = data.rows.s[fold.test], data.rows.d[fold.test]
        gaps.append(abs(outcome.scores[s == 1].mean() - outcome.scores[s == 0].mean()))
        right.append((outcome.predicted == d).mean())
    assert found["discrimination"] == pytest.approx(np.mean(gaps))
    assert found["accuracy"] == pytest.approx(np.mean(right))


@pytest.mark.parametrize("name", [n for n in EXHIBITS if n not in (*NEED_SYNTHETIC, "selection")])
def test_exhibits_of_real_world_tables(name: str, study: Study, tmp_path: Path) -> None:
    exhibit = EXHIBITS[name](study)
    assert exhibit.name == name
    if exhibit.draw is not None:
        pytest.importorskip("matplotlib")
    written = {p.suffix for p in write(exhibit, tmp_path)}
    assert {".json", ".csv", ".md"} <= written
    assert ({".png", ".svg"} <= written) == (exhibit.draw is not None)
    text = markdown(exhibit)
    for claim in exhibit.claims:
        assert claim.statement.replace("|", "\\|") in text


def test_every_pair_is_tested_as_scipy_does(study: Study) -> None:
    exhibit = significance_tables.exhibit(study)
    for name in REAL_WORLD:
        some = [r for r in exhibit.records if r["dataset"] == name]
        assert [r["test"] for r in some] == ["wilcoxon"] * 6 + ["mcnemar"] * 21
    (found,) = [
        r
        for r in exhibit.records
        if (r["dataset"], r["test"], r["a"], r["b"]) == ("german", "wilcoxon", "2NB", "FairPC")
    ]
    runs = study.real_world_runs
    a, b = (
        np.concatenate([o.log_likelihood for o in runs["german", m]]) for m in ("2NB", "FairPC")
    )
    assert found["p_value"] == pytest.approx(scipy.stats.wilcoxon(a, b).pvalue)
    assert found["effect"] == pytest.approx((a - b).mean())


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NEED_SYNTHETIC, "selection"])
def test_exhibits_with_synthetic_tables(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("fairlearn")
    folder = paper_folder()
    exhibit = EXHIBITS[name](small_study(folder, tmp_path / "cache"))
    assert {p.stem for p in write(exhibit, tmp_path / "out")} == {name}


def test_the_page_has_every_claim_and_figure(study: Study, table: Exhibit, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    bars = real_world.bars(study)
    paths = write_page([table, bars], study, tmp_path)
    text = (tmp_path / "reproduction.md").read_text("utf-8")
    assert text == page_text([table, bars], study)
    for claim in table.claims:
        assert claim.statement.replace("|", "\\|") in text
    assert "(reproduction/bars.png)" in text
    assert (tmp_path / "reproduction" / "bars.png") in paths
    assert "48,834" in text


def test_true_likelihood_is_that_of_the_drawn_model() -> None:
    table = drawn(10, 0, 2)
    assert table.model is not None
    rows = table.rows.take(table.folds[0].test)
    total = np.zeros(rows.n_rows)
    for f in range(2):
        codes = np.column_stack([rows.s, np.full(rows.n_rows, f), rows.d, rows.x])
        total += np.exp(table.model.log_marginal(codes))
    found = synthetic.true_log_likelihood(table, 0)
    assert found == pytest.approx(float(np.log(total).mean()))


def test_an_estimate_that_sees_the_decision_is_near_the_truth() -> None:
    table = drawn(10, 0, 2)
    found = synthetic.true_log_likelihood(replace(table, model=None), 0)
    assert found == pytest.approx(synthetic.true_log_likelihood(table, 0), abs=0.03)


def test_an_iteration_has_settled_if_no_later_one_is_off() -> None:
    curve = np.array([0.5, 0.9, 0.79, 0.9, 0.805, 0.8])[:, None, None, None]
    assert learning.settled(curve) == 4
    assert learning.settled(np.full((3, 1, 1, 1), 0.8)) == 0


def test_starts_are_averaged_over_folds_first() -> None:
    records = Records(
        {"dataset": "adult", "method": LATNB_MOVED, "start": k, "fold": f, "accuracy": value}
        for (k, f), value in {(0, 0): 0.5, (0, 1): 0.7, (1, 0): 0.2, (1, 1): 0.4}.items()
    )
    means = protocol.means_of_starts(records, "adult", "accuracy")
    assert means == pytest.approx([0.6, 0.3])


def test_every_printed_number_is_counted(study: Study, table: Exhibit) -> None:
    text = page_text([table], study)
    found = re.search(
        r"(\d+) of (\d+) numbers are those of the paper.*?, (\d+) within 0.0015", text
    )
    assert found is not None
    numbers = [v for line in real_world.PRINTED.values() for v in line if np.isfinite(v)]
    assert int(found[2]) == len(numbers)
    apart = [
        abs(record[key] - value)
        for record in table.records
        for key, value in real_world.printed(record["dataset"], record["method"]).items()
    ]
    assert int(found[1]) == sum(distance < 0.0005 for distance in apart)
    assert int(found[3]) == sum(distance < 0.0015 for distance in apart)


def test_the_page_takes_folds_that_agree(study: Study, table: Exhibit) -> None:
    alike = Records(r | {"accuracy_error": 0.0} for r in table.records)
    assert "numbers are those of the paper" in page_text([replace(table, records=alike)], study)


def test_distance_from_the_line() -> None:
    def at(gap: float, right: float) -> Record:
        return {"discrimination": gap, "accuracy": right}

    rand, lr = at(0.0, 0.5), at(0.2, 0.9)
    # Half of the way the line is at .7.
    assert real_world.above_line(at(0.1, 0.75), rand, lr, "accuracy") == pytest.approx(0.05)


def test_numbers_as_text() -> None:
    assert number(-1.23456) == "−1.235"
    assert number(float("nan")) == "—"
    assert p_value(0.0) == "< 1E−300"
    assert p_value(1.42e-30) == "1.42E−30"


def test_published_tables_are_whole() -> None:
    assert len(real_world.PRINTED) == len(REAL_WORLD) * len(METHODS)
    assert (len(significance_tables.WILCOXON), len(significance_tables.MCNEMAR)) == (6, 21)
    assert list(synthetic.PRINTED) == list(range(10, 21))
    assert {len(line) for line in synthetic.PRINTED.values()} == {5}


def test_no_two_methods_look_alike() -> None:
    assert len({look.marker for look in LOOKS.values()}) == len(LOOKS)
    assert len({look.hatch for look in LOOKS.values()}) == len(LOOKS)


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"fairpc\[plots\]"):
        figures.check_extra()


def test_the_command_prints_one_array(
    study: Study,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    _ = study.real_world_runs  # outcomes are then found, not run again
    sources = study.sources
    main(
        [
            *("real-world", "--quick", "--json", "--cache", str(study.runner.folder)),
            *("--data-dir", str(sources.data_dir), "--splits", str(sources.splits)),
        ]
    )
    assert len(json.loads(capsys.readouterr().out)) == 27
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["figure-9"], "invalid choice: 'figure-9'"),
        (["real-world", "--data-dir", "/nowhere"], "--data-dir: /nowhere is not a folder"),
        (["real-world", "--splits", "/nowhere"], "--splits: /nowhere is not a folder"),
        (["real-world", "--json", "--data-dir", "/"], "give with --data-dir a folder"),
    ],
)
def test_bad_input_is_said(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_every_exhibit_can_be_shown(table: Exhibit, capsys: pytest.CaptureFixture[str]) -> None:
    show(table)
    shown = capsys.readouterr().out
    assert "FairPC" in shown
    assert "confirmed" in shown
    assert "**" not in shown
