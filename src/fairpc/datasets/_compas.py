"""COMPAS: people in Broward County, Florida, 2013 and 2014, and who was charged again."""

from __future__ import annotations

import io

import polars as pl

from fairpc.datasets import _record as record
from fairpc.datasets._record import Dataset, FrameKind


def load_compas(*, as_frame: FrameKind = "polars") -> Dataset:
    """ProPublica's table of 7,214 people with the label two_year_recid, bundled.

    Args:
        as_frame: kind of the frames in the result.
    """
    data = io.BytesIO(record.read_bundled("compas-scores-two-years.csv"))
    frame = pl.read_csv(data, infer_schema_length=None, try_parse_dates=False)
    return record.published(Dataset, "compas", "two-year", frame, as_frame, frame["id"])
