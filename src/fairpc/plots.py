"""Pictures of records and of fitted models, with matplotlib."""

from fairpc.models import COLOURS, EDGE, LINES, MARKERS, ModelPlots, draw, joint_set, trade_off
