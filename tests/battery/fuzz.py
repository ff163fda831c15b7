"""Coverage-guided fuzzing of the readers with atheris: ``make fuzz``, ten minutes for each.

    python -m battery.fuzz models|psdd [--seconds 600] [--corpus DIR]

It wants atheris, which is not among the dependencies. What crashes is written to the folder of the
corpus, as ``crash-…``; such a file becomes a case of a test.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_APART = b"\n\0\n"
"""Between the files of an input, such as a psdd and its vtree."""


def compiled() -> list[str]:
    """Modules that Numba compiles: what guides the search must not be written into them."""
    found = find_spec("fairpc")
    home = Path(next(iter((found and found.submodule_search_locations) or ())))
    kernels = home.rglob("_*kernels.py")
    return [".".join(p.relative_to(home.parent).with_suffix("").parts) for p in kernels]


def of_models(folder: Path) -> tuple[list[bytes], Callable[[bytes], object]]:
    """Model files, with the checksum that fits."""
    from battery.on_models import Models, resigned
    from fairpc import load

    suite, path = Models(folder, 0), folder / "fuzzed.fairpc"

    def read(data: bytes) -> object:
        with suppress(ValueError, RecursionError):  # what is not a JSON is read as it is
            data = resigned(json.loads(data))
        path.write_bytes(data)
        return load(path)

    return [saved.data for saved in suite.saved], read


def of_psdds(folder: Path) -> tuple[list[bytes], Callable[[bytes], object]]:
    """A psdd and its vtree."""
    from battery.on_psdd import Psdds

    suite = Psdds(folder, 0)

    def read(data: bytes) -> object:
        psdd, _, vtree = data.partition(_APART)
        return suite._read(psdd, vtree or None, psdd)

    return [psdd + _APART + vtree for psdd, vtree in suite.files], read


READERS = {"models": of_models, "psdd": of_psdds}


def main() -> None:
    """Fuzz one reader until the time is over or something else than one of our errors is raised."""
    parser = argparse.ArgumentParser(prog="python -m battery.fuzz", description=__doc__)
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--corpus", type=Path)
    given = parser.parse_args()
    import atheris  # type: ignore[import-not-found, import-untyped, unused-ignore]

    warnings.simplefilter("ignore")
    scratch = Path(tempfile.mkdtemp(prefix="fuzz-"))
    corpus = given.corpus or scratch / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    # What is imported for the first time in this block is watched: nothing above imports fairpc.
    with atheris.instrument_imports(include=["fairpc"], exclude=compiled()):
        from fairpc.errors import FairpcError

        seeds, read = READERS[given.reader](scratch)
    for k, data in enumerate(seeds):
        (corpus / f"seed-{k}").write_bytes(data)

    def once(data: Any) -> None:
        with suppress(FairpcError, OSError):
            read(bytes(data))

    # What watches a whole fit keeps some memory of each, so a limit would end the search early.
    options = ["-max_len=65536", "-rss_limit_mb=0", f"-max_total_time={given.seconds}"]
    options.append(f"-artifact_prefix={corpus}/")
    atheris.Setup([sys.argv[0], *options, str(corpus)], once)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
