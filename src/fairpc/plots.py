"""Pictures of records and of fitted models, with matplotlib."""

from fairpc.models import COLOURS as COLOURS
from fairpc.models import EDGE as EDGE
from fairpc.models import LINES as LINES
from fairpc.models import MARKERS as MARKERS
from fairpc.models import ModelPlots as ModelPlots
from fairpc.models import draw as draw
from fairpc.models import joint_set as joint_set
from fairpc.models import trade_off as trade_off
