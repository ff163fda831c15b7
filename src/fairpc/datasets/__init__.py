"""Data sets with their provenance: loans with a planted bias, Adult, German credit, COMPAS, and the
paper's synthetic one."""

from fairpc.datasets._loans import load_loans as load_loans
from fairpc.datasets._published import (
    load_adult as load_adult,
    load_compas as load_compas,
    load_german as load_german,
)
from fairpc.datasets._record import (
    Dataset as Dataset,
    Notes as Notes,
    Provenance as Provenance,
    TruthDataset as TruthDataset,
)
from fairpc.datasets._synthetic import (
    SyntheticDataset as SyntheticDataset,
    make_synthetic as make_synthetic,
)
