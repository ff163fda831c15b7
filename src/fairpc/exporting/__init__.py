"""Models as files of ONNX, which score rows without fairpc."""

from fairpc.exporting._export import Exported, check_suffix, export

__all__ = ["Exported", "export"]
