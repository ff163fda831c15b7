"""Sources and plans on Dask, for the same fit."""

from fairpc.cluster._client import connected, need_dask
from fairpc.cluster._table import by_partition, file_table, frame_table, spread
