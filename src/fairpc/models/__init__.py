"""FairPC, NLatPC, LatNB, TwoNB, LatentDecision: their fits, files and queries."""

from typing import TYPE_CHECKING

from fairpc.core import on_first_use

if TYPE_CHECKING:
    from fairpc.models._batches import check_not_dask
    from fairpc.models._bias_account import ANYTHING_FROM, OUTSIDE, OVERLAP, BiasAccount, apart
    from fairpc.models._classifiers import TableClassifier as TableClassifier
    from fairpc.models._decisions import FittedDecisions, GivenRows
    from fairpc.models._disclosure import Disclosure, disclosure, file_facts
    from fairpc.models._distilled import (
        SCORER_FORMAT,
        Distilled as Distilled,
        DistilPrice as DistilPrice,
        group_is_input,
    )
    from fairpc.models._distribution import FairDistribution
    from fairpc.models._estimators import (
        CircuitClassifier,
        FairPC as FairPC,
        LatNB as LatNB,
        NLatPC as NLatPC,
        TwoNB as TwoNB,
    )
    from fairpc.models._fair_layers import cells_of
    from fairpc.models._file import MAX_BYTES, FittedModel, SavedSettings
    from fairpc.models._forest import Forest
    from fairpc.models._forest_decisions import ForestDistribution
    from fairpc.models._knowledge import Knowledge
    from fairpc.models._latent_decision import (
        LatentDecision as LatentDecision,
        quick_decision as quick_decision,
    )
    from fairpc.models._loading import MODELS, load as load
    from fairpc.models._plots import draw
    from fairpc.models._progress import Progress as Progress, Report, progress
    from fairpc.models._query_language import PART, UNKNOWN, Answer, Query, Vocabulary, parse
    from fairpc.models._query_ranges import NOT_KNOWN
    from fairpc.models._review import Reviewed as Reviewed, ReviewRows
    from fairpc.models._rows import ROWS, Rows, digest_name, rows_fingerprint
    from fairpc.models._strata import Strata
    from fairpc.models._tables import (
        ROW_BYTES,
        FittedColumns,
        GivenTable,
        check_not_apart,
        memory_bytes,
        rows_in_order,
    )

__getattr__, __dir__ = on_first_use(__name__)
