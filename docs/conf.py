"""How Sphinx builds these pages: ``make docs``; warnings are errors."""

from importlib.metadata import version as _version

project = "fairpc"
author = "The fairpc authors"
project_copyright = author
release = _version("fairpc")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
# Fields of several records have the same name; their text does not say whose they are.
suppress_warnings = ["ref.python"]

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
# Attributes are described in the docstring of their class.
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"fairpc {release}"
# No request leaves the reader's browser for a page that has no formula.
html_copy_source = False


def _skip_generated(_app, _what, name, _obj, skip, _options):  # type: ignore[no-untyped-def]
    """scikit-learn makes set_fit_request and its like; their text refers to its own pages."""
    return skip or name.endswith("_request") or name == "get_metadata_routing"


def setup(app):  # type: ignore[no-untyped-def]
    app.connect("autodoc-skip-member", _skip_generated)
