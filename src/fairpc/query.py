"""Queries in words, as `fairpc query` takes them."""

from fairpc.models import Answer as Answer
from fairpc.models import Query as Query
from fairpc.models import Vocabulary as Vocabulary
from fairpc.models import parse as parse
