"""The sections of the page by subject, as in ``fairpc.auditing``: facts in, text and pictures out.

Each module here is imported, so that what it shows is known to :mod:`fairpc.report.view`.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
