"""Do ids keep their text forms?"""

from __future__ import annotations

import random

import pytest

from headrace.core.ids import (
    LOST_DIRECTORY,
    METADATA_TOPIC_ID,
    MIGRATING_DIRECTORY,
    ONE_UUID,
    UNASSIGNED_DIRECTORY,
    ZERO_UUID,
    TopicPartition,
    Uuid,
    is_reserved_uuid,
    is_usable_random_uuid,
    random_uuid,
)

CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"


def test_a_cluster_id_is_22_characters_for_16_bytes() -> None:
    """S1-02: url-safe base64, there and back."""
    parsed = Uuid.parse(CLUSTER_ID)
    assert len(parsed) == 16
    assert str(parsed) == CLUSTER_ID
    assert Uuid(bytes(parsed)) == parsed


def test_dashed_and_plain_hex_are_accepted() -> None:
    """S1-04: wherever an id is given, hex with or without dashes is the same id."""
    dashed = "0e4bea03-de74-4fe7-8c0a-d2bef97f3ab3"
    assert str(Uuid.parse(dashed)) == "DkvqA950T-eMCtK--X86sw"
    assert Uuid.parse(dashed.replace("-", "")) == Uuid.parse(dashed)


@pytest.mark.parametrize(
    "text",
    ["", "5L6g3nShT-eMCtK--X86s", CLUSTER_ID + "A", "5L6g3nShT+eMCtK//X86sw", "zz" * 16, "ü" * 22, "A" * 21 + "B"],
)
def test_other_texts_are_refused(text: str) -> None:
    """S1-02: wrong length, wrong alphabet, bits behind the last byte."""
    with pytest.raises(ValueError, match="is not a uuid"):
        Uuid.parse(text)


def test_wrong_sizes_are_refused() -> None:
    """S1-02: sixteen bytes, no more and no fewer."""
    with pytest.raises(ValueError, match="16 bytes"):
        Uuid(b"x" * 15)


def test_reserved_ids() -> None:
    """S1-02: zero, one and the first hundred are Kafka's; a random id is none of these and starts with no dash."""
    assert str(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert METADATA_TOPIC_ID is ONE_UUID
    assert str(ONE_UUID) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert is_reserved_uuid(Uuid.from_numbers(0, 99))
    assert not is_reserved_uuid(Uuid.from_numbers(0, 100))
    assert not is_usable_random_uuid(Uuid(b"\xf8" + bytes(15)))
    assert is_usable_random_uuid(Uuid.parse(CLUSTER_ID))


def test_directory_ids_that_name_no_directory_are_kafkas() -> None:
    """KIP-858, B-C31: migrating, unassigned and lost; nodes of both kinds read them in one metadata log."""
    numbers = [Uuid.from_numbers(0, number) for number in (0, 1, 2)]
    assert numbers == [MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, LOST_DIRECTORY]


def test_random_ids_are_drawn_until_one_may_be_handed_out() -> None:
    """S1-02: version 4, and never one whose text begins with a dash."""
    draws = [b"\xf8" + bytes(15), bytes(15) + b"\x01", b"\x11" * 16]

    class Drawn(random.Random):
        def randbytes(self, n: int) -> bytes:
            return draws.pop(0)

    assert random_uuid(Drawn()).hex() == "00000000000040008000000000000001"
    assert draws == [b"\x11" * 16]


def test_a_partition_is_shown_as_kafka_names_its_directory() -> None:
    """S1-39: `topic-partition`."""
    assert str(TopicPartition("a-b", 7)) == "a-b-7"
