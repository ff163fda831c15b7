"""Data sets with their provenance: Adult, German credit, COMPAS, and the paper's synthetic one."""

from fairpc.datasets._adult import load_adult
from fairpc.datasets._compas import DownloadError, load_compas
from fairpc.datasets._german import load_german
from fairpc.datasets._record import Dataset, Notes, Provenance
from fairpc.datasets._synthetic import SyntheticDataset, make_synthetic

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
