"""The records with which a new cluster begins.

`headrace storage format` writes them to `bootstrap.checkpoint`; the first active controller puts them into the empty log (B-S10).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.errors import DecodeError
from headrace.metadata.image import METADATA_VERSION
from headrace.metadata.snapshot import VersionedRecord
from headrace.metadata.versions import LATEST_METADATA_VERSION
from headrace.wire.metadata_records.feature_level_record import FeatureLevelRecord
from headrace.wire.metadata_records.frame import decode_record_with_version
from headrace.wire.metadata_records.user_scram_credential_record import UserScramCredentialRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.metadata.image import ScramCredential


def bootstrap_records(
    *,
    metadata_version: int = LATEST_METADATA_VERSION,
    features: Mapping[str, int] | None = None,
    scram: Iterable[ScramCredential] = (),
) -> tuple[bytes, ...]:
    """The framed records: metadata.version first, then the other features whose level is above 0, then credentials."""
    levels = {METADATA_VERSION: metadata_version}
    levels.update((name, level) for name, level in sorted((features or {}).items()) if level != 0)
    records = [VersionedRecord(FeatureLevelRecord(name=name, feature_level=level), 0) for name, level in levels.items()]
    records += [
        VersionedRecord(
            UserScramCredentialRecord(
                name=each.name,
                mechanism=each.mechanism,
                salt=each.salt,
                stored_key=each.stored_key,
                server_key=each.server_key,
                iterations=each.iterations,
            ),
            0,
        )
        for each in scram
    ]
    return tuple(record.encode() for record in records)


def read_bootstrap_records(records: Iterable[bytes]) -> tuple[VersionedRecord, ...]:
    """The records of a `bootstrap.checkpoint`; those of the latest metadata.version when there is no such file.

    Raises DecodeError: unknown record, or no metadata.version among them.
    """
    given = tuple(records) or bootstrap_records()
    found = tuple(VersionedRecord(*decode_record_with_version(record)) for record in given)
    if bootstrap_metadata_version(found) is None:
        raise DecodeError("the bootstrap records name no metadata.version")
    return found


def bootstrap_metadata_version(records: Iterable[VersionedRecord]) -> int | None:
    """The level of metadata.version in bootstrap records, None when they do not say."""
    for each in records:
        record = each.record
        if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION:
            return record.feature_level
    return None
