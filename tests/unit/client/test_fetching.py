"""Are fetched batches checked, filtered and counted, and do positions move rightly?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.committed import data_records, payload_bytes
from headrace.client.consumption import Consumption
from headrace.client.fetcher import (
    AbortedRange,
    Fetched,
    FetchOptions,
    OffsetOutOfRange,
    fetch_one,
    fetch_request,
    sound_prefix,
)
from headrace.client.offsets import CommittedOffset
from headrace.client.talk import Answered, Ask, Lost
from headrace.core.error_code import ErrorCode
from headrace.core.errors import DecodeError, OperatorError, PeerError
from headrace.core.ids import TopicPartition
from headrace.records.compression import Codec
from headrace.records.control import ControlType, control_key
from headrace.records.record import NewRecord, Placement, ProducerStamp, build_batch, read_all_records
from headrace.wire.messages.fetch import FetchableTopicResponse, FetchResponse, LeaderIdAndEpoch, PartitionData
from headrace.wire.messages.metadata import MetadataRequest
from tests.support.conversation import FIRST, SECOND, TOPIC_ID, Cluster, knowing, message_of

T0 = TopicPartition("t", 0)
OPTIONS = FetchOptions()


def batch(
    base: int, values: list[bytes], *, codec: int = 0, producer: int = -1, is_transactional: bool = False
) -> bytearray:
    stamp = ProducerStamp(producer_id=producer, producer_epoch=0, base_sequence=0, is_transactional=is_transactional)
    records = [NewRecord(b"k" if index % 2 else None, value, 5) for index, value in enumerate(values)]
    return build_batch(records, codec=codec, producer=stamp, placement=Placement(base_offset=base))


def marker(base: int, producer: int, kind: ControlType) -> bytearray:
    stamp = ProducerStamp(
        producer_id=producer, producer_epoch=0, base_sequence=-1, is_transactional=True, is_control=True
    )
    return build_batch(
        [NewRecord(control_key(kind), b"\0\0\0\0\0\0", 5)], producer=stamp, placement=Placement(base_offset=base)
    )


def answer(records: bytes, **more: Any) -> Answered:
    part = PartitionData(partition_index=0, records=memoryview(records), high_watermark=100, log_start_offset=0, **more)
    topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=(part,))
    return Answered(response=FetchResponse(responses=(topic,)), version=17)


def test_whole_batches_are_kept_and_a_cut_last_one_is_left() -> None:
    """A broker cuts the last batch at the byte limit; the next fetch brings it whole."""
    first, second = batch(5, [b"a", b"b"]), batch(7, [b"c"])
    data = memoryview(bytes(first + second))
    assert sound_prefix(data, 5, is_crc_checked=True) == (len(data), 8)
    assert sound_prefix(data[:-1], 5, is_crc_checked=True) == (len(first), 7)
    assert sound_prefix(data[:30], 5, is_crc_checked=True) == (0, 5)


@pytest.mark.parametrize(
    "damage",
    [
        {8: 0x7F, 9: 0xFF},
        {8: 0xFF},
        {11: 0x00, 10: 0x00},
        {16: 1},
        {23: 0xFF},
    ],
    ids=[
        "length past the end leaves nothing",
        "negative length",
        "length below a header",
        "magic 1",
        "negative last delta",
    ],
)
def test_b52_batches_that_cannot_be_are_refused(damage: dict[int, int]) -> None:
    """B29, B52: a leader is not trusted; unsound bytes are never handed on."""
    data = batch(5, [b"a"])
    for at, value in damage.items():
        data[at] = value
    if 9 in damage:
        assert sound_prefix(memoryview(data), 5, is_crc_checked=True) == (0, 5)
        return
    with pytest.raises(DecodeError):
        sound_prefix(memoryview(data), 5, is_crc_checked=True)


def test_b52_batches_whose_offsets_do_not_rise_are_refused() -> None:
    """B52: not contiguous."""
    data = batch(5, [b"a", b"b"]) + batch(6, [b"c"])
    with pytest.raises(DecodeError, match="unsound"):
        sound_prefix(memoryview(data), 5, is_crc_checked=True)


def test_b29_an_answer_that_lies_before_what_was_asked_for_is_refused() -> None:
    """B29: whoever reads a range asks for the same offset again; a leader that repeats old batches would keep it for ever."""
    data = memoryview(bytes(batch(5, [b"a", b"b"]) + batch(7, [b"c"])))
    assert sound_prefix(data, 7, is_crc_checked=True) == (len(data), 8), "it may begin before"
    with pytest.raises(DecodeError, match="ends at offset 7, and 8 was asked for"):
        sound_prefix(data, 8, is_crc_checked=True)


def test_b29_a_batch_that_ends_behind_all_offsets_is_refused() -> None:
    """B29: the offset after it could not be asked for, and is below 0 where it is reckoned in 64 bits."""
    data = batch(2**63 - 6, [b"a"])
    data[23:27] = (5).to_bytes(4, "big")
    with pytest.raises(DecodeError, match="ends at offset"):
        sound_prefix(memoryview(data), 5, is_crc_checked=False)


def test_b52_a_wrong_checksum_is_found_unless_checking_is_off() -> None:
    """B52: `check.crcs`."""
    data = batch(5, [b"a"])
    data[-2] ^= 1
    with pytest.raises(PeerError) as caught:
        sound_prefix(memoryview(data), 5, is_crc_checked=True)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert sound_prefix(memoryview(data), 5, is_crc_checked=False) == (len(data), 6)


@given(st.binary(max_size=300), st.integers(0, 2**62))
def test_b29_any_bytes_are_batches_or_refused(data: bytes, offset: int) -> None:
    """B29: whatever a leader sends as records."""
    try:
        end, following = sound_prefix(memoryview(data), offset, is_crc_checked=True)
    except PeerError:
        return
    assert 0 <= end <= len(data)
    assert following >= offset


def test_a_committed_reader_sees_nothing_of_aborted_transactions() -> None:
    """KIP-98: records of an aborted transaction and control records are left out; what another producer wrote between is not."""
    data = b"".join(
        [
            batch(0, [b"aborted"], producer=1, is_transactional=True),
            batch(1, [b"plain"]),
            batch(2, [b"kept"], producer=2, is_transactional=True),
            marker(3, 1, ControlType.ABORT),
            batch(4, [b"later"], producer=1, is_transactional=True),
            marker(5, 2, ControlType.COMMIT),
            marker(6, 1, ControlType.COMMIT),
        ]
    )
    aborted = (AbortedRange(producer_id=1, first_offset=0),)
    seen = [record.value for _, record in data_records(memoryview(data), aborted, start=0, is_read_committed=True)]
    assert seen == [b"plain", b"kept", b"later"]
    every = [record.value for _, record in data_records(memoryview(data), (), start=1, is_read_committed=False)]
    assert every == [b"plain", b"kept", b"later"]


@pytest.mark.parametrize("codec", list(Codec))
def test_payload_is_counted_as_its_slow_twin_counts_it(codec: Codec) -> None:
    """The quick count of keys and values equals reading every record."""
    data = bytes(batch(0, [b"", b"x" * 63, b"y" * 64, b"z" * 9_000], codec=codec) + batch(4, [b"w"] * 300, codec=codec))
    every = [record for _, records in read_all_records(data) for record in records]
    for start, most in ((0, 10**9), (2, 10**9), (5, 10**9), (0, 3), (3, 100)):
        wanted = [record for record in every if record.offset >= start][:most]
        size = sum(len(record.key or b"") + len(record.value or b"") for record in wanted)
        assert payload_bytes(memoryview(data), start=start, most=most) == (len(wanted), size)


def test_b49_records_that_disagree_with_their_parts_are_refused_by_the_counter() -> None:
    """B49: the counter survives every byte of a batch's body being changed."""
    data = batch(0, [b"abc", b"def"])
    for at in range(61, len(data)):
        for value in (0, 0x7F, 0x80, 0xFF):
            changed = bytearray(data)
            changed[at] = value
            try:
                payload_bytes(memoryview(changed), start=0, most=10)
            except PeerError:
                continue


def test_a_fetch_follows_the_leader_that_the_answer_names() -> None:
    """KIP-951: NOT_LEADER_OR_FOLLOWER with a hint leads to a fetch from the new leader."""
    known = knowing(leaders=(1,))

    def play(ask: Ask) -> Answered:
        if ask.address == SECOND:
            return answer(bytes(batch(3, [b"a"])))
        hint = LeaderIdAndEpoch(leader_id=2, leader_epoch=9)
        return answer(b"", error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=hint)

    def play_with_metadata(ask: Ask) -> Any:
        if isinstance(message_of(ask, 12), MetadataRequest):
            from tests.unit.client.test_routing_conversations import metadata

            return metadata({0: 2}, epoch=9)
        return play(ask)

    found = Cluster(known, play_with_metadata).hold(fetch_one(known, T0, 3, OPTIONS))
    assert (found.next_offset, bytes(found.records)) == (4, bytes(batch(3, [b"a"])))


def test_a_fetch_goes_to_the_copy_that_the_leader_names() -> None:
    """KIP-392: the leader is told the rack; the copy that it names is asked from then on, and the leader again when metadata are old."""
    known = knowing()
    known.settings = replace(known.settings, rack="b")
    records = bytes(batch(3, [b"a"]))

    def play(ask: Ask) -> Answered:
        assert message_of(ask, 17).rack_id == "b"
        return answer(records) if ask.address == SECOND else answer(b"", preferred_read_replica=2)

    cluster = Cluster(known, play)
    assert cluster.hold(fetch_one(known, T0, 3, OPTIONS)).next_offset == 4
    assert cluster.hold(fetch_one(known, T0, 3, OPTIONS)).next_offset == 4
    known.now_ms += known.settings.metadata_max_age_ms
    assert cluster.hold(fetch_one(known, T0, 3, OPTIONS)).next_offset == 4
    assert [each.address for each in cluster.asked] == [FIRST, SECOND, SECOND, FIRST, SECOND]


def test_a_copy_that_is_behind_or_gone_gives_way_to_the_leader() -> None:
    """KIP-392: what a copy does not have its leader may have; copies that name each other are not followed for ever."""
    from tests.unit.client.test_routing_conversations import metadata

    for lost in (
        answer(b"", error_code=ErrorCode.OFFSET_OUT_OF_RANGE),
        Lost(reason="cut"),
        answer(b"", preferred_read_replica=1),
    ):
        known = knowing()
        known.cluster.near[T0] = (2, known.settings.metadata_max_age_ms)

        def play(ask: Ask, lost: Answered | Lost = lost) -> Answered | Lost:
            if isinstance(message_of(ask, 12), MetadataRequest):
                return metadata({0: 1}, epoch=9)
            return lost if ask.address == SECOND else answer(bytes(batch(3, [b"a"])))

        cluster = Cluster(known, play)
        assert cluster.hold(fetch_one(known, T0, 3, OPTIONS)).next_offset == 4
        assert (cluster.asked[0].address, cluster.asked[-1].address) == (SECOND, FIRST)
    known = knowing()

    def play_in_a_circle(ask: Ask) -> Answered:
        if isinstance(message_of(ask, 12), MetadataRequest):
            return metadata({0: 1}, epoch=9)
        return answer(b"", preferred_read_replica=2 if ask.address == FIRST else 1)

    circle = Cluster(known, play_in_a_circle)
    with pytest.raises(PeerError, match="each copy names another"):
        circle.hold(fetch_one(known, T0, 3, OPTIONS))
    assert circle.paused_ms


def test_a_consumer_turns_to_the_copy_that_the_leader_names_and_back() -> None:
    """KIP-392: the position stays where it was; out of range at the copy is no reason to begin anew."""
    known = knowing()
    consumption = Consumption(known, options=OPTIONS, reset="latest")
    consumption.assign([T0])
    consumption.seek(T0, 5)
    leaders = []
    for part in (replace(fetched(5), preferred_replica=2), OffsetOutOfRange(T0, 5, 9), fetched(6)):
        (plan,), _ = consumption.plan(is_free=lambda leader: True)
        leaders.append(plan.leader)
        consumption.take(plan.positions, {T0: part})
    assert (leaders, consumption.positions) == ([1, 2, 1], {T0: 6})


def test_an_offset_outside_the_log_is_told_with_where_it_begins() -> None:
    """Spark needs `log_start_offset` to know what retention took."""
    known = knowing()
    cluster = Cluster(known, lambda ask: answer(b"", error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    with pytest.raises(OffsetOutOfRange) as caught:
        cluster.hold(fetch_one(known, T0, 500, OPTIONS))
    assert (caught.value.offset, caught.value.log_start_offset) == (500, 0)


def test_fetch_goes_by_name_where_the_topics_id_is_not_known() -> None:
    """Fetch 13 knows topics by id only."""
    assert fetch_request(knowing(), {T0: 1}, OPTIONS).at_most == 32767
    assert fetch_request(knowing(has_id=False), {T0: 1}, OPTIONS).at_most == 12


def fetched(following: int) -> Fetched:
    return Fetched(
        records=memoryview(b""), next_offset=following, high_watermark=0, last_stable_offset=0, log_start_offset=0
    )


def test_positions_move_behind_what_was_fetched_and_stale_answers_are_dropped() -> None:
    """An answer to a position that was left in the meantime (seek, new assignment) does not count."""
    known = knowing()
    consumption = Consumption(known, options=OPTIONS, reset="latest")
    consumption.assign([T0])
    consumption.seek(T0, 5)
    (plan,), unknown = consumption.plan(is_free=lambda leader: True)
    assert (plan.positions, unknown) == ({T0: 5}, [])
    consumption.seek(T0, 50)
    assert consumption.take(plan.positions, {T0: fetched(9)}) == []
    assert consumption.positions == {T0: 50}
    (chunk,) = consumption.take({T0: 50}, {T0: fetched(60)})
    assert (chunk.start, consumption.positions) == (50, {T0: 60})


def test_a_new_partition_starts_at_the_commit_else_by_the_reset_policy() -> None:
    """`auto.offset.reset`."""
    known = knowing()
    consumption = Consumption(known, options=OPTIONS, reset="none")
    consumption.assign([T0])
    with pytest.raises(OperatorError, match=r"auto\.offset\.reset=none"):
        Cluster(known, lambda ask: None).hold(consumption.place({}))
    Cluster(known, lambda ask: None).hold(consumption.place({T0: CommittedOffset(offset=12)}))
    assert consumption.positions == {T0: 12}


def test_a_position_that_retention_took_is_placed_anew() -> None:
    """OFFSET_OUT_OF_RANGE with a policy other than none."""
    consumption = Consumption(knowing(), options=OPTIONS, reset="earliest")
    consumption.assign([T0])
    consumption.seek(T0, 5)
    consumption.take({T0: 5}, {T0: OffsetOutOfRange(T0, 5, 10)})
    assert (consumption.positions, list(consumption.unplaced)) == ({}, [T0])
