"""What does a consumer get, in every version, with and without a session?"""

from __future__ import annotations

import threading

import pytest

from headrace.core.ids import Uuid
from headrace.records.batch import iter_batches
from headrace.wire.messages.fetch import FetchPartition, ForgottenTopic
from tests.support.peer import Peer, batch, fetch_request
from tests.support.raw import request_frame, row_of


def fill(peer: Peer, topic: str, count: int = 3, size: int = 100, partition: int = 0) -> None:
    """So many batches of one record."""
    for _ in range(count):
        assert peer.produce(topic, batch(b"x" * size), partition=partition).error_code == 0


def offsets(records: bytes | memoryview | None) -> list[int]:
    """The base offsets of the whole batches."""
    return [header.base_offset for _, header in iter_batches(bytes(records or b""))]


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_reads_what_was_written(peer: Peer, topic: str, version: int) -> None:
    """S1-35: by name up to version 12, by topic id from 13 on."""
    fill(peer, topic)
    name = peer.metadata(topic).topic_id if version >= 13 else topic
    found = peer.ask(fetch_request(name, offset=1), version).responses[0].partitions[0]
    assert (found.error_code, found.high_watermark, found.last_stable_offset) == (0, 3, 3)
    assert offsets(found.records) == [1, 2]


@pytest.mark.parametrize(("offset", "code"), [(0, 0), (3, 0), (4, 1), (-1, 1)])
def test_offsets_outside_the_log_are_an_error(peer: Peer, topic: str, offset: int, code: int) -> None:
    """OFFSET_OUT_OF_RANGE; the log end itself is fine and empty."""
    fill(peer, topic)
    found = peer.ask(fetch_request(topic, offset=offset), 11).responses[0].partitions[0]
    assert found.error_code == code
    if code:
        assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (-1, -1, -1)


def test_the_first_batch_comes_whole_and_limits_hold_after_it(peer: Peer, topic: str) -> None:
    """B-P07: progress even when a batch is larger than every limit."""
    fill(peer, topic, count=4, size=1000)
    small = (FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1),)
    found = peer.ask(fetch_request(topic, small), 11).responses[0].partitions[0]
    assert offsets(found.records) == [0]
    found = peer.ask(fetch_request(topic, max_bytes=1), 11).responses[0].partitions[0]
    assert offsets(found.records) == [0]
    room = (FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=2500),)
    found = peer.ask(fetch_request(topic, room), 11).responses[0].partitions[0]
    assert offsets(found.records) == [0, 1]


def test_max_bytes_holds_over_all_partitions(peer: Peer, topic: str) -> None:
    """B-P07: the second partition waits for the next fetch."""
    fill(peer, topic, size=1000)
    fill(peer, topic, size=1000, partition=1)
    both = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20) for index in (0, 1)]
    answer = peer.ask(fetch_request(topic, both, max_bytes=1200), 11).responses[0].partitions
    assert sorted(len(offsets(one.records)) for one in answer) == [0, 1]


def test_a_fetch_waits_for_data_and_is_woken_by_it(peer: Peer, topic: str) -> None:
    """B-P07: long poll; without data it is answered, empty, after `max_wait_ms`."""
    request = fetch_request(topic, max_wait_ms=100)
    assert offsets(peer.ask(request, 11).responses[0].partitions[0].records) == []
    with peer.connect() as connection:
        waiting = fetch_request(topic, max_wait_ms=20_000)
        connection.send(request_frame(waiting, 11))
        threading.Timer(0.05, lambda: fill(peer, topic, count=1)).start()
        found = connection.answer(row_of(waiting), 11).responses[0].partitions[0]
    assert (found.error_code, found.high_watermark, offsets(found.records)) == (0, 1, [0])


def test_min_bytes_are_waited_for(peer: Peer, topic: str) -> None:
    """B-P07: one small batch is not enough, two are."""
    fill(peer, topic, count=1, size=500)
    with peer.connect() as connection:
        waiting = fetch_request(topic, min_bytes=1000, max_wait_ms=20_000)
        connection.send(request_frame(waiting, 11))
        threading.Timer(0.05, lambda: fill(peer, topic, count=1, size=500)).start()
        found = connection.answer(row_of(waiting), 11).responses[0].partitions[0]
    assert (found.error_code, offsets(found.records)) == (0, [0, 1])


@pytest.mark.parametrize(("epoch", "code"), [(-1, 0), (0, 0), (1, 75)])
def test_leader_epochs_are_checked(peer: Peer, topic: str, epoch: int, code: int) -> None:
    """P14, KIP-320: a newer epoch than known is UNKNOWN_LEADER_EPOCH."""
    fill(peer, topic)
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20, current_leader_epoch=epoch)
    assert peer.ask(fetch_request(topic, [asked]), 11).responses[0].partitions[0].error_code == code


@pytest.mark.parametrize(("last_epoch", "offset", "diverges"), [(0, 3, False), (0, 9, True), (-1, 2, False)])
def test_a_history_that_parted_is_told_so(peer: Peer, topic: str, last_epoch: int, offset: int, diverges: bool) -> None:
    """KIP-595: the reader says which epoch it read last."""
    fill(peer, topic)
    asked = FetchPartition(partition=0, fetch_offset=offset, last_fetched_epoch=last_epoch, partition_max_bytes=1 << 20)
    found = peer.ask(fetch_request(topic, [asked]), 12).responses[0].partitions[0]
    assert found.error_code == 0
    assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == ((0, 3) if diverges else (-1, -1))


def test_unknown_topics_and_ids_are_errors_of_their_own(peer: Peer, topic: str) -> None:
    """B27: 3 by name, 100 by id."""
    assert peer.ask(fetch_request("nobody-made-this"), 11).responses[0].partitions[0].error_code == 3
    unknown = Uuid(b"0123456789abcdef")
    assert peer.ask(fetch_request(unknown), 13).responses[0].partitions[0].error_code == 100
    far = [FetchPartition(partition=9, fetch_offset=0, partition_max_bytes=100)]
    assert peer.ask(fetch_request(topic, far), 11).responses[0].partitions[0].error_code == 3


@pytest.mark.parametrize("version", [7, 11, 12, 13, 17])
def test_a_session_tells_only_what_changed(peer: Peer, topic: str, version: int) -> None:
    """B-P07, KIP-227: full, then incremental."""
    fill(peer, topic)
    name = peer.metadata(topic).topic_id if version >= 13 else topic
    both = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20) for index in (0, 1)]
    with peer.connect() as connection:
        first = connection.ask(fetch_request(name, both, session_epoch=0), version)
        assert first.session_id > 0
        assert sorted(one.partition_index for one in first.responses[0].partitions) == [0, 1]
        on = [FetchPartition(partition=0, fetch_offset=3, partition_max_bytes=1 << 20)]
        second = connection.ask(fetch_request(name, on, session_id=first.session_id, session_epoch=1), version)
        assert (second.error_code, second.session_id, second.responses) == (0, first.session_id, ())
        fill(peer, topic, count=1, partition=1)
        third = connection.ask(fetch_request(name, (), session_id=first.session_id, session_epoch=2), version)
        assert [one.partition_index for one in third.responses[0].partitions] == [1]
        forgotten = (
            ForgottenTopic(topic_id=name, partitions=(1,))
            if isinstance(name, Uuid)
            else ForgottenTopic(topic=name, partitions=(1,))
        )
        fourth = connection.ask(
            fetch_request(name, (), session_id=first.session_id, session_epoch=3, forgotten_topics_data=(forgotten,)),
            version,
        )
        assert fourth.responses == ()


def test_sessions_that_do_not_exist_or_are_out_of_step_are_refused(peer: Peer, topic: str) -> None:
    """B-P07: error codes 70 and 71."""
    assert peer.ask(fetch_request(topic, (), session_id=123_456, session_epoch=1), 11).error_code == 70
    first = peer.ask(fetch_request(topic, session_epoch=0), 11)
    wrong = fetch_request(topic, (), session_id=first.session_id, session_epoch=9)
    assert peer.ask(wrong, 11).error_code == 71


def test_a_closed_session_is_gone(peer: Peer, topic: str) -> None:
    """KIP-227: epoch -1 with its id ends a session."""
    first = peer.ask(fetch_request(topic, session_epoch=0), 11)
    assert first.session_id > 0
    last = peer.ask(fetch_request(topic, session_id=first.session_id, session_epoch=-1), 11)
    assert (last.error_code, last.session_id) == (0, 0)
    assert peer.ask(fetch_request(topic, (), session_id=first.session_id, session_epoch=1), 11).error_code == 70


def test_a_session_by_name_cannot_go_on_by_id(peer: Peer, topic: str) -> None:
    """FETCH_SESSION_TOPIC_ID_ERROR (106)."""
    first = peer.ask(fetch_request(topic, session_epoch=0), 12)
    topic_id = peer.metadata(topic).topic_id
    assert peer.ask(fetch_request(topic_id, session_id=first.session_id, session_epoch=1), 13).error_code == 106


def test_read_committed_gets_no_aborted_list_when_nothing_was_aborted(peer: Peer, topic: str) -> None:
    fill(peer, topic)
    plain = peer.ask(fetch_request(topic), 11).responses[0].partitions[0]
    committed = peer.ask(fetch_request(topic, isolation_level=1), 11).responses[0].partitions[0]
    assert plain.aborted_transactions is None
    assert committed.aborted_transactions == ()
    assert offsets(committed.records) == [0, 1, 2]


def test_a_consumer_of_a_topic_that_was_made_anew_is_not_served_by_mistake(peer: Peer) -> None:
    """S1-35: the old id is unknown, so the old position is not silently used on the new topic."""
    name = "made-anew"
    old = peer.create(name)
    fill(peer, name)
    peer.delete(name)
    new = peer.create(name)
    try:
        assert old != new
        assert peer.ask(fetch_request(old, offset=2), 13).responses[0].partitions[0].error_code == 100
        assert peer.ask(fetch_request(new, offset=2), 13).responses[0].partitions[0].error_code == 1
    finally:
        peer.delete(name)
