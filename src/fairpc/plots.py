"""Pictures of ranges and gaps, with matplotlib."""

from fairpc.models import draw as draw
