"""Do keys go to the partitions that Kafka's own producer chooses?"""

from __future__ import annotations

import random

import pyarrow as pa
from kafka.partitioner.default import murmur2 as plain_murmur2

from headrace.arrow.partitioner import choose_partitions, murmur2


def test_hashes_are_those_of_another_makers_client() -> None:
    """KIP-480: murmur2 of every length of key, also in a slice of a column."""
    rng = random.Random(5)
    keys = [b"", *(rng.randbytes(length) for length in range(1, 40)), rng.randbytes(500)]
    wanted = [plain_murmur2(key) & 0xFFFF_FFFF for key in keys]
    assert murmur2(pa.array(keys, pa.binary())).tolist() == wanted
    assert murmur2(pa.array(keys, pa.binary()).slice(3, 7)).tolist() == wanted[3:10]


def test_known_hash_of_kafkas_own_tests() -> None:
    """The value for `21` in Kafka's UtilsTest is -973932308."""
    assert murmur2(pa.array([b"21"], pa.binary())).astype("int32").tolist() == [-973932308]


def test_rows_without_key_go_in_blocks_in_turn() -> None:
    """Keyless rows stay together for a while, so that batches fill; rows with a key go by its hash."""
    keys = pa.array([None, None, b"a", None, None, None], pa.binary())
    by_hash = (plain_murmur2(b"a") & 0x7FFF_FFFF) % 3
    chosen = choose_partitions(keys, 6, count=3, sticky=1, sticky_rows=2)
    assert chosen.tolist() == [1, 1, by_hash, 2, 0, 0]
    assert choose_partitions(None, 3, count=2, sticky=0, sticky_rows=1).tolist() == [0, 1, 0]
