"""Data sets with their provenance: Adult, German credit, COMPAS, and the paper's synthetic one."""

from fairpc.datasets.adult import load_adult
from fairpc.datasets.compas import DownloadError, load_compas
from fairpc.datasets.german import load_german
from fairpc.datasets.record import Dataset, Notes, Provenance
from fairpc.datasets.synthetic import SyntheticDataset, make_synthetic

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
