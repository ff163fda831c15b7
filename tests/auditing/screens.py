"""Pictures of the pages of Adult, COMPAS and German: desktop and phone, light and dark.

Run: PYTHONPATH=tests python tests/auditing/screens.py [FOLDER] [NAME …]; needs chromium.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from auditing.browser import browser
from fairpc import FairPC, datasets
from fairpc.auditing import audit

LOADERS: Final[dict[str, Callable[[], Any]]] = {
    "adult": datasets.load_adult,
    "compas": datasets.load_compas,
    "german": datasets.load_german,
}
WIDTHS: Final = {"desktop": 1280, "phone": 390}
TALLEST: Final = 2400


def page_of(name: str, folder: Path) -> Path:
    """Fit, audit and write one page; it is kept for the next time."""
    path = folder / f"{name}.html"
    if not path.exists():
        data = LOADERS[name]()
        began = perf_counter()
        model = FairPC(random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive)
        fitted = perf_counter()
        audit(model, data.X, data.y, sensitive_features=data.sensitive).save(path)
        took = f"fit {fitted - began:.1f} s, audit and page {perf_counter() - fitted:.1f} s"
        sys.stdout.write(f"{name}: {took}, {path.stat().st_size:,} bytes\n")
    return path


def shoot(names: list[str], folder: Path) -> None:
    """One picture per screenful, top to bottom."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {name: page_of(name, folder) for name in names}
    with browser() as tab:
        for name, path in pages.items():
            for device, width in WIDTHS.items():
                for dark in (False, True):
                    tab.look(width=width, dark=dark)
                    tab.open(path)
                    tab.picture(folder / f"{name}-{device}-{'dark' if dark else 'light'}.png")
                    tab.run("document.getElementById('open-all').click()")
                    for i, top in enumerate(range(0, tab.height(), TALLEST)):
                        size = min(TALLEST, tab.height() - top)
                        scheme = "dark" if dark else "light"
                        shot = folder / f"{name}-{device}-{scheme}-{i:02}.png"
                        tab.picture(shot, top=top, height=size)
            sys.stdout.write(f"{name}: console {tab.messages()}\n")


if __name__ == "__main__":
    chosen = sys.argv[2:] or list(LOADERS)
    shoot(chosen, Path(sys.argv[1] if len(sys.argv) > 1 else "/tmp/fairpc-screens"))
