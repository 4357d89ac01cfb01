"""Settings of the record batches that are made: codec and size."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSettings:
    """How batches are made: `codec` is the number in a batch's attributes (0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd), `level` None its usual one.

    `max_batch_bytes` bounds a batch before compression; a record that is larger is a batch of its own.
    """

    codec: int = 0
    level: int | None = None
    max_batch_bytes: int = 512 << 10
