"""The page of an audit: one HTML file that needs no server and no network.

``render`` sees the facts of an :class:`fairpc.auditing.Audit` and nothing else of the package.
"""

from fairpc.report.page import render

__all__ = ["render"]
