"""A name for data: two tables have the same fingerprint if and only if they are equal."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from fairpc.errors import TableError
from fairpc.errors.arrays import Array


def fingerprint(*arrays: npt.ArrayLike | None) -> str:
    """ "sha256:…" of arrays of numbers: their types, shapes and values, in any memory layout.

    None has a fingerprint of its own, so that an absent weight is not an empty one.
    """
    digest = hashlib.sha256()
    for item in arrays:
        if item is None:
            digest.update(b"none;")
            continue
        array: Array = np.asarray(item)
        if array.dtype.kind not in "biuf":
            raise TableError(
                f"a fingerprint of {array.dtype} values was asked: give codes or numbers"
            )
        little = array.dtype.newbyteorder("<")
        digest.update(f"{little.str}{array.shape};".encode())
        digest.update(np.ascontiguousarray(array, little).data)
    return f"sha256:{digest.hexdigest()}"
