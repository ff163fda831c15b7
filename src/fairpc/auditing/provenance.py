"""Where the facts come from: hashes, versions, settings, date."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from fairpc.auditing.rows import AuditedRows
from fairpc.circuit.file import to_dict
from fairpc.estimators.base import CircuitClassifier

_PACKAGES: Final = ("fairpc", "numpy", "scipy", "scikit-learn", "numba", "polars", "fairlearn")


@dataclass(frozen=True)
class Provenance:
    """What would be needed to do the audit again.

    Attributes:
        model: class of the model.
        model_hash: of the circuit, structure and parameters.
        training_hash: of the rows that the model was fitted to, encoded.
        audited_hash: of the audited rows, encoded the same way.
        settings: of the model.
        audit_settings: of the audit.
        versions: of Python and of the packages that are installed.
        platform: machine and operating system.
        date: when the audit was made, UTC.
        seconds: time each part of the audit took.
    """

    model: str
    model_hash: str
    training_hash: str
    audited_hash: str
    settings: Mapping[str, Any]
    audit_settings: Mapping[str, Any]
    versions: Mapping[str, str]
    platform: str
    date: str
    seconds: Mapping[str, float]


def provenance(
    model: CircuitClassifier,
    rows: AuditedRows,
    audit_settings: Mapping[str, Any],
    seconds: Mapping[str, float],
) -> Provenance:
    """Hashes, versions and settings as they are now."""
    return Provenance(
        model=type(model).__name__,
        model_hash=str(to_dict(model.circuit_)["checksum"]),
        training_hash=model.data_fingerprint_,
        audited_hash=rows.fingerprint,
        settings={name: _setting(value) for name, value in model.get_params().items()},
        audit_settings=dict(audit_settings),
        versions={"python": platform.python_version(), **_versions()},
        platform=platform.platform(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds={name: round(value, 3) for name, value in seconds.items()},
    )


def _setting(value: Any) -> Any:
    """A setting that JSON can hold; of anything else its class."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, tuple | list):
        return [_setting(item) for item in value]
    return type(value).__name__


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
