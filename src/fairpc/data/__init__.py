"""Tables of integer codes: the form in which data reach circuits and learners."""

from fairpc.data.table import MISSING, Table, distinct_rows

__all__ = ["MISSING", "Table", "distinct_rows"]
