"""What does the compiled codec refuse, and what does it leave out?"""

from __future__ import annotations

import dataclasses
import struct
import tracemalloc

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.errors import DecodeError, EncodeError
from headrace.core.ids import ONE_UUID, ZERO_UUID
from headrace.wire import reader
from headrace.wire.codec import decode, decode_from, encode, encode_into
from headrace.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from headrace.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from headrace.wire.messages.create_topics import CreateTopicsResponse
from headrace.wire.messages.delete_topics import DeleteTopicsRequest
from headrace.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, RequestCursor
from headrace.wire.messages.fetch import FetchRequest, ReplicaState
from headrace.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.wire.messages.unregister_broker import EmptiedTopic, UnregisterBrokerRequest, UnregisterBrokerResponse
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord

I4 = struct.Struct(">i")
VARINT_MAX = b"\xff\xff\xff\xff\x0f"


def refused(cls: type[MetadataRequest] | type[HeartbeatRequest], data: bytes, version: int) -> str:
    with pytest.raises(DecodeError) as caught:
        decode(cls, data, version)
    return str(caught.value)


@pytest.mark.parametrize("count", [2**31 - 1, 1, -2, -(2**31)])
def test_counts_that_the_bytes_cannot_fill_are_refused(count: int) -> None:
    """B20: 2^31-1, one more than fits, -2 and below, in the old form."""
    assert "topics" in refused(MetadataRequest, I4.pack(count), 1)


def test_a_count_is_held_against_the_smallest_element() -> None:
    """B20, K45: three elements of two bytes do not fit into five; nothing is made before that is seen."""
    five_bytes = b"\0\x01a\0\0"
    assert "topics" in refused(MetadataRequest, I4.pack(3) + five_bytes, 1)
    assert decode(MetadataRequest, I4.pack(2) + five_bytes, 1).topics == (
        MetadataRequestTopic(name="a"),
        MetadataRequestTopic(name=""),
    )


def test_null_is_refused_where_it_is_not_allowed() -> None:
    """B20, B22: -1 for an array (Metadata v0) and for a string (Heartbeat's group)."""
    assert "null" in refused(MetadataRequest, I4.pack(-1), 0)
    assert decode(MetadataRequest, I4.pack(-1), 1).topics is None
    assert "null" in refused(HeartbeatRequest, b"\xff\xff" + bytes(20), 0)


def test_forged_counts_allocate_nothing() -> None:
    """B20, B21, M2: the largest counts at each level of nesting; less memory than a small multiple of the frame."""
    good = encode(
        ProduceRequest(
            topic_data=(TopicProduceData(name="t", partition_data=(PartitionProduceData(records=b"abc"),)),)
        ),
        9,
    )
    old = encode(
        ProduceRequest(
            topic_data=(TopicProduceData(name="t", partition_data=(PartitionProduceData(records=b"abc"),)),)
        ),
        8,
    )
    frames = [(good[:i] + VARINT_MAX + good[i + 1 :], 9) for i in range(len(good))]
    frames += [(old[:i] + I4.pack(2**31 - 1) + old[i + 4 :], 8) for i in range(len(old) - 4)]
    decode(ProduceRequest, good, 9)
    decode(ProduceRequest, old, 8)
    tracemalloc.start()
    try:
        for data, version in frames:
            try:
                decode(ProduceRequest, data, version)
            except DecodeError:
                continue
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_parts_of_one_message_are_limited_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """B21, B25, M2: a million topics are read; the number of parts has a limit, whatever the nesting."""
    topics = (MetadataRequestTopic(name="x"),) * 1000
    data = encode(MetadataRequest(topics=topics), 1)
    assert len(decode(MetadataRequest, data, 1).topics or ()) == 1000
    monkeypatch.setattr(reader, "MAX_REQUEST_PARTS", 999)
    compiled = reader.compile_reader(MetadataRequest, 1)
    with pytest.raises(DecodeError, match="999 parts"):
        compiled(data, 0)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x00\x05ab", id="past the end"),
        pytest.param(b"\xff\xfe", id="-2"),
        pytest.param(b"\x00\x02\xff\xfe" + bytes(8), id="not UTF-8"),
        pytest.param(b"\x00\x02\xed\xa0" + bytes(8), id="half a surrogate"),
    ],
)
def test_bad_strings_are_refused(data: bytes) -> None:
    """B22: a length past the end or negative; bytes that are no UTF-8."""
    refused(HeartbeatRequest, data, 0)


def test_compact_strings_have_the_limit_of_plain_ones() -> None:
    """B22: 32,767 bytes, read and written; Kafka refuses more in either form."""
    fits, above = "x" * 32_767, "x" * 32_768
    for version in (0, 4):
        assert decode(HeartbeatRequest, encode(HeartbeatRequest(group_id=fits), version), version).group_id == fits
        with pytest.raises(EncodeError):
            encode(HeartbeatRequest(group_id=above), version)
    forged = b"\x81\x80\x02" + above.encode() + bytes(4) + b"\x01\x00\x00"
    assert "length" in refused(HeartbeatRequest, forged, 4)


def test_bytes_left_over_and_missing_are_refused() -> None:
    """B4: one byte more, each byte fewer."""
    good = encode(HeartbeatRequest(group_id="g", member_id="m"), 4)
    assert "left over" in refused(HeartbeatRequest, good + b"\0", 4)
    assert decode(HeartbeatRequest, good + b"\0", 4, allow_trailing=True).group_id == "g"
    for size in range(len(good)):
        refused(HeartbeatRequest, good[:size], 4)


def _tagged(*fields: tuple[int, bytes]) -> bytes:
    head = encode(HeartbeatResponse(), 4)[:-1]
    return head + bytes([len(fields)]) + b"".join(bytes([tag, len(body)]) + body for tag, body in fields)


def test_unknown_tagged_fields_are_skipped() -> None:
    """B-W03, B8: one, several, empty ones, ten thousand small ones."""
    assert decode(HeartbeatResponse, _tagged((9, b"abc")), 4) == HeartbeatResponse()
    assert decode(HeartbeatResponse, _tagged((0, b""), (9, b"abc"), (10, b"")), 4) == HeartbeatResponse()
    many = bytearray(encode(HeartbeatResponse(), 4)[:-1] + b"\x90\x4e")
    for number in range(10_000):
        many += bytes([number & 0x7F | 0x80, number >> 7]) if number > 127 else bytes([number])
        many += b"\0"
    assert decode(HeartbeatResponse, many, 4) == HeartbeatResponse()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(_tagged((9, b""), (9, b"")), id="repeated"),
        pytest.param(_tagged((9, b""), (8, b"")), id="out of order"),
        pytest.param(_tagged((9, b"abc"))[:-1], id="size past the end"),
        pytest.param(encode(HeartbeatResponse(), 4)[:-1] + VARINT_MAX, id="count 2^32-1"),
        pytest.param(encode(HeartbeatResponse(), 4)[:-1] + b"\x01\x09" + VARINT_MAX, id="size 2^32-1"),
        pytest.param(encode(HeartbeatResponse(), 4)[:-1] + b"\x02\x09\x00", id="fewer than said"),
    ],
)
def test_malformed_tagged_fields_are_refused(data: bytes) -> None:
    """B8: repeated, out of order, of a wrong size, too many."""
    with pytest.raises(DecodeError):
        decode(HeartbeatResponse, data, 4)


def test_a_known_tagged_field_must_have_its_size() -> None:
    """B8: PartitionChangeRecord's leader (tag 1) is four bytes, not five."""
    good = encode(PartitionChangeRecord(leader=7), 0)
    assert good.endswith(b"\x01\x01\x04" + I4.pack(7))
    assert decode(PartitionChangeRecord, good, 0).leader == 7
    longer = good[:-5] + b"\x05" + I4.pack(7) + b"\0"
    with pytest.raises(DecodeError, match="tagged field 1"):
        decode(PartitionChangeRecord, longer, 0)


def test_tagged_fields_at_their_default_are_left_out() -> None:
    """B-C06: absent means unchanged; an empty ISR and none at all are two things."""
    assert encode(PartitionChangeRecord(), 0)[-1] == 0
    empty = encode(PartitionChangeRecord(isr=()), 0)
    assert decode(PartitionChangeRecord, empty, 0).isr == ()
    assert decode(PartitionChangeRecord, encode(PartitionChangeRecord(), 0), 0).isr is None


def test_a_field_that_the_version_lacks() -> None:
    """As Kafka's classes: an ignorable one is dropped, another one at its default too, and otherwise the writer refuses."""
    named = DeleteTopicsRequest(topic_names=("a",))
    assert decode(DeleteTopicsRequest, encode(named, 5), 5) == named
    assert decode(DeleteTopicsRequest, encode(named, 6), 6) == DeleteTopicsRequest()
    with pytest.raises(EncodeError, match="replica_state is set, but version 14"):
        encode(FetchRequest(replica_state=ReplicaState(replica_id=3)), 14)
    assert decode(FetchRequest, encode(FetchRequest(session_id=5), 6), 6) == FetchRequest()
    with pytest.raises(EncodeError, match="is null"):
        encode(MetadataRequest(topics=None), 0)


def test_nullable_structs() -> None:
    """KIP-893: one byte says whether a struct follows; another value than 1 and -1 is refused."""
    cursor = DescribeTopicPartitionsRequest(cursor=RequestCursor(topic_name="t", partition_index=3))
    with_cursor, without = encode(cursor, 0), encode(DescribeTopicPartitionsRequest(), 0)
    assert decode(DescribeTopicPartitionsRequest, with_cursor, 0) == cursor
    assert decode(DescribeTopicPartitionsRequest, without, 0).cursor is None
    with pytest.raises(DecodeError, match="cursor"):
        decode(DescribeTopicPartitionsRequest, without[:-2] + b"\x02\x00", 0)


def test_unknown_versions() -> None:
    """B6: below and above what there is; the code says so."""
    for version in (-1, 5, 32_767):
        with pytest.raises(DecodeError) as caught:
            decode(HeartbeatRequest, b"", version)
        assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
        with pytest.raises(EncodeError):
            encode(HeartbeatRequest(), version)


@pytest.mark.parametrize("port", [0, 1, 65_535])
def test_ports_are_unsigned(port: int) -> None:
    """S1-47: port 65535 survives; the listener's protocol is 0 to 3."""
    listener = Listener(name="PLAINTEXT", host="h", port=port, security_protocol=3)
    request = BrokerRegistrationRequest(broker_id=1, cluster_id="c", incarnation_id=ONE_UUID, listeners=(listener,))
    assert decode(BrokerRegistrationRequest, encode(request, 0), 0).listeners == (listener,)
    with pytest.raises(EncodeError):
        encode(BrokerRegistrationRequest(listeners=(dataclasses.replace(listener, port=65_536),)), 0)


def test_broker_registration_in_each_version() -> None:
    """S1-42..S1-50: the fields and the version in which each came."""
    feature = Feature(name="metadata.version", min_supported_version=1, max_supported_version=30)
    plain = BrokerRegistrationRequest(
        broker_id=2**31 - 1,
        cluster_id="5L6g3nShT-eMCtK--X86sw",
        incarnation_id=ONE_UUID,
        features=(feature,),
        rack="r1",
    )
    for version in range(5):
        full = dataclasses.replace(
            plain,
            is_migrating_zk_broker=version >= 1,
            log_dirs=(ONE_UUID,) if version >= 2 else (),
            previous_broker_epoch=9 if version >= 3 else -1,
        )
        assert decode(BrokerRegistrationRequest, encode(full, version), version) == full
    assert decode(BrokerRegistrationRequest, encode(dataclasses.replace(plain, rack=None), 0), 0).rack is None


def test_project_tags_of_unregister_broker() -> None:
    """S1-63, S1-64: with and without our tagged fields; without them the bytes are Kafka's."""
    stock = encode(UnregisterBrokerRequest(broker_id=3), 0)
    assert stock == I4.pack(3) + b"\0"
    forced = UnregisterBrokerRequest(broker_id=3, remove_from_assignments=True, force=True)
    assert decode(UnregisterBrokerRequest, encode(forced, 0), 0) == forced
    assert decode(UnregisterBrokerRequest, stock, 0).force is False
    refused = UnregisterBrokerResponse(throttle_time_ms=7, error_code=42, error_message="why")
    assert encode(refused, 0) == I4.pack(7) + b"\0\x2a" + b"\4why" + b"\0"
    lossy = dataclasses.replace(refused, emptied_topics=(EmptiedTopic(name="t", partitions=(0, 3)),))
    assert decode(UnregisterBrokerResponse, encode(lossy, 0), 0) == lossy


def test_records_are_views_onto_the_frame() -> None:
    """House rule: payloads are not copied; whatever else is read is not bound to the frame."""
    data = bytearray(
        encode(
            ProduceRequest(
                topic_data=(TopicProduceData(name="t", partition_data=(PartitionProduceData(records=b"abc"),)),)
            ),
            9,
        )
    )
    request = decode(ProduceRequest, memoryview(data), 9)
    records = request.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    data[data.index(b"abc")] = ord("z")
    assert bytes(records) == b"zbc"
    assert request.topic_data[0].name == "t"


def test_a_message_in_the_middle_of_bytes() -> None:
    """`decode_from` starts where it is told and says where it stopped."""
    data = b"xx" + encode(HeartbeatRequest(group_id="g"), 3)
    assert decode_from(HeartbeatRequest, data + b"yy", 2, 3) == (HeartbeatRequest(group_id="g"), len(data))
    out = bytearray(b"xx")
    encode_into(HeartbeatRequest(group_id="g"), 3, out)
    assert out == data


def test_wrong_types_are_an_encode_error() -> None:
    """A value of the wrong type or size is our bug, and says where it is."""
    with pytest.raises(EncodeError, match="HeartbeatRequest v0"):
        encode(HeartbeatRequest(generation_id=1 << 31), 0)
    with pytest.raises(EncodeError, match="HeartbeatRequest v0"):
        encode(HeartbeatRequest(group_id=5), 0)  # type: ignore[arg-type]
    with pytest.raises(EncodeError, match="HeartbeatRequest v0"):
        encode(HeartbeatRequest(group_id="\ud800"), 0)


def test_messages_are_values() -> None:
    """Equal by class and fields, hashable, printable, replaceable."""
    one = MetadataRequest(topics=(MetadataRequestTopic(name="a"),))
    assert one == MetadataRequest(topics=(MetadataRequestTopic(name="a"),))
    assert one != MetadataRequest()
    assert one != "MetadataRequest"
    assert hash(one) == hash(dataclasses.replace(one))
    assert dataclasses.replace(one, topics=None).topics is None
    assert [field.name for field in dataclasses.fields(MetadataRequestTopic)] == ["topic_id", "name"]
    assert repr(MetadataRequestTopic(name="a")) == f"MetadataRequestTopic(topic_id={ZERO_UUID!r}, name='a')"
    assert not hasattr(one, "__dict__")


def test_structs_with_one_name_in_request_and_response() -> None:
    """Shared structs and defaults: a nested default, fields that moved between versions."""
    assert decode(
        AddPartitionsToTxnRequest, encode(AddPartitionsToTxnRequest(v3_and_below_transactional_id="t"), 3), 3
    ) == (AddPartitionsToTxnRequest(v3_and_below_transactional_id="t"))
    assert decode(CreateTopicsResponse, encode(CreateTopicsResponse(), 2), 2) == CreateTopicsResponse()
    assert decode(MetadataResponse, encode(MetadataResponse(controller_id=4), 1), 1).controller_id == 4
