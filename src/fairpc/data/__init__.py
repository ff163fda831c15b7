"""Tables of integer codes: the form in which data reach circuits and learners."""

from fairpc.data._binning import merged_bins, round_number
from fairpc.data._coding import (
    CODING_FIELDS,
    Encoding,
    RowEncoder,
    TableCoding,
    absent,
    check_not_both,
    fit_coding,
    identifiers,
    warn_of_dropped,
)
from fairpc.data._column import CALENDAR, MIN_CELL, TYPE_ROWS, Column, Dropped
from fairpc.data._column_summary import FAN_IN
from fairpc.data._delimited import NotUtf8Error
from fairpc.data._files import (
    TableFiles,
    as_texts,
    find,
    format_of,
    is_part,
    reading,
    reason_of,
    write_table,
)
from fairpc.data._fit_column import (
    BINS,
    FEW_PEOPLE,
    IDENTIFIES,
    EncodingOptions,
    identifies,
    merge_rare,
)
from fairpc.data._frame import (
    Frame,
    check_rows,
    exactly,
    read_columns,
    read_frame,
    resolve,
    take_rows,
)
from fairpc.data._groups import SMALL, Groups, few_labelled, fit_groups
from fairpc.data._labels import Labels, fit_labels
from fairpc.data._leaks import (
    check_apart,
    group_leaks,
    leaving_out,
    merged_leaks,
    same_as_label,
    warn_leak,
)
from fairpc.data._names import GivenNames, Names, refuse_alike
from fairpc.data._source import (
    BATCH_ROWS,
    FrameSource,
    LazySource,
    ReadingProgress,
    Roles,
    Source,
    Warned,
    Watcher,
    Work,
    apart_name,
    is_dask,
    is_source,
    made_of,
    open_source,
    source_of,
)
from fairpc.data._summary import hidden_labels
from fairpc.data._table import (
    MAX_ARITY,
    MISSING,
    UNBOUNDED,
    CodedRows,
    Distinct,
    DistinctSum,
    Packing,
    RowParts,
    Table,
    add_distinct,
    check_codes,
    check_some_weights,
    check_weights,
    distinct_rows,
    readonly,
)
from fairpc.data._values import (
    EXACT,
    Level,
    Sentinel,
    Values,
    bare,
    check_keys,
    distinct_numbers,
    levels_of,
    marks_of,
    number_texts,
    read_classes,
    read_values,
    sentinel_texts,
    to_numbers,
)
from fairpc.data._writing import DECIMALS, dates_of

__all__ = ["MISSING", "Table", "distinct_rows"]
