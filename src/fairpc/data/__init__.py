"""Tables of integer codes: the form in which data reach circuits and learners."""

from fairpc.data._categories import Level, distinct_numbers, levels_of
from fairpc.data._codes_of import (
    CALENDAR,
    TRUTH,
    TYPE_ROWS,
    any_seen,
    code_columns,
    code_values,
    decode,
    decoded_levels,
    number_levels,
    numbers_of,
    text_levels,
    unmarked,
)
from fairpc.data._columns import BINS, IDENTIFIES, NumberModel, Options, identifiers, identifies
from fairpc.data._delimited import NotUtf8Error
from fairpc.data._distinct import UNBOUNDED, CodedRows, Distinct, DistinctSum, Packing, add_distinct
from fairpc.data._encoding import Encoding, absent
from fairpc.data._files import Reading, TableFiles, find, format_of, is_part, reason_of, write_table
from fairpc.data._fit_encoding import fit_coding, resolve, warn_of_dropped
from fairpc.data._frame import Frame, exactly, read_columns, read_frame, take_rows
from fairpc.data._groups import SMALL, Groups, check_apart, fit_groups, same_as_label
from fairpc.data._labels import Labels, fit_labels
from fairpc.data._leaks import leaving_out, merged_leaks, set_leaks, warn_leak
from fairpc.data._parts import RowParts
from fairpc.data._quantile_sketch import FAN_IN
from fairpc.data._schema import Column, Dropped, Record
from fairpc.data._source import (
    BATCH_ROWS,
    FrameSource,
    LazySource,
    Progress,
    Roles,
    Source,
    Warned,
    Watcher,
    Work,
    apart_name,
    is_source,
    open_source,
    source_of,
)
from fairpc.data._table import (
    MAX_ARITY,
    MISSING,
    Table,
    check_codes,
    check_some_weights,
    check_weights,
    distinct_rows,
    readonly,
)
from fairpc.data._table_coding import (
    CODING_FIELDS,
    RowEncoder,
    TableCoding,
    check_not_both,
    check_rows,
)
from fairpc.data._values import (
    EXACT,
    Sentinel,
    Values,
    dates_of,
    marks_of,
    number_texts,
    read_values,
    to_numbers,
)
from fairpc.data._writing import DECIMALS, PLAIN, Writing

__all__ = ["MISSING", "Table", "distinct_rows"]
