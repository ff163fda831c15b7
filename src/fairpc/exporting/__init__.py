"""Models as files that score without fairpc: ONNX, SQL, and Python without dependencies."""

from fairpc.exporting._export import TABLE, Exported, check_suffix, export

__all__ = ["Exported", "export"]
