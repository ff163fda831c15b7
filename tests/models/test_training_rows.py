"""EM over parts on disk is EM over the rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from fairpc.data import Packing, add_distinct
from fairpc.data._table import PartWriter
from fairpc.models import Rows, rows_fingerprint
from fairpc.models._estimators import label_counts
from fairpc.models._fit import Options, fit, fit_parameters
from fairpc.models._rows import PartedRows


def random_codes(n: int, seed: int, packing: Packing) -> list[npt.NDArray[np.int16]]:
    """Rows whose features follow a hidden class; some values are missing."""
    rng = np.random.default_rng(seed)
    f = rng.integers(0, 2, n)
    s = rng.integers(0, 2, n)
    d = np.where(rng.random(n) < 0.1 + 0.2 * s, 1 - f, f)
    x = [(rng.random(n) < np.where(f, 0.8, 0.3)).astype(int) for _ in packing.arities[2:]]
    x[0] = np.where(rng.random(n) < 0.1, -1, x[0])
    return [np.asarray(c, np.int16) for c in (s, d, *x)]


def parted(folder: Path, n: int = 3000) -> tuple[PartedRows, Rows]:
    """Rows on disk, in parts that share some of them, and the same rows in memory."""
    packing = Packing((2, 2, 2, 2, 2, 2, 2, 2))
    codes = random_codes(n, 0, packing)
    writer = PartWriter(folder, packing)
    pieces = [packing.distinct([c[a : a + n // 4] for c in codes]) for a in range(0, n, n // 4)]
    for piece in pieces:
        writer.write(piece)
    names = tuple(f"x{j}" for j in range(6))
    whole = packing.rows(add_distinct(pieces))
    rows = Rows.coded(whole, packing.arities, names)
    return PartedRows(writer.finish(), names), rows


def test_em_over_parts_takes_the_steps_of_em_over_rows(tmp_path: Path) -> None:
    on_disk, rows = parted(tmp_path)
    sample = on_disk.sample(800, np.random.default_rng(0))
    options = Options(max_iter=25, tol=0.0, mechanism_prior=10.0)
    start = fit("LatNB", sample, options=options)
    ours = fit_parameters(start.distribution, on_disk, options)
    theirs = fit_parameters(start.distribution, rows, options)
    assert np.allclose(
        ours.distribution.circuit.parameters, theirs.distribution.circuit.parameters, rtol=1e-10
    )
    assert np.allclose(ours.history["objective"], theirs.history["objective"], rtol=1e-12)
    counts, mean = label_counts(on_disk, ours.distribution)
    assert mean == pytest.approx(ours.history["log_likelihood"][-1])
    assert counts.sum() == pytest.approx(rows.weights.sum())


def test_rows_have_one_name_wherever_they_lie(tmp_path: Path) -> None:
    on_disk, rows = parted(tmp_path)
    assert rows_fingerprint(on_disk) == rows_fingerprint(rows)
    backwards = rows.take(np.arange(rows.n_rows)[::-1])
    assert rows_fingerprint(backwards) == rows_fingerprint(rows)
    assert rows_fingerprint(rows.with_weights(rows.weights + 1)) != rows_fingerprint(rows)


def test_a_sample_draws_every_row_alike(tmp_path: Path) -> None:
    on_disk, rows = parted(tmp_path)
    packing = on_disk.parts.packing
    keys = packing.pack([rows.s, rows.d, *rows.x.T])[0]
    drawn = np.zeros(rows.n_rows)
    rng = np.random.default_rng(1)
    for _ in range(300):
        some = on_disk.sample(600, rng)
        place = np.searchsorted(keys, packing.pack([some.s, some.d, *some.x.T])[0])
        drawn[place] += some.weights
    expected = 300 * 0.2 * rows.weights
    # Binomial counts: within five standard deviations for each of some hundred rows.
    assert (np.abs(drawn - expected) < 5 * np.sqrt(expected * 0.8) + 1).all()
    everything = on_disk.sample(10**9, rng)
    assert everything.weights.sum() == rows.weights.sum()


def test_parts_are_read_as_they_were_written(tmp_path: Path) -> None:
    packing = Packing((3, 200), unit=True)
    writer = PartWriter(tmp_path, packing)
    codes = np.array([[-1, 199], [2, -1], [0, 150]], np.int16)
    writer.write(packing.distinct(list(codes.T), np.array([1.0, 2.5, 3.0])))
    written = writer.finish()
    found = written.read(0)
    order = np.lexsort(codes.T[::-1])
    assert np.array_equal(found.codes, codes[order])
    assert found.weights.tolist() == [1.0, 3.0, 2.5]
    assert written.total_weight == 6.5
    assert found.copies is not None
    assert found.copies.sum() == written.n_copies == 3
