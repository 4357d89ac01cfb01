"""Names of the things of a cluster on the wire."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, NamedTuple, NewType, Self

if TYPE_CHECKING:
    from headrace.core.ports import Rng

BrokerId = NewType("BrokerId", int)
ProducerId = NewType("ProducerId", int)
CorrelationId = NewType("CorrelationId", int)

UUID_BYTES = 16
_BASE64_LENGTH = 22
_HEX_DIGITS = 32


class Uuid(bytes):
    """Sixteen bytes that name a cluster, topic, directory or incarnation. Source: S1-02.

    `str()` is Kafka's text form: url-safe base64 without padding, 22 characters.
    """

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """The uuid of a text, in base64 (22 characters) or in hex with or without dashes. Source: S1-02, S1-04.

        Raises ValueError when the text is neither.
        """
        digits = text.replace("-", "") if len(text) > _BASE64_LENGTH else text
        try:
            if len(digits) == _HEX_DIGITS:
                return cls(bytes.fromhex(digits))
            if len(text) == _BASE64_LENGTH:
                parsed = cls(urlsafe_b64decode(text + "=="))
                if str(parsed) == text:
                    return parsed
        except ValueError:
            pass
        raise ValueError(f"{text!r} is not a uuid: expected 22 characters of url-safe base64, or 32 hex digits")

    @classmethod
    def from_numbers(cls, high: int, low: int) -> Self:
        """The uuid of two 64-bit halves, as Kafka's constants are written."""
        return cls((high & (1 << 64) - 1).to_bytes(8, "big") + (low & (1 << 64) - 1).to_bytes(8, "big"))

    def __new__(cls, value: bytes | bytearray | memoryview = bytes(UUID_BYTES)) -> Self:
        """Raises ValueError when there are not 16 bytes."""
        if len(value) != UUID_BYTES:
            raise ValueError(f"a uuid has {UUID_BYTES} bytes, not {len(value)}")
        return super().__new__(cls, value)

    def __str__(self) -> str:
        return urlsafe_b64encode(self)[:_BASE64_LENGTH].decode("ascii")

    def __repr__(self) -> str:
        return f"Uuid.parse({str(self)!r})"


ZERO_UUID = Uuid.from_numbers(0, 0)
ONE_UUID = Uuid.from_numbers(0, 1)
METADATA_TOPIC_ID = ONE_UUID
"""The topic id of `__cluster_metadata` (KIP-516)."""

MIGRATING_DIRECTORY = ZERO_UUID
UNASSIGNED_DIRECTORY = ONE_UUID
LOST_DIRECTORY = Uuid.from_numbers(0, 2)
"""What a directory id means that names no directory (KIP-858): of a replica from before directories were known, of one that is not placed
yet, of one in a directory that failed. The numbers are those of Apache Kafka 4.3.1."""

FIRST_FREE_UUID = Uuid.from_numbers(0, 100)
"""Below this all uuids are reserved, as in Kafka."""


def is_reserved_uuid(value: Uuid) -> bool:
    """Whether Kafka keeps this uuid for itself: the first hundred."""
    return value < FIRST_FREE_UUID


def random_uuid(rng: Rng) -> Uuid:
    """A random uuid of version 4 that is not reserved and whose text is no command-line option, as Kafka makes them."""
    while True:
        data = bytearray(rng.randbytes(UUID_BYTES))
        data[6], data[8] = data[6] & 0x0F | 0x40, data[8] & 0x3F | 0x80
        found = Uuid(data)
        if is_usable_random_uuid(found):
            return found


def is_usable_random_uuid(value: Uuid) -> bool:
    """Whether a freshly drawn uuid may be handed out: not reserved, and its text is no command-line option."""
    return not is_reserved_uuid(value) and not str(value).startswith("-")


class TopicPartition(NamedTuple):
    """A partition by its topic's name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicIdPartition(NamedTuple):
    """A partition by its topic's id, which outlives a deletion and re-creation under the same name (KIP-516)."""

    topic_id: Uuid
    partition: int
