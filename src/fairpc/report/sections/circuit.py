"""The circuit: its size, its properties, a drawing."""

from __future__ import annotations

from typing import Final
from xml.etree import ElementTree as ET

from markupsafe import Markup

from fairpc.report import text
from fairpc.report.drawing.svg import element, together
from fairpc.report.sections.absent import Facts
from fairpc.report.view import Block, Drawing, Paragraph, Plain, Section
from fairpc.report.view import Facts as KeyNumbers

TITLE = "The circuit"

_TAGS: Final = {"svg", "title", "desc", "g", "rect", "circle", "path", "text"}
_ATTRIBUTES: Final = {
    "class", "role", "aria-label", "width", "height", "viewBox", "x", "y", "rx", "cx", "cy", "r",
    "d", "transform",
}  # fmt: skip


def circuit(facts: Facts) -> Section:
    """What the model is made of."""
    found = facts["circuit"]
    blocks: list[Block] = [
        Paragraph(
            f"The model is a {text.name(found['model'])}: one circuit of sums and products over "
            f"{text.counted(len(found['variables']), 'variable')}. Every probability in this "
            "report that is said to be under the model is an exact evaluation of it."
        ),
        KeyNumbers(
            (
                ("Nodes", text.count(found["n_nodes"])),
                ("Edges", text.count(found["n_edges"])),
                ("Parameters", text.count(found["n_parameters"])),
                ("Depth", text.count(found["depth"])),
                ("Components per cell", text.count(found["n_components"])),
            )
        ),
        Drawing("Drawing of the circuit, root on top", drawing(found["svg"])),
        Paragraph("Sums are marked +, products ×. Of a large circuit the top is drawn.", "note"),
        Plain(found["summary"]),
    ]
    return Section("circuit", TITLE, tuple(blocks))


def drawing(svg: str) -> Markup:
    """The drawing with known shapes and attributes only; its colours are in the page's style."""
    return _copied(ET.fromstring(svg))  # noqa: S314 - drawn by this package


def _copied(part: ET.Element) -> Markup:
    tag = part.tag.rpartition("}")[2]
    if tag not in _TAGS:
        return Markup("")
    kept = {name: value for name, value in part.attrib.items() if name in _ATTRIBUTES}
    children = [_copied(child) for child in part]
    inside = [part.text.strip()] if part.text and part.text.strip() else []
    return element(tag, *inside, *([together(children)] if children else []), **kept)
