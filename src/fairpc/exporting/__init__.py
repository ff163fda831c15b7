"""Models as files that score without fairpc: ONNX, SQL, and Python without dependencies."""

from fairpc.exporting.formats import Exported, export

__all__ = ["Exported", "export"]
