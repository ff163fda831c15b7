"""What every room rests on: errors, checks of arrays, records, whole files, threads, progress."""

from typing import TYPE_CHECKING

from fairpc.core._lazy import on_first_use

if TYPE_CHECKING:
    from fairpc.core._arrays import (
        Array,
        Bools,
        Bytes,
        Codes,
        Floats,
        Int32s,
        Integers,
        Ints,
        Positions,
        Slots,
        Words,
        as_numbers,
        check_array,
        check_choice,
        check_classes,
        check_clusters,
        check_counts,
        check_groups,
        check_labels,
        check_level,
        check_number,
        check_numbers,
        check_positive_weight,
        check_sample_weight,
        check_scores,
        check_table,
        check_threshold,
        is_missing,
        missing,
        one_number,
        one_of,
        refuse_rows,
        two_numbers,
        whole_number,
    )
    from fairpc.core._errors import (
        NONE,
        AdvisingWarning,
        AuditError,
        CircuitError,
        ClassWarning,
        ClusterError,
        CodesError,
        ColumnWarning,
        ComparisonError,
        ContradictionWarning,
        DriftWarning,
        DroppedWarning,
        EvidenceError,
        FairpcError,
        FileFormatError,
        ForkError,
        GroupWarning,
        InterruptedWarning,
        LeakWarning,
        LearningError,
        MetricError,
        MissingExtraError,
        NotAnsweredError,
        OptionError,
        PlotError,
        PropertyError,
        QueryError,
        SameAsLabelWarning,
        TableError,
        TableWarning,
        brief,
        counted,
        shown,
        warn_caller,
    )
    from fairpc.core._few import Fewer, without_few
    from fairpc.core._hashing import RowSample, fingerprint, row_digest, row_hash, row_uniform
    from fairpc.core._records import (
        ALTERED,
        MAX_BYTES,
        Record,
        notebook_html,
        parse_json,
        read_json,
        record,
        serialise,
    )
    from fairpc.core._running import (
        Say,
        ending_on_signals,
        interruptible_waits,
        map_in_order,
        need_threads,
        showing_progress,
        terminal,
        thread_count,
    )
    from fairpc.core._whole_files import (
        AnyPath,
        check_writable,
        private_file,
        private_folder,
        read_whole,
        replacing,
        write_atomically,
    )


__getattr__, __dir__ = on_first_use(__name__)
