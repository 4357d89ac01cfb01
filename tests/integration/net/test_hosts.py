"""Whom do the limits of single hosts hold for, and what is held for connections that do not go on?"""

from __future__ import annotations

import contextlib
import resource
import socket

import psutil

from headrace.testing.node import Node
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.fetch import FetchPartition
from tests.integration.net.test_limits import _is_open, served
from tests.support.broker_settings import SET, alter
from tests.support.peer import Peer, batch, fetch_request, produce_request
from tests.support.raw import RawConnection, request_frame


def test_a_host_that_nobody_knows_has_no_limit_of_its_own_and_the_node_goes_on() -> None:
    """input:B70, fault:S95: `max.connections.per.ip.overrides` may change while nodes run; a name in it must not take them down, nor keep them down."""
    key = "max.connections.per.ip.overrides"
    with Node(in_process=True) as node:
        with RawConnection(node.port) as client:
            for value in ("no-such-host.invalid:5", "no-such-host.invalid:5,127.0.0.1:2"):
                assert alter(client, key, SET, value) == 0
            with RawConnection(node.port) as second:
                assert served(second)
                while True:
                    with RawConnection(node.port) as third:
                        if not served(third):
                            break
        node.stop()
        with Node(directory=node.directory, in_process=True) as again, RawConnection(again.port) as client:
            assert served(client)


def test_a_host_may_have_a_limit_of_its_own() -> None:
    """fault:S95: by address or by name; an IPv6 address stands there without brackets, as in Kafka."""
    overrides = "localhost:2,::1:7,0:0:0:0:0:0:0:2:1"
    with (
        Node(properties={"max.connections.per.ip.overrides": overrides}, in_process=True) as node,
        RawConnection(node.port) as first,
        RawConnection(node.port) as second,
        RawConnection(node.port) as third,
    ):
        assert [served(each) for each in (first, second, third)] == [True, True, False]


def is_left_waiting(connection: RawConnection) -> bool:
    """Whether a request gets no answer."""
    try:
        connection.ask(ApiVersionsRequest(client_software_name="x" * 1_000, client_software_version="1"), 4)
    except TimeoutError:
        return True
    return False


def test_clients_do_not_use_up_the_memory_of_the_quorums_requests() -> None:
    """inv:M6, fault:S95: half-sent requests of clients hold all of `queued.max.request.bytes`; the quorum's listener is read on."""
    properties = {"queued.max.request.bytes": "400000", "socket.request.max.bytes": "400000"}
    data = request_frame(produce_request("narrow", batch(b"x" * 300_000)), 9)
    with Node(properties=properties, in_process=True) as node, contextlib.ExitStack() as stack:
        clients, quorum = (stack.enter_context(RawConnection(port)) for port in (node.port, node.controller_port))
        assert served(clients)
        assert served(quorum)
        for _ in range(4):
            stack.enter_context(RawConnection(node.port)).send(data[:200_000])
        clients.socket.settimeout(0.3)
        while not is_left_waiting(clients):
            pass
        assert all(served(quorum) for _ in range(3))


def test_begun_requests_hold_what_is_counted_and_no_more() -> None:
    """inv:M1: a hundred connections with the beginning of a large request each, whose buffers have 2 MiB."""
    properties = {"queued.max.request.bytes": "8000000", "socket.request.max.bytes": "2000000"}
    data = request_frame(produce_request("wide", batch(b"x" * 900_000)), 9)
    with Node(properties=properties) as node, contextlib.ExitStack() as stack:
        process = psutil.Process(node.pid)
        before = process.memory_info().rss
        for _ in range(100):
            stack.enter_context(RawConnection(node.port)).send(data[:50_000])
        quorum = stack.enter_context(RawConnection(node.controller_port))
        assert all(served(quorum) for _ in range(50))
        assert process.memory_info().rss - before < 100 << 20


def test_a_connection_that_was_closed_with_answers_left_is_cut_when_nobody_reads_them() -> None:
    """inv:M4, fault:S97: a fetch and rubbish behind it; the answer is never read."""
    with Node(properties={"headrace.frame.timeout.ms": "500"}) as node:
        peer = Peer("headrace", node.port)
        peer.create("big")
        for _ in range(7):
            assert peer.produce("big", batch(b"x" * 900_000)).error_code == 0
        wide = (FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=8 << 20),)
        with RawConnection(node.port) as greedy:
            greedy.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            greedy.send(request_frame(fetch_request("big", wide), 11) + b"\xff\xff\xff\xff")
            while _is_open(node, greedy):
                pass
            with RawConnection(node.port) as good:
                assert served(good)


def test_a_process_without_descriptors_serves_whom_it_has() -> None:
    """fault:S95: no more connections than the process may have; each of them is served or closed, and afterwards there is room again."""
    with Node() as node, RawConnection(node.port) as first:
        assert served(first)
        used = psutil.Process(node.pid).num_fds()
        resource.prlimit(node.pid, resource.RLIMIT_NOFILE, (used + 9, used + 9))
        with contextlib.ExitStack() as stack:
            assert any([served(stack.enter_context(RawConnection(node.port))) for _ in range(12)])
            assert served(first)
        while True:
            with RawConnection(node.port) as late:
                if served(late):
                    break
