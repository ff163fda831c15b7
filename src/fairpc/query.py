"""Queries in words, as `fairpc query` takes them."""

from fairpc.models import Answer, Query, Vocabulary, parse
