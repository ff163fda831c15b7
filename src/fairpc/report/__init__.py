"""The page of an audit: one HTML file that needs no server and no network.

``render`` sees the facts of ``Audit.to_dict()`` and nothing else of the package.
"""

from fairpc.report.render import render

__all__ = ["render"]
