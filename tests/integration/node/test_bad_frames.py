"""7.1 of the fault catalogue: bad frames close their own connection, and nobody else notices."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.broker.served_apis import BROKER_APIS, NOT_CONTROLLER_APIS
from headrace.node.served_apis import CONTROLLER_APIS
from headrace.rpc.apis import ApiRow
from headrace.testing.node import Node
from headrace.wire.headers import framed_request
from headrace.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.messages.broker_registration import BrokerRegistrationRequest
from headrace.wire.messages.metadata import MetadataRequest
from headrace.wire.messages.produce import ProduceRequest
from headrace.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from headrace.wire.messages.sasl_handshake import SaslHandshakeRequest
from headrace.wire.schema import Message
from headrace.wire.versions import APIS, request_class
from tests.peers import kafka
from tests.support.raw import ROWS, RawConnection, frame, header, messages_of, request_frame

ASK = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
OWN_VERSIONS = ApiVersion(api_key=18, min_version=0, max_version=4)
METADATA = request_frame(MetadataRequest(topics=()), 12)


@pytest.fixture
def witness(shared_node: Node) -> RawConnection:
    """Another client, connected before the bad one."""
    connection = RawConnection(shared_node.port)
    connection.ask(ASK, 4)
    return connection


@pytest.fixture(scope="module")
def quiet_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node that only sees what the test sends."""
    with Node(directory=tmp_path_factory.mktemp("quiet")) as node:
        yield node


def spoils(node: Node, witness: RawConnection, data: bytes) -> None:
    """The bytes close their connection; the witness is served on."""
    with RawConnection(node.port) as bad:
        bad.send(data)
        assert bad.is_closed_by_node()
    with witness:
        assert witness.ask(ASK, 4).error_code == 0


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 1, 7, 2_097_153, 2**31 - 1])
def test_a_forged_length_closes_the_connection(shared_node: Node, witness: RawConnection, length: int) -> None:
    """B1: negative, too short, above `socket.request.max.bytes`."""
    spoils(shared_node, witness, struct.pack(">i", length) + b"\0\x12\0\0")


@pytest.mark.parametrize("sent", [b"\0", b"\0\0\0\x40", b"\0\0\0\x40\0\x12\0\3", METADATA[:-1]])
def test_a_request_that_does_not_come_to_its_end_is_cut_by_time(
    shared_node: Node, witness: RawConnection, sent: bytes
) -> None:
    """B3: the length is right, the rest never comes (`headrace.frame.timeout.ms` is a second here)."""
    spoils(shared_node, witness, sent)


def test_a_request_that_ends_early_is_forgotten(shared_node: Node, witness: RawConnection) -> None:
    """B3: the peer goes away in the middle."""
    with RawConnection(shared_node.port) as bad:
        bad.send(METADATA[:-2])
    with witness:
        assert witness.ask(ASK, 4).error_code == 0


def test_bytes_left_over_and_bytes_missing_close_the_connection(shared_node: Node, witness: RawConnection) -> None:
    """B4."""
    body = request_frame(ASK, 4)[4:]
    for data in (frame(body + b"\0"), frame(body[:-1])):
        with RawConnection(shared_node.port) as bad:
            bad.send(data)
            assert bad.is_closed_by_node()
    with witness:
        assert witness.ask(ASK, 4).error_code == 0


@pytest.mark.parametrize("api_key", [-1, 4, 5, 6, 7, 93, 999, 32_767])
def test_an_api_that_is_not_served_here_closes_the_connection(
    shared_node: Node, witness: RawConnection, api_key: int
) -> None:
    """B5, B-W04, S1-31, S1-33, S1-34: unknown ones, LeaderAndIsr and its like, also for brokers of older releases."""
    spoils(shared_node, witness, frame(struct.pack(">hhih", api_key, 0, 1, -1) + b"\0" * 8))


@pytest.mark.parametrize("listener", ["clients", "controllers"])
def test_what_is_not_built_is_not_half_served(shared_node: Node, listener: str) -> None:
    """B5, input:B71, input:B73: ACLs, quotas, SCRAM, tokens, transactions and the newer group protocols, as good requests."""
    port = shared_node.port if listener == "clients" else shared_node.controller_port
    served = {row.key for row in (*BROKER_APIS, *CONTROLLER_APIS, *NOT_CONTROLLER_APIS)}
    missing = [api for api in APIS.values() if api.key not in served]
    assert {api.key for api in missing} >= {17, 24, 29, 30, 31, 36, 38, 48, 49, 50, 51, 69, 76}
    for api in missing:
        cls = request_class(api.key)
        version = cls.SCHEMA.versions.last
        with RawConnection(port) as bad:
            bad.send(bytes(framed_request(cls(), version, correlation_id=1, client_id="raw")))
            assert bad.is_closed_by_node(), api
    with RawConnection(port) as good:
        assert good.ask(ASK, 4).error_code == 0


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (SaslHandshakeRequest(mechanism="PLAIN"), 1),
        (SaslAuthenticateRequest(auth_bytes=b"\0user\0secret"), 2),
        (SaslAuthenticateRequest(auth_bytes=bytes(524_289)), 2),
    ],
    ids=["handshake", "token", "above 512 KiB"],
)
@pytest.mark.parametrize("listener", ["clients", "controllers"])
def test_nothing_of_a_login_is_taken(
    shared_node: Node, witness: RawConnection, request_: Message, version: int, listener: str
) -> None:
    """input:B2: no listener asks for a login, so no connection is ever before one; what belongs to it closes the connection."""
    with RawConnection(shared_node.port if listener == "clients" else shared_node.controller_port) as bad:
        bad.send(bytes(framed_request(request_, version, correlation_id=1, client_id="raw")))
        assert bad.is_closed_by_node()
    with witness:
        assert witness.ask(ASK, 4).error_code == 0


def only_on(mine: tuple[ApiRow, ...], others: tuple[ApiRow, ...]) -> list[ApiRow]:
    """The APIs of `mine` that the other listener does not have."""
    there = {row.key for row in (*others, *NOT_CONTROLLER_APIS)}
    return [row for row in mine if row.key not in there]


@pytest.mark.parametrize("row", only_on(CONTROLLER_APIS, BROKER_APIS), ids=lambda row: row.name)
def test_what_only_controllers_serve_closes_a_clients_connection(
    shared_node: Node, witness: RawConnection, row: ApiRow
) -> None:
    """B5, B-W04: a request that is good at the controllers' listener."""
    request = messages_of(row)[0]()
    with RawConnection(shared_node.controller_port) as there:
        there.ask(request, row.max_version)
    spoils(shared_node, witness, request_frame(request, row.max_version))


@pytest.mark.parametrize("row", only_on(BROKER_APIS, CONTROLLER_APIS), ids=lambda row: row.name)
def test_what_only_brokers_serve_closes_a_connection_to_the_controller(shared_node: Node, row: ApiRow) -> None:
    """B5, B-W04: a request that is good at the brokers' listener."""
    request = ProduceRequest(acks=1) if row.name == "produce" else messages_of(row)[0]()
    with RawConnection(shared_node.port) as there:
        there.ask(request, row.max_version)
    with RawConnection(shared_node.controller_port) as bad:
        bad.send(request_frame(request, row.max_version))
        assert bad.is_closed_by_node()
    with RawConnection(shared_node.controller_port) as good:
        assert good.ask(ASK, 4).error_code == 0


@pytest.mark.parametrize(
    ("name", "version"), [("metadata", 14), ("metadata", -1), ("produce", 2), ("fetch", 3), ("fetch", 19)]
)
def test_a_version_that_is_not_served_closes_the_connection(
    shared_node: Node, witness: RawConnection, name: str, version: int
) -> None:
    """B6. Produce is advertised from 0 but parsed from 3, as in Kafka 4."""
    row = ROWS[name]
    spoils(shared_node, witness, frame(header(row, version) + b"\0" * 16))


def test_an_unknown_api_versions_version_is_answered_in_version_0(shared_node: Node) -> None:
    """B6, B-W02, KIP-511: error 35 with the versions of ApiVersions itself, on both listeners, and the connection stays."""
    for port in (shared_node.port, shared_node.controller_port):
        assert _answer_to_version_99(port) == ApiVersionsResponse(error_code=35, api_keys=(OWN_VERSIONS,))


@pytest.mark.java
def test_kafka_answers_an_unknown_api_versions_version_as_we_do(shared_kafka: kafka.Kafka) -> None:
    """KIP-511: what Apache Kafka 4.3.1 says is what we say."""
    port = int(shared_kafka.bootstrap.rpartition(":")[2])
    assert _answer_to_version_99(port) == ApiVersionsResponse(error_code=35, api_keys=(OWN_VERSIONS,))


def _answer_to_version_99(port: int) -> ApiVersionsResponse:
    """What a node says to a version of later times; its connection must stay of use."""
    row = ROWS["api_versions"]
    with RawConnection(port) as client:
        client.send(frame(header(row, 99)))
        refused: ApiVersionsResponse = client.answer(row, 0)
        assert client.ask(ASK, 3).error_code == 0
    return refused


@pytest.mark.parametrize("client_id", [None, "", "x" * 32_767, "two\nlines\x1b[31m\0"])
def test_strange_client_ids_are_served(shared_node: Node, client_id: str | None) -> None:
    """B7."""
    row = ROWS["metadata"]
    body = METADATA[4 + len(header(row, 12)) :]
    with RawConnection(shared_node.port) as client:
        for number in (1, 2):
            client.send(frame(header(row, 12, number, client_id) + body))
            assert client.answer(row, 12, number).brokers


def test_a_client_id_that_is_not_utf8_closes_the_connection(shared_node: Node, witness: RawConnection) -> None:
    """B7."""
    spoils(shared_node, witness, frame(struct.pack(">hhih", 18, 0, 1, 2) + b"\xff\xfe"))


@pytest.mark.parametrize(
    "tags",
    [
        b"\x01\x05\x7f",
        b"\xff\xff\xff\xff\x0f",
        b"\x02\x01\x00\x01\x00",
        b"\x02\x02\x00\x01\x00",
        b"\x80\x80\x80\x80\x80\x80\x00",
        b"\xff\xff\xff\xff\x7f",
    ],
    ids=["past the end", "count 2^32-1", "repeated", "out of order", "long varint", "over 32 bits"],
)
def test_malformed_tagged_fields_close_the_connection(shared_node: Node, witness: RawConnection, tags: bytes) -> None:
    """B8, B9: in the header, where no library reads them for us."""
    row = ROWS["metadata"]
    spoils(shared_node, witness, frame(header(row, 12)[:-1] + tags + b"\x01\x00\x00\x00"))


def test_unknown_tagged_fields_are_skipped(shared_node: Node) -> None:
    """B8, B-W03: one, and ten thousand small ones."""
    row = ROWS["metadata"]
    body = METADATA[4 + len(header(row, 12)) :]
    many = b"".join(_varint(tag) + b"\x01x" for tag in range(10_000))
    with RawConnection(shared_node.port) as client:
        for number, tags in ((1, b"\x01\x21\x03abc"), (2, _varint(10_000) + many)):
            client.send(frame(header(row, 12, number)[:-1] + tags + body))
            assert client.answer(row, 12, number).brokers


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 32, "TLS"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH"),
        (b"\0" * 64, None),
        (bytes(range(128, 192)), None),
    ],
    ids=["http", "tls", "ssh", "zeros", "random"],
)
def test_other_protocols_are_cut_with_a_hint_in_the_log(quiet_node: Node, data: bytes, hint: str | None) -> None:
    """B10: one line in the log that says what the peer spoke. The node's log is not rate limited by other tests."""
    log = Path(quiet_node.directory / "node.log")
    before = len(log.read_text())
    with RawConnection(quiet_node.port) as bad:
        bad.send(data)
        assert bad.is_closed_by_node()
    lines = log.read_text()[before:]
    assert lines.count("closed connection") == 1
    if hint is not None:
        assert hint in lines


def test_a_thousand_pipelined_requests_are_answered_in_their_order(shared_node: Node) -> None:
    """B11, S99, B-W07, B12: also with correlation ids that repeat and that are negative."""
    numbers = [*range(1, 9_000), -1, -1, 7, 7, -(2**31)]
    row = ROWS["metadata"]
    with RawConnection(shared_node.port) as client:
        client.send(b"".join(request_frame(MetadataRequest(topics=()), 12, number) for number in numbers))
        for number in numbers:
            client.answer(row, 12, number)


def test_a_registration_on_a_broker_listener_is_answered_not_controller(shared_node: Node) -> None:
    """S1-52, S1-61: 62 and 63 are not advertised there and answered 41."""
    with RawConnection(shared_node.port) as client:
        assert client.ask(BrokerRegistrationRequest(broker_id=9), 4).error_code == 41
        assert client.ask(BrokerHeartbeatRequest(broker_id=9), 1).error_code == 41
        keys = {one.api_key for one in client.ask(ASK, 4).api_keys}
    assert not keys & {4, 5, 6, 7, 62, 63}
    with RawConnection(shared_node.controller_port) as client:
        keys = {one.api_key for one in client.ask(ASK, 4).api_keys}
    assert {62, 63} <= keys
    assert not keys & {4, 5, 6, 7}
