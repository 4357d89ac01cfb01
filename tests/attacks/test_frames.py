"""Frames that are no requests, come too slowly, or come in great number: their sender is the only one who suffers."""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import ExitStack, suppress

import pytest

from headrace.wire.codec import encode
from headrace.wire.messages.fetch import FetchRequest
from headrace.wire.messages.metadata import MetadataRequest
from headrace.wire.messages.produce import ProduceRequest
from headrace.wire.schema import Message
from tests.support.attacks import MIB, Target, wait_until
from tests.support.raw import RawConnection, frame, header, request_frame, row_of

METADATA = MetadataRequest(topics=(), allow_auto_topic_creation=False)


@pytest.mark.parametrize("size", [-1, 0, 7, 104_857_601, 2**31 - 1])
def test_a_frame_length_that_is_not_allowed_costs_nothing(target: Target, size: int) -> None:
    """B1: no memory is promised to a length; the connection is closed as soon as it is there."""
    with target.attacked(memory=16 * MIB):
        for _ in range(20):
            with RawConnection(target.node.port) as peer:
                peer.send(struct.pack(">i", size))
                assert peer.is_closed_by_node()


def test_requests_that_never_become_whole_hold_only_what_they_sent(target: Target) -> None:
    """M1, B2: 200 connections announce 100 MB each and send 1 KB of it."""
    peers = [RawConnection(target.node.port) for _ in range(200)]
    try:
        with target.attacked(memory=16 * MIB):
            for peer in peers:
                peer.send(struct.pack(">i", 104_857_600) + bytes(1024))
            time.sleep(0.5)
    finally:
        for peer in peers:
            peer.socket.close()


def test_a_request_that_comes_byte_by_byte_delays_nobody(target: Target) -> None:
    """B2: each byte costs one read and no walk over what came before."""
    whole = request_frame(METADATA, 9)
    with target.attacked(memory=8 * MIB), RawConnection(target.node.port) as peer:
        for byte in whole:
            peer.send(bytes((byte,)))
            time.sleep(0.02)
        assert peer.answer(row_of(METADATA), 9).topics == ()


def test_thousands_of_requests_at_once_are_answered_in_turns(target: Target) -> None:
    """M6: 20,000 small requests in one write; others have their turn in between."""
    peer = RawConnection(target.node.port)
    count = 20_000
    data = b"".join(request_frame(METADATA, 9, number) for number in range(count))
    sender = threading.Thread(target=peer.send, args=(data,))
    with target.attacked(), peer:
        sender.start()
        for number in range(count):
            assert peer.answer(row_of(METADATA), 9, number).topics == ()
        sender.join()


def test_who_never_reads_answers_holds_no_more_than_the_bound(target: Target) -> None:
    """M4: while its socket takes no more responses, requests are not read any more."""
    with target.attacked(memory=96 * MIB), RawConnection(target.node.port) as peer:
        peer.socket.settimeout(1.0)
        data = b"".join(request_frame(MetadataRequest(topics=None), 9, number) for number in range(2_000))
        with pytest.raises(TimeoutError):
            peer.send(data * 1_000)


def test_connections_that_come_and_go_leave_nothing_behind(target: Target) -> None:
    """B3: 2,000 connections, half of them cut off in the middle of a request, and the descriptors are as many as before."""
    before = target.descriptors()
    part = request_frame(METADATA, 9)[:-3]
    with target.attacked(memory=16 * MIB):
        for number in range(2_000):
            with RawConnection(target.node.port) as peer:
                if number % 2:
                    peer.send(part)
                if number % 4 == 3:
                    peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wait_until(lambda: target.descriptors() <= before, "the sockets of gone clients are closed")


def test_client_ids_of_the_greatest_length_are_not_collected(target: Target) -> None:
    """B7: 3,000 requests, each under another client id of 32,767 bytes."""
    with target.attacked(memory=48 * MIB), RawConnection(target.node.port) as peer:
        row = row_of(METADATA)
        for number in range(3_000):
            name = f"{number:08d}".ljust(32_767, "x")
            peer.send(frame(header(row, 9, number, name) + b"\1\0\0\0\0"))
            assert peer.answer(row, 9, number).topics == ()


def test_headers_as_long_as_frames_are_not_kept(target: Target) -> None:
    """M1, B7, B8: 30 connections with a megabyte of tagged fields in the header of each version of Produce and Fetch, and 1,000 with client ids of 32,767 bytes."""
    asked: list[tuple[Message, int]] = [(ProduceRequest(acks=1), each) for each in range(9, 13)]
    asked += [(FetchRequest(session_epoch=-1), each) for each in range(12, 18)]
    tags = b"\1\0" + uvarint(MIB) + bytes(MIB)
    with target.attacked(memory=64 * MIB), ExitStack() as opened:
        for _ in range(30):
            peer = opened.enter_context(RawConnection(target.node.port))
            for request, version in asked:
                peer.send(frame(header(row_of(request), version)[:-1] + tags + encode(request, version)))
                assert peer.receive_frame()
        for _ in range(1_000):
            peer = opened.enter_context(RawConnection(target.node.port))
            for number in range(4):
                peer.send(frame(header(row_of(METADATA), 9, 1, str(number) * 32_767) + encode(METADATA, 9)))
                assert peer.receive_frame()


def test_a_flood_of_tagged_fields_is_skipped_within_the_bounds(target: Target) -> None:
    """B8: a million unknown tagged fields in the header of one request."""
    row = row_of(METADATA)
    head = header(row, 9, 1)[:-1]
    tags = b"".join(uvarint(tag) + b"\0" for tag in range(1_000_000))
    data = frame(head + uvarint(1_000_000) + tags + b"\1\0\0\0\0")
    with target.attacked(), RawConnection(target.node.port) as peer:
        peer.send(data)
        with suppress(EOFError, ConnectionError):
            peer.receive_frame()


def uvarint(value: int) -> bytes:
    """An unsigned varint."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
