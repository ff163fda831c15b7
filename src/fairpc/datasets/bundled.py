"""The files that come with the package, compressed."""

from __future__ import annotations

import gzip
import hashlib
from importlib.resources import files
from typing import Final

from fairpc.errors import FileFormatError

# SHA-256 of the uncompressed bytes.
SHA256: Final = {
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    "german.data": "b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871",
    "compas-scores-two-years.csv": (
        "889057646e5439d789eb568de1f61c57fc62af2f0efed630f1d51ea69d9d571f"
    ),
}


def read(name: str) -> bytes:
    """The uncompressed bytes of a bundled file, checked."""
    packed = files("fairpc.datasets").joinpath("files", f"{name}.gz").read_bytes()
    data = gzip.decompress(packed)
    if hashlib.sha256(data).hexdigest() != SHA256[name]:
        raise FileFormatError(
            f"the bundled file {name} is not the one fairpc was built with: reinstall fairpc"
        )
    return data
