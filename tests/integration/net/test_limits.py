"""Are the limits of connections kept, and is nobody else disturbed?"""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Iterator

import psutil
import pytest

from headrace.core.error_code import ErrorCode
from headrace.testing.node import Node, free_ports
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.broker_settings import SET, alter
from tests.support.peer import Peer, batch, fetch_request, produce_request
from tests.support.raw import RawConnection, request_frame, row_of

ASK = ApiVersionsRequest(client_software_name="tests", client_software_version="1")


def served(connection: RawConnection) -> bool:
    """Whether the node answers on it."""
    try:
        return int(connection.ask(ASK, 4).error_code) == 0
    except (EOFError, ConnectionError):
        return False


def waits(port: int, other: RawConnection) -> bool:
    """Whether one more is not answered while `other` is. The listener's clock goes on with each that comes: who was served before it was silent for longer than who is after."""
    with RawConnection(port) as extra:
        extra.send(request_frame(ASK, 4))
        return served(other) and served(other) and not select.select([extra.socket], [], [], 0)[0]


def test_too_many_connections_of_a_host_are_closed_and_the_others_stay() -> None:
    """S95: `max.connections.per.ip`, then one more; when one goes there is room again."""
    properties = {"max.connections.per.ip": "3"}
    with Node(properties=properties, in_process=True) as node, contextlib.ExitStack() as stack:
        kept = [stack.enter_context(RawConnection(node.port)) for _ in range(3)]
        assert all(served(one) for one in kept)
        with RawConnection(node.port) as extra:
            assert not served(extra)
        assert all(served(one) for one in kept)
        kept.pop().socket.close()
        for _ in range(100):
            with RawConnection(node.port) as late:
                if served(late):
                    break
        else:
            pytest.fail("no room was made by the connection that went")


def test_too_many_connections_wait_until_there_is_room() -> None:
    """KIP-402, S95: those beyond `max.connections` are answered in the order they came when others go, as in Kafka; no more wait than the backlog has."""
    properties = {"max.connections": "2", "socket.listen.backlog.size": "2"}
    with Node(properties=properties, in_process=True) as node, contextlib.ExitStack() as stack:
        kept = [stack.enter_context(RawConnection(node.port)) for _ in range(2)]
        assert all(served(one) for one in kept)
        late = [stack.enter_context(RawConnection(node.port)) for _ in range(2)]
        for each in late:
            each.send(request_frame(ASK, 4))
        with RawConnection(node.port) as one_more:
            assert not served(one_more)
        assert all(served(one) for one in kept)
        assert not select.select([each.socket for each in late], [], [], 0)[0]
        for each, goes in zip(late, kept, strict=True):
            goes.socket.close()
            assert each.answer(row_of(ASK), 4).error_code == 0


def test_connections_that_wait_are_served_when_the_limit_is_raised_and_are_not_idle() -> None:
    """KIP-402: `max.connections` is raised while the node runs; the time that a connection waited is not its own."""
    properties = {"max.connections": "1", "connections.max.idle.ms": "1000"}
    with (
        Node(properties=properties, in_process=True) as node,
        RawConnection(node.port) as first,
        RawConnection(node.port) as late,
    ):
        for at in range(18):
            assert served(first)
            assert not select.select([late.socket], [], [], 0.1)[0]
            if at == 12:
                with RawConnection(node.controller_port) as admin:
                    assert alter(admin, "max.connections", SET, "2") == 0
        assert served(late)


@contextlib.contextmanager
def node_of_two_listeners(**properties: str) -> Iterator[tuple[Node, int]]:
    """A node, and the port of the listener that brokers would use; clients have another."""
    clients, brokers, controllers = free_ports(3)
    listeners = f"PLAINTEXT://127.0.0.1:{clients},INTERNAL://127.0.0.1:{brokers},CONTROLLER://127.0.0.1:{controllers}"
    settings = {
        "listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        "controller.quorum.voters": f"1@127.0.0.1:{controllers}",
        **{name.replace("__", "."): text for name, text in properties.items()},
    }
    node = Node(properties=settings, in_process=True)
    node.port, node.controller_port = clients, controllers
    with node:
        yield node, brokers


def test_clients_that_take_all_connections_keep_no_broker_out() -> None:
    """KIP-402, S95: brokers' own listener takes more than `max.connections`, and the client that was silent longest goes for it."""
    with node_of_two_listeners(max__connections="3") as (node, brokers), contextlib.ExitStack() as stack:
        kept = [stack.enter_context(RawConnection(node.port)) for _ in range(3)]
        for each in (1, 0, 2):
            assert waits(node.port, kept[each])
        with RawConnection(brokers) as broker, RawConnection(brokers) as second:
            assert served(broker)
            assert kept[1].is_closed_by_node()
            assert served(second)
            assert kept[0].is_closed_by_node()
            assert served(kept[2])
        with RawConnection(node.port) as later:
            assert served(later)


def test_brokers_own_listener_takes_no_more_than_max_connections_itself() -> None:
    """KIP-402: a listener that has no limit of its own has the node's, whatever others hold; as in Kafka."""
    with node_of_two_listeners(max__connections="2") as (_, brokers), contextlib.ExitStack() as stack:
        kept = [stack.enter_context(RawConnection(brokers)) for _ in range(2)]
        assert all(served(one) for one in kept)
        assert waits(brokers, kept[0])


def test_a_listener_has_its_own_limit_and_lowered_limits_close_connections() -> None:
    """KIP-402: `listener.name.internal.max.connections` from the file, `max.connections` lowered while the node runs."""
    name = "listener.name.internal.max.connections"
    with (
        node_of_two_listeners(listener__name__internal__max__connections="1") as (node, brokers),
        RawConnection(node.controller_port) as admin,
        contextlib.ExitStack() as stack,
    ):
        broker = stack.enter_context(RawConnection(brokers))
        assert served(broker)
        assert waits(brokers, broker)
        assert alter(broker, name, SET, "0") == ErrorCode.INVALID_REQUEST
        assert alter(admin, name, SET, "2") == 0
        assert served(stack.enter_context(RawConnection(brokers)))
        kept = [stack.enter_context(RawConnection(node.port)) for _ in range(5)]
        for one in kept:
            assert waits(brokers, one)
        assert alter(admin, "max.connections", SET, "4") == 0
        assert [one.is_closed_by_node() for one in kept[:3]] == [True, True, True]
        assert served(kept[4])
        assert served(broker)


def test_connections_beyond_the_rate_are_served_later() -> None:
    """S95: `max.connection.creation.rate` delays, it does not refuse."""
    with (
        Node(properties={"max.connection.creation.rate": "5"}, in_process=True) as node,
        contextlib.ExitStack() as stack,
    ):
        assert all(served(stack.enter_context(RawConnection(node.port))) for _ in range(8))


@pytest.mark.parametrize("said", [b"", b"\0"])
def test_who_opens_connections_and_leaves_keeps_nobody_waiting(said: bytes) -> None:
    """S95, KIP-612: 600 that left in a second took the turns of half a minute, and descriptors for as long."""
    with Node(properties={"max.connection.creation.rate": "20"}, in_process=True) as node:
        for _ in range(600):
            with RawConnection(node.port, from_host="127.0.0.2") as gone:
                gone.send(said)
        for _ in range(3):
            with RawConnection(node.port) as polite:
                polite.socket.settimeout(4)
                assert served(polite)


def test_who_has_gone_takes_no_place_of_those_who_wait_for_room() -> None:
    """S95, KIP-402: sixty that left while they waited had all places, and who came then was closed."""
    with Node(properties={"max.connections": "2"}, in_process=True) as node, contextlib.ExitStack() as stack:
        kept = [stack.enter_context(RawConnection(node.port)) for _ in range(2)]
        assert all(served(one) for one in kept)
        with contextlib.ExitStack() as leaving:
            coming = [leaving.enter_context(RawConnection(node.port)) for _ in range(60)]
            assert coming[-1].is_closed_by_node()
        with RawConnection(node.port) as polite:
            polite.send(request_frame(ASK, 4))
            assert served(kept[0])
            kept.pop().socket.close()
            assert polite.receive_frame()


def test_of_a_host_no_more_wait_for_room_than_it_may_have() -> None:
    """S95, KIP-402: a host that may have two connections took all fifty places of those that wait, and who came then was closed."""
    properties = {
        "max.connections": "4",
        "max.connections.per.ip": "2",
        "max.connections.per.ip.overrides": "127.0.0.1:4",
    }
    with Node(properties=properties, in_process=True) as node, contextlib.ExitStack() as stack:
        kept = [stack.enter_context(RawConnection(node.port)) for _ in range(4)]
        assert all(served(one) for one in kept)
        greedy = [stack.enter_context(RawConnection(node.port, from_host="127.0.0.2")) for _ in range(60)]
        assert all(each.is_closed_by_node() for each in greedy[2:])
        polite = stack.enter_context(RawConnection(node.port, from_host="127.0.0.3"))
        polite.send(request_frame(ASK, 4))
        assert served(kept[0])
        for each in kept[1:]:
            each.socket.close()
        assert polite.receive_frame()


def test_who_has_gone_while_it_waited_counts_no_more_for_its_host() -> None:
    """S95: its two that had gone while they waited would be all that it may have until there is room."""
    properties = {"max.connections": "1", "max.connections.per.ip": "2"}
    with Node(properties=properties, in_process=True) as node, contextlib.ExitStack() as stack:
        kept = stack.enter_context(RawConnection(node.port))
        assert served(kept)
        for _ in range(3):
            with RawConnection(node.port, from_host="127.0.0.2"), RawConnection(node.port, from_host="127.0.0.2"):
                assert served(kept)
        assert served(kept)
        late = stack.enter_context(RawConnection(node.port, from_host="127.0.0.2"))
        late.send(request_frame(ASK, 4))
        assert served(kept)
        kept.socket.close()
        assert late.receive_frame()


def test_an_idle_connection_is_closed() -> None:
    """`connections.max.idle.ms`."""
    with Node(properties={"connections.max.idle.ms": "500"}, in_process=True) as node, RawConnection(node.port) as idle:
        assert served(idle)
        assert idle.is_closed_by_node()


def test_a_waiting_fetch_is_not_idle() -> None:
    """A long poll may last longer than `connections.max.idle.ms`."""
    with Node(properties={"connections.max.idle.ms": "500"}, in_process=True) as node:
        peer = Peer("headrace", node.port)
        peer.create("quiet")
        with peer.connect() as connection:
            answer = connection.ask(fetch_request("quiet", max_wait_ms=2_000), 11)
        assert answer.responses[0].partitions[0].error_code == 0


def test_a_reader_that_does_not_read_is_cut_and_costs_little() -> None:
    """S97, M4: big fetches pipelined and never read; memory stays, others are served."""
    properties = {"headrace.frame.timeout.ms": "1000"}
    with Node(properties=properties) as node:
        peer = Peer("headrace", node.port)
        peer.create("big")
        big = batch(b"x" * 900_000)
        for _ in range(20):
            assert peer.produce("big", big).error_code == 0
        process = psutil.Process(node.pid)
        before = process.memory_info().rss
        with RawConnection(node.port) as greedy, RawConnection(node.port) as good:
            greedy.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            greedy.send(request_frame(fetch_request("big"), 11) * 100)
            assert served(good)
            held = process.memory_info().rss - before
            while _is_open(node, greedy):
                assert served(good)
            assert held < 64 << 20


def _is_open(node: Node, connection: RawConnection) -> bool:
    """Whether the node still has its side of the connection."""
    ours = connection.socket.getsockname()[1]
    connections = psutil.Process(node.pid).net_connections("tcp")
    return any(
        bool(one.raddr) and one.raddr.port == ours and one.status == psutil.CONN_ESTABLISHED for one in connections
    )


def test_requests_wait_in_their_sockets_when_memory_is_short() -> None:
    """M1: with `queued.max.request.bytes` nearly used up by a half-sent request, others wait and nothing is lost."""
    with Node(
        properties={"queued.max.request.bytes": "400000", "socket.request.max.bytes": "400000"}, in_process=True
    ) as node:
        peer = Peer("headrace", node.port)
        peer.create("narrow")
        frames = [request_frame(produce_request("narrow", batch(b"x" * 300_000)), 9) for _ in range(4)]
        with contextlib.ExitStack() as stack:
            slow = [stack.enter_context(RawConnection(node.port)) for _ in frames]
            for connection, data in zip(slow, frames, strict=True):
                connection.send(data[:200_000])
            for connection, data in zip(slow, frames, strict=True):
                connection.send(data[200_000:])
            answers = [connection.receive_frame() for connection in slow]
        assert len(answers) == 4
        assert peer.offset("narrow", -1)[:2] == (0, 4)


def test_a_frame_above_the_shared_buffer_is_received() -> None:
    """B1: sizes up to `socket.request.max.bytes` are served, however they are cut."""
    with Node(properties={"message.max.bytes": "20000000"}, in_process=True) as node:
        peer = Peer("headrace", node.port)
        peer.create("wide")
        sent = batch(b"x" * 9_000_000)
        assert peer.produce("wide", sent).error_code == 0
        found = peer.ask(fetch_request("wide"), 11).responses[0].partitions[0]
        assert bytes(found.records)[61:] == bytes(sent)[61:]


def test_one_byte_at_a_time_is_a_request_too() -> None:
    """B3: slow is fine within the time limit."""
    with Node(in_process=True) as node, RawConnection(node.port) as slow:
        slow.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in request_frame(
            CreateTopicsRequest(
                topics=(CreatableTopic(name="drop-by-drop", num_partitions=1, replication_factor=1),), timeout_ms=5000
            ),
            7,
        ):
            slow.send(bytes([byte]))
        assert slow.receive_frame()
