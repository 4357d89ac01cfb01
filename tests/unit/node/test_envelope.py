"""Is a forwarded request decided as its client's own, and is a bad envelope refused with the right error? (KIP-590)"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.errors import DecodeError
from headrace.node.answers import has_error
from headrace.node.envelope import (
    decode_host,
    decode_principal,
    enclose,
    encode_host,
    encode_principal,
    opened_response,
)
from headrace.node.served_apis import CONTROLLER_APIS
from headrace.rpc.apis import API_TABLE, handler_of
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Deferred, InSteps, Reply
from headrace.wire.headers import request_header
from headrace.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tests.support.memory_node import MemoryNode

ENVELOPE = next(row for row in CONTROLLER_APIS if row.key == 58)
BROKER = RequestContext(api_key=58, api_version=0, listener="CONTROLLER", is_controller_listener=True)
CREATE = CreateTopicsRequest(topics=(CreatableTopic(name="t", num_partitions=1, replication_factor=1),))


def client(version: int = 7) -> RequestContext:
    """The client whose request is forwarded."""
    return RequestContext(
        api_key=19, api_version=version, correlation_id=9, client_id="c", principal="User:alice", client_host="::1"
    )


def ask(node: MemoryNode, request: EnvelopeRequest) -> Any:
    """The outer answer of a controller."""
    result = handler_of(ENVELOPE)(request, replace(BROKER, now_ms=node.clock.now), node.node.controller_server)
    node.settle()
    reply = result.reply if isinstance(result, Deferred) else result
    assert isinstance(reply, Reply)
    assert isinstance(reply.message, EnvelopeResponse)
    return reply.message


@pytest.mark.parametrize("version", [2, 4, 5, 7])
def test_the_client_sees_the_inner_answer(version: int) -> None:
    """B-C28: in the client's version, whatever the envelope's, with the client's correlation id."""
    node = MemoryNode()
    node.start()
    answer = ask(node, enclose(CREATE, client(version)))
    assert answer.error_code == 0
    assert answer.response_data[:4] == (9).to_bytes(4, "big")
    inner: Any = opened_response(answer.response_data, CreateTopicsResponse, api_key=19, api_version=version)
    assert inner.topics[0].error_code == ErrorCode.NONE
    assert "t" in node.machine.image.topics.by_name


def test_a_short_envelope_that_names_much_is_answered_in_steps() -> None:
    """PR8, M6: 16 KB name a thousand topics, each of which takes a good part of a millisecond to decide on."""
    node = MemoryNode()
    node.start()
    topics = tuple(CreatableTopic(name=f"t{each}", num_partitions=1, replication_factor=1) for each in range(200))
    request = enclose(CreateTopicsRequest(topics=topics), client())
    result = handler_of(ENVELOPE)(request, replace(BROKER, now_ms=node.clock.now), node.node.controller_server)
    assert isinstance(result, InSteps)
    assert (len(node.machine.image.topics.by_name), result.size) == (0, len(request.request_data))


def test_a_standby_says_so_in_the_envelope() -> None:
    """KIP-590: NOT_CONTROLLER of the inner answer becomes the envelope's own error, so the broker looks elsewhere."""
    node = MemoryNode()
    answer = ask(node, enclose(CREATE, client()))
    assert (answer.error_code, answer.response_data) == (ErrorCode.NOT_CONTROLLER, None)


GOOD = enclose(CREATE, client())


@pytest.mark.parametrize(
    ("data", "principal", "host", "error"),
    [
        (b"\0\x13", GOOD.request_principal, b"\x7f\0\0\1", ErrorCode.INVALID_REQUEST),
        (GOOD.request_data + b"more", GOOD.request_principal, b"\x7f\0\0\1", ErrorCode.INVALID_REQUEST),
        (GOOD.request_data, GOOD.request_principal, b"\x7f\0\0", ErrorCode.INVALID_REQUEST),
        (GOOD.request_data, b"\0\7", b"\x7f\0\0\1", ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (GOOD.request_data, None, b"\x7f\0\0\1", ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (
            request_header(19, 99, correlation_id=1, client_id="c") + b"\0",
            GOOD.request_principal,
            b"\x7f\0\0\1",
            ErrorCode.UNSUPPORTED_VERSION,
        ),
        (
            request_header(63, 1, correlation_id=1, client_id="c") + b"\0",
            GOOD.request_principal,
            b"\x7f\0\0\1",
            ErrorCode.INVALID_REQUEST,
        ),
        (
            request_header(58, 0, correlation_id=1, client_id="c") + b"\0",
            GOOD.request_principal,
            b"\x7f\0\0\1",
            ErrorCode.INVALID_REQUEST,
        ),
    ],
)
def test_a_bad_envelope_is_refused(data: bytes, principal: bytes | None, host: bytes, error: ErrorCode) -> None:
    """KIP-590: unreadable, not forwardable (an envelope in an envelope, a heartbeat), of an unknown version, without a principal."""
    node = MemoryNode()
    node.start()
    request = EnvelopeRequest(request_data=data, request_principal=principal, client_host_address=host)
    assert ask(node, request).error_code == error


def test_principals_are_as_kafka_writes_them() -> None:
    """The version in two bytes, then DefaultPrincipalData (flexible): type, name, not authenticated by token, no tags."""
    assert encode_principal("User:alice") == b"\0\0\x05User\x06alice\0\0"
    assert decode_principal(b"\0\0\x05User\x06alice\0\0") == "User:alice"
    for bad in (b"", b"\0\1\x05User\x06alice\0\0", b"\0\0\x05User"):
        with pytest.raises(DecodeError):
            decode_principal(bad)


@pytest.mark.parametrize("host", ["10.1.2.3", "::1", "fe80::1"])
def test_addresses_are_four_or_sixteen_bytes(host: str) -> None:
    """As java.net.InetAddress has them."""
    assert decode_host(encode_host(host)) == host


def test_an_address_that_is_none_is_all_zeroes() -> None:
    """A client on a Unix socket has no address."""
    assert encode_host("local") == bytes(4)


def test_an_error_is_found_wherever_it_stands() -> None:
    """For the whole request or for one item."""
    refused = CreatableTopicResult(name="t", error_code=ErrorCode.NOT_CONTROLLER)
    assert has_error(CreateTopicsResponse(topics=(CreatableTopicResult(name="a"), refused)), ErrorCode.NOT_CONTROLLER)
    assert not has_error(CreateTopicsResponse(topics=(refused,)), ErrorCode.INVALID_REQUEST)


def test_what_is_forwarded_is_what_kafka_forwards() -> None:
    """The fact list of KIP-590 as it reads in 4.3.1: of what is served here, that and nothing else."""
    of_kafka = {19, 20, 30, 31, 33, 37, 38, 39, 40, 43, 44, 45, 46, 49, 51, 55, 57, 64, 80, 81}
    assert {api.key for api in API_TABLE if api.is_forwarded} == of_kafka & {api.key for api in API_TABLE}
