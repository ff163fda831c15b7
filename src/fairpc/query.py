"""Queries in words, as `fairpc query` takes them."""

from fairpc.models import Answer as Answer, Query as Query, Vocabulary as Vocabulary, parse as parse
