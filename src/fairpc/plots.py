"""Pictures of records and of fitted models, with matplotlib."""

from fairpc.models import (
    COLOURS as COLOURS,
    EDGE as EDGE,
    LINES as LINES,
    MARKERS as MARKERS,
    ModelPlots as ModelPlots,
    draw as draw,
    trade_off as trade_off,
)
