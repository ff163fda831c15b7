"""Data sets with their provenance: Adult, German credit, COMPAS, and the paper's synthetic one."""

from fairpc.datasets._compas import DownloadError, load_compas
from fairpc.datasets._record import Dataset, Notes, Provenance
from fairpc.datasets._synthetic import SyntheticDataset, make_synthetic
from fairpc.datasets._uci import load_adult, load_german

__all__ = [
    "Dataset",
    "DownloadError",
    "Notes",
    "Provenance",
    "SyntheticDataset",
    "load_adult",
    "load_compas",
    "load_german",
    "make_synthetic",
]
