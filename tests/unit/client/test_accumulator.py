"""When do records become batches?"""

from __future__ import annotations

import pytest

from headrace.client.accumulator import Accumulator, BatchOptions, codec_of
from headrace.client.partitioner import partition_for_key
from headrace.core.error_code import ErrorCode
from headrace.core.errors import OperatorError, PeerError
from headrace.records.compression import Codec
from headrace.records.record import read_records
from tests.support.conversation import knowing


def test_a_batch_goes_when_it_is_full_and_the_rest_when_its_time_is_up() -> None:
    """`batch.size` and `linger.ms`."""
    known = knowing()
    made = Accumulator(known, "t", BatchOptions(batch_bytes=200, linger_ms=50))
    full = [batch for number in range(5) for batch in made.add(None, b"x" * 50, timestamp_ms=number)]
    assert [len(read_records(batch.data)) for batch in full] == [2, 2]
    assert [batch.timestamps_ms for batch in full] == [[0, 1], [2, 3]]
    assert (made.due(), made.next_due_ms()) == ([], 50)
    known.now_ms = 50
    (last,) = made.due()
    assert [record.value for record in read_records(last.data)] == [b"x" * 50]
    assert made.next_due_ms() is None


def test_keys_choose_their_partition_and_a_named_one_wins() -> None:
    """Partitioning by key is that of all Kafka clients."""
    made = Accumulator(knowing(leaders=(1, 1, 1, 1)), "t", BatchOptions())
    made.add(b"key", b"v", timestamp_ms=0)
    made.add(b"key", b"v", timestamp_ms=0, partition=3)
    found = sorted(batch.where.partition for batch in made.due(is_forced=True))
    assert found == sorted({partition_for_key(b"key", 4), 3})


def test_records_without_a_key_avoid_partitions_without_a_leader() -> None:
    """KIP-794."""
    made = Accumulator(knowing(leaders=(-1, 1)), "t", BatchOptions(batch_bytes=100))
    found = [batch for _ in range(20) for batch in made.add(None, b"x" * 90, timestamp_ms=0)]
    assert {batch.where.partition for batch in found} == {1}


def test_a_record_larger_than_a_request_is_refused() -> None:
    """`max.request.size`."""
    made = Accumulator(knowing(), "t", BatchOptions(max_record_bytes=100))
    with pytest.raises(PeerError) as caught:
        made.add(None, b"x" * 101, timestamp_ms=0)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_headers_and_compression_arrive() -> None:
    """What goes in comes out."""
    made = Accumulator(knowing(), "t", BatchOptions(codec=codec_of("ZSTD")))
    made.add(b"k", None, timestamp_ms=9, headers=(("h", b"1"), ("n", None)))
    (batch,) = made.due(is_forced=True)
    (record,) = read_records(batch.data)
    assert (record.key, record.value, record.timestamp, record.headers) == (b"k", None, 9, (("h", b"1"), ("n", None)))
    assert codec_of("none") is Codec.NONE
    with pytest.raises(OperatorError, match="brotli"):
        codec_of("brotli")
