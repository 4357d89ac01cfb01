"""The image that a snapshot or a segment of the metadata log holds."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from mmap import ACCESS_READ, mmap
from typing import NamedTuple

from headrace.core.errors import OperatorError, PeerError
from headrace.core.ports import BytesLike
from headrace.metadata.image import MetadataImage
from headrace.metadata.loader import MetadataFault, MetadataLoader
from headrace.records.record import read_all_records

_LOG = logging.getLogger("headrace.cli")


class FileBatch(NamedTuple):
    """A batch of the file: `records` are framed metadata records. `timestamp` is ms."""

    base_offset: int
    last_offset: int
    epoch: int
    timestamp: int
    records: tuple[bytes, ...]


def image_in(path: str) -> MetadataImage:
    """The image after the last record of a `.checkpoint` or `.log` file. Raises OperatorError: it cannot be read or understood."""
    data = mapped(path)
    loader = MetadataLoader(is_any_level_read=True)
    try:
        loader.load_batches(list(batches(data)))
    except (MetadataFault, PeerError) as error:
        raise OperatorError(f"{path}: {error}") from None
    return loader.image


def batches(data: BytesLike) -> Iterator[FileBatch]:
    """The data batches of a file, without control batches; a torn end is left out. Raises PeerError for damage."""
    for header, records in read_all_records(data):
        if not header.is_control:
            values = tuple(record.value or b"" for record in records)
            yield FileBatch(header.base_offset, header.last_offset, header.leader_epoch, header.max_timestamp, values)


def mapped(path: str) -> BytesLike:
    """The bytes of a file. Raises OperatorError: it cannot be read."""
    try:
        with open(path, "rb") as file:
            if not file.read(1):
                return b""
            return memoryview(mmap(file.fileno(), 0, access=ACCESS_READ))
    except (OSError, ValueError) as error:
        raise OperatorError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
