"""Requests that name very much: nobody else waits for them."""

from __future__ import annotations

import os
import struct
import sys
from contextlib import suppress

import pytest

from headrace.broker.served_apis import BROKER_APIS
from headrace.core.errors import EncodeError
from headrace.core.ids import LOST_DIRECTORY, MIGRATING_DIRECTORY
from headrace.node.served_apis import CONTROLLER_APIS
from headrace.rpc.apis import ApiRow
from headrace.wire.codec import encode
from headrace.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.envelope import EnvelopeRequest
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.schema import Message
from tests.support.attacks import MIB, POLITE_TOPIC, Target
from tests.support.largest import largest
from tests.support.raw import RawConnection, frame, header, messages_of, row_of

PARTS = 20_000
"""Of each array in turn: enough that work of five microseconds a part is twice the bound when it is done in one turn."""
LISTENERS = {"broker": BROKER_APIS, "controller": CONTROLLER_APIS}


def test_metadata_for_a_million_unknown_names(target: Target) -> None:
    """The names are 25 MB; others waited 9 s."""
    names = tuple(MetadataRequestTopic(name=f"unknown-topic-{number:09d}") for number in range(1_000_000))
    with target.attacked(memory=640 * MIB), RawConnection(target.node.port) as peer:
        peer.socket.settimeout(120)
        found = peer.ask(MetadataRequest(topics=names, allow_auto_topic_creation=False), 9)
        assert len(found.topics) == len(names)


def test_metadata_for_very_many_names_of_which_one_is_made(target: Target) -> None:
    """The answer of a request that has waited for a new topic was made in one turn: 3 s for 300,000 names."""
    names = ("made-with-others", *(f"not a name {number:09d}" for number in range(300_000)))
    topics = tuple(MetadataRequestTopic(name=name) for name in names)
    with target.attacked(memory=384 * MIB), RawConnection(target.node.port) as peer:
        peer.socket.settimeout(120)
        found = peer.ask(MetadataRequest(topics=topics), 9)
        assert len(found.topics) == len(names)
        assert peer.ask(MetadataRequest(topics=topics[:1]), 9).topics[0].error_code == 0


@pytest.mark.parametrize("listener", LISTENERS)
def test_the_largest_request_of_every_api_delays_nobody(target: Target, listener: str) -> None:
    """Every array of every request that a listener serves, with 20,000 parts: answered in steps, or refused."""
    port = target.node.port if listener == "broker" else target.node.controller_port
    with RawConnection(target.node.port) as peer:
        peer.ask(FindCoordinatorRequest(key="g"), 2)  # makes the offsets topic: a turn of its own, see docs/attacks.md
    turns: dict[str, float] = {}
    with target.attacked(memory=384 * MIB, turn_ms=1_000):
        for row in LISTENERS[listener]:
            for place, request in _requests(row):
                target.watch_again()
                _ask(port, row, request)
                turns[f"{row.name}: {place}"] = target.longest_turn_ms()
    if os.environ.get("HEADRACE_ATTACK_SHOW"):
        worst = sorted(turns.items(), key=lambda each: -each[1])[:20]
        sys.stderr.write("".join(f"\n{took_ms:6.1f} ms {place}" for place, took_ms in worst))
    target.must_be_short(turns)


def _requests(row: ApiRow) -> list[tuple[str, Message]]:
    return list(largest(messages_of(row)[0], row.max_version, parts=PARTS, topic=POLITE_TOPIC))


def _ask(port: int, row: ApiRow, request: Message) -> None:
    """Send it, and wait until it is answered or refused."""
    try:
        body = encode(request, row.max_version)
    except EncodeError:
        return  # a value that this version cannot have
    with RawConnection(port) as peer, suppress(EOFError, ConnectionError):
        peer.socket.settimeout(120)
        peer.send(frame(header(row, row.max_version) + body))
        peer.receive_frame()


def test_where_thousands_of_replicas_are_in_a_brokers_name(target: Target) -> None:
    """KIP-858: 9,900 times the replica of one partition, in the right broker epoch; each is a change and a record."""
    target.create_topic("placed")
    wanted = MetadataRequest(topics=(MetadataRequestTopic(name="placed"),))
    with RawConnection(target.node.port) as peer:
        found = peer.ask(wanted, 12)
    (broker,), (topic,) = found.brokers, found.topics
    with RawConnection(target.node.controller_port) as peer:
        known = (AssignReplicasToDirsRequest(broker_id=broker.node_id, broker_epoch=each) for each in range(1_000))
        epoch = next(each.broker_epoch for each in known if not peer.ask(each, 0).error_code)
    with target.attacked(memory=64 * MIB), RawConnection(target.node.controller_port) as peer:
        peer.socket.settimeout(120)
        for home in (LOST_DIRECTORY, MIGRATING_DIRECTORY):
            placed = RequestTopicData(
                topic_id=topic.topic_id, partitions=(RequestPartitionData(partition_index=0),) * 9_900
            )
            request = AssignReplicasToDirsRequest(
                broker_id=broker.node_id,
                broker_epoch=epoch,
                directories=(RequestDirectoryData(id=home, topics=(placed,)),),
            )
            answer = peer.ask(request, 0)
            (told,) = answer.directories[0].topics
            assert (answer.error_code, len(told.partitions)) == (0, 9_900)


def test_an_envelope_with_a_long_request_delays_nobody(target: Target) -> None:
    """KIP-590: on a controller's listener, 200,000 topics in what a broker claims to pass on."""
    with RawConnection(
        target.node.controller_port
    ) as peer:  # what is imported and compiled at the first use is not the attack's
        assert peer.ask(_enveloped(count=2_000), 0).error_code == 0
    request = _enveloped(count=200_000)
    with target.attacked(memory=256 * MIB), RawConnection(target.node.controller_port) as peer:
        peer.socket.settimeout(120)
        assert peer.ask(request, 0).error_code == 0


def _enveloped(*, count: int) -> EnvelopeRequest:
    """So many topics whose replicas cannot be placed, in an Envelope."""
    topics = tuple(CreatableTopic(name=f"n{number}", num_partitions=1, replication_factor=9) for number in range(count))
    inner = CreateTopicsRequest(topics=topics, timeout_ms=1_000)
    data = header(row_of(inner), 7) + encode(inner, 7)
    return EnvelopeRequest(
        request_data=data, request_principal=b"\0\0" + b"\5User\5anon\0\0", client_host_address=b"\x7f\0\0\1"
    )


def test_an_envelope_of_garbage_is_refused(target: Target) -> None:
    """input:B20: bytes that are no request, in an Envelope of 30 MB and in a thousand small ones."""
    with target.attacked(memory=256 * MIB):
        for data in (b"\xff" * (30 << 20), *[struct.pack(">hhih", 19, 7, 1, -1) + b"\0\xff\xff"] * 1_000):
            with RawConnection(target.node.controller_port) as peer, suppress(EOFError, ConnectionError):
                peer.socket.settimeout(60)
                request = EnvelopeRequest(request_data=data, request_principal=b"x", client_host_address=b"\x7f\0\0\1")
                assert peer.ask(request, 0).error_code != 0


def test_numbers_of_four_bytes_count_as_parts(target: Target) -> None:
    """M2: 7 million partitions of one topic in 28 MB would be a list of 300 MB."""
    row = next(row for row in BROKER_APIS if row.name == "offset_fetch")
    count = 7_000_000
    head = header(row, 1) + struct.pack(">h", 1) + b"g" + struct.pack(">i", 1) + struct.pack(">h", 1) + b"t"
    data = frame(head + struct.pack(">i", count) + bytes(4 * count))
    with target.attacked(memory=128 * MIB), RawConnection(target.node.port) as peer:
        peer.send(data)
        assert peer.is_closed_by_node()


def test_only_produce_may_be_larger_than_what_a_million_names_take(target: Target) -> None:
    """B1: 40 MB of a Metadata request are refused when they begin, and not received."""
    row = row_of(MetadataRequest())
    with target.attacked(memory=16 * MIB), RawConnection(target.node.port) as peer:
        with suppress(ConnectionError):
            peer.send(frame(header(row, 1) + bytes(40 << 20)))
        assert peer.is_closed_by_node()
    assert "only a Produce request may have more than" in target.log
