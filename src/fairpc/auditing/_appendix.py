"""What would be needed to do an audit again: date, versions, hashes, settings."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, cast

from fairpc.auditing import _blocks as blocks, _formats as text
from fairpc.auditing._job import Job
from fairpc.core import serialise
from fairpc.models import FittedModel, LatentDecision, SavedSettings

DISCLAIMER: Final = "This is evidence, not a certificate of compliance."
_PACKAGES: Final = ("fairpc", "numpy", "scipy", "scikit-learn", "numba", "polars")


@dataclass(frozen=True)
class AuditProvenance:
    """What would be needed to do the audit again."""

    model: str  #: class of the model; "decisions" where they came without one
    #: of the circuit, structure and parameters; or of the map from scores of a classifier to Df;
    #: empty, as the next, for decisions of anybody
    model_hash: str
    training_hash: str  #: of the rows that the model was fitted to, encoded
    audited_hash: str  #: of the audited rows, encoded the same way
    settings: Mapping[str, Any]  #: of the model, as its file has them
    audit_settings: Mapping[str, Any]  #: of the audit
    versions: Mapping[str, str]  #: of Python and of the packages that are installed
    date: str  #: when the audit was made, UTC
    seconds: Mapping[str, float]  #: time each part of the audit took


def provenance(job: Job) -> AuditProvenance:
    """Hashes, versions and settings as they are now."""
    installed, own = {}, job.decisions
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            installed[package] = version(package)
    return AuditProvenance(
        model=own.name if own else type(job.model).__name__,
        model_hash="" if own else job.model._fair().fingerprint,
        training_hash="" if own else job.model.data_fingerprint_,
        audited_hash=job.rows.fingerprint,
        settings={} if own else serialise(SavedSettings.of(cast("FittedModel", job.model))),
        audit_settings=asdict(job.settings),
        versions={"python": platform.python_version(), **installed},
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds={name: round(value, 3) for name, value in job.seconds.items()},
    )


@blocks.section("provenance", "Versions and settings")
def show_provenance(_: blocks.Audit, provenance: AuditProvenance) -> Iterator[blocks.Block]:
    """Date, hashes and versions; settings, folded."""
    hashes = "The hashes identify the model and the rows; equal hashes mean equal content."
    yield blocks.Paragraph(hashes)
    learned = (
        "Map of scores" if provenance.model == LatentDecision.__name__ else "Circuit and parameters"
    )
    identity = {
        "Model": provenance.model,
        learned: provenance.model_hash,
        "Training rows, encoded": provenance.training_hash,
        "Audited rows, encoded": provenance.audited_hash,
        "Date": provenance.date,
    }
    tables: dict[str, Mapping[str, Any]] = {
        "Identity": {name: value for name, value in identity.items() if value},
        "Versions": provenance.versions,
        "Settings of the model": provenance.settings,
        "Settings of the audit": provenance.audit_settings,
    }
    for number, (caption, values) in enumerate(tables.items()):
        cells = []
        for name, value in values.items():
            written = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            cells.append((name, text.name(written)))
        if cells:
            head, folded = ("What", "Value"), number > 1
            yield blocks.TableBlock(caption, head, cells, words={1}, folded=folded)
