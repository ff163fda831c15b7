"""Data sets with their provenance: loans with a planted bias, Adult, German credit, COMPAS, and the
paper's synthetic one."""

from fairpc.datasets._compas import DownloadError as DownloadError
from fairpc.datasets._compas import load_compas as load_compas
from fairpc.datasets._loans import load_loans as load_loans
from fairpc.datasets._record import Dataset as Dataset
from fairpc.datasets._record import Notes as Notes
from fairpc.datasets._record import Provenance as Provenance
from fairpc.datasets._record import TruthDataset as TruthDataset
from fairpc.datasets._synthetic import SyntheticDataset as SyntheticDataset
from fairpc.datasets._synthetic import make_synthetic as make_synthetic
from fairpc.datasets._uci import load_adult as load_adult
from fairpc.datasets._uci import load_german as load_german
