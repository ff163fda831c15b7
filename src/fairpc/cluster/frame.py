"""Lazy results of a Dask frame: a function of each partition, run when the result is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fairpc.errors.arrays import Array


def by_partition(
    frame: Any, values_of: Callable[[Any], Array], names: Sequence[str], dtype: npt.DTypeLike
) -> Any:
    """A lazy Dask frame of what ``values_of`` gives for the rows of each partition.

    Rows keep their index. One name makes a lazy series of it.
    """
    import pandas as pd
    from dask import delayed

    meta = pd.DataFrame({name: np.empty(0, dtype) for name in names}, index=frame._meta.index)
    shape = meta if len(names) > 1 else meta[names[0]]
    # Sent as one task of its own: otherwise every partition's task would carry it.
    shared = delayed(values_of, pure=False)
    return frame.map_partitions(_of_part, shared, shape, meta=shape, align_dataframes=False)


def _of_part(part: Any, values_of: Callable[[Any], Array], shape: Any) -> Any:
    """The values of one partition, as pandas has them."""
    import pandas as pd

    if not len(part):
        return shape.set_axis(part.index)
    values = values_of(part)
    if isinstance(shape, pd.Series):
        return pd.Series(values, index=part.index, name=shape.name)
    return pd.DataFrame(values, index=part.index, columns=shape.columns)
