"""Data sets with their provenance: loans with a planted bias, Adult, German credit, COMPAS, and the
paper's synthetic one."""

from fairpc.datasets._compas import DownloadError, load_compas
from fairpc.datasets._loans import load_loans
from fairpc.datasets._record import Dataset, Notes, Provenance, TruthDataset
from fairpc.datasets._synthetic import SyntheticDataset, make_synthetic
from fairpc.datasets._uci import load_adult, load_german
