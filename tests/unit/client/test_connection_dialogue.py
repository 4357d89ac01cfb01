"""Does a connection agree on versions, log in, match answers, and drop a peer that talks nonsense?"""

from __future__ import annotations

import struct
from typing import Any

import pytest

from headrace.client.connection import Connection
from headrace.client.login import Login, PlainLogin
from headrace.client.settings import ClientSettings
from headrace.client.talk import Address, Answered, Unsupported, bounded
from headrace.core.error_code import ErrorCode
from headrace.core.errors import DecodeError, PeerError
from headrace.wire import codec
from headrace.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from headrace.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from headrace.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from headrace.wire.messages.sasl_handshake import SaslHandshakeResponse

RANGES = ((3, 0, 13), (16, 0, 4), (17, 0, 1), (18, 0, 4), (36, 0, 1))


def settings(login: Login | None = None) -> ClientSettings:
    return ClientSettings(bootstrap=(Address(host="h", port=1),), client_id="me", login=login)


def versions(*, error_code: int = 0, ranges: tuple[tuple[int, int, int], ...] = RANGES) -> ApiVersionsResponse:
    keys = tuple(ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in ranges)
    return ApiVersionsResponse(error_code=error_code, api_keys=keys)


def frame(correlation_id: int, message: Any, version: int, *, header: int = 0) -> bytearray:
    return bytearray(struct.pack(">i", correlation_id) + (b"\0" if header else b"") + codec.encode(message, version))


def opened() -> Connection:
    connection = Connection(settings())
    connection.opening()
    assert connection.received(frame(0, versions(), 4)) == b""
    assert connection.is_ready
    return connection


def test_kip_35_versions_are_asked_first_and_the_highest_common_one_is_taken() -> None:
    """KIP-35, KIP-511: ApiVersions opens the dialogue; requests take the highest version both sides have."""
    connection = Connection(settings())
    first = connection.opening()
    length, key, version, correlation_id = struct.unpack_from(">ihhi", first)
    assert (length, key, version, correlation_id) == (len(first) - 4, 18, 4, 0)
    assert first[14:16] == b"me"
    assert connection.received(frame(0, versions(), 4)) == b""
    assert connection.choose(ListGroupsRequest()) == (ListGroupsRequest(), 4)


def test_kip_511_an_old_node_is_asked_again_in_a_version_it_has() -> None:
    """KIP-511: UNSUPPORTED_VERSION comes in version 0, with the versions the node has."""
    connection = Connection(settings())
    connection.opening()
    refusal = versions(error_code=ErrorCode.UNSUPPORTED_VERSION, ranges=((18, 0, 2),))
    again = connection.received(frame(0, refusal, 0))
    assert isinstance(again, bytes)
    assert struct.unpack_from(">hhi", again, 4) == (18, 2, 1)
    assert connection.received(frame(1, versions(), 2)) == b""
    assert connection.is_ready


def test_a_call_within_bounds_the_node_has_not_is_unsupported() -> None:
    """An API or version that the node lacks is said, and nothing is sent."""
    connection = opened()
    too_new = connection.choose(bounded(ListGroupsRequest(), at_least=5))
    assert isinstance(too_new, Unsupported)
    assert "0 to 4" in too_new.reason
    connection.ranges.clear()
    assert isinstance(connection.choose(ListGroupsRequest()), Unsupported)


@pytest.mark.parametrize(
    ("keys", "is_controller"), [((18, 52), True), ((3, 18), False), ((3, 18, 52), False), ((18,), False)]
)
def test_a_listener_that_votes_and_tells_no_metadata_is_a_controllers(
    keys: tuple[int, ...], is_controller: bool
) -> None:
    """KIP-919: who asked it for what brokers serve is told so."""
    connection = opened()
    connection.ranges = dict.fromkeys(keys, (0, 4))
    missing = connection.choose(ListGroupsRequest())
    assert isinstance(missing, Unsupported)
    assert missing.is_controller is is_controller


def test_answers_are_matched_by_correlation_id_in_order() -> None:
    """Kafka answers one connection in the order of its requests."""
    connection = opened()
    first, _ = connection.request(ListGroupsRequest(), 4)
    second, _ = connection.request(ListGroupsRequest(), 4)
    answer = ListGroupsResponse(error_code=0)
    assert connection.received(frame(first, answer, 4, header=1)) == (first, Answered(response=answer, version=4))
    assert connection.received(frame(second, answer, 4, header=1)) == (second, Answered(response=answer, version=4))


def test_a_request_without_an_answer_is_not_waited_for() -> None:
    """Produce with acks 0 has no answer."""
    connection = opened()
    connection.request(ListGroupsRequest(), 4, is_answered=False)
    assert connection.pending == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda right: right[:3],
        lambda right: bytearray(),
        lambda right: right[:-1],
        lambda right: right + b"\0",
        lambda right: bytearray(struct.pack(">i", 77)) + right[4:],
        lambda right: right[:4] + b"\xff\xff\xff\xff\x0f" + right[5:],
        lambda right: right[:4] + b"\x02\x00\x7f" + right[5:],
        lambda right: right[:11] + b"\xff\xff\xff\xff\x07",
    ],
    ids=["cut id", "empty", "cut", "trailing", "wrong id", "huge tag count", "tag past the end", "huge count"],
)
def test_b29_an_answer_that_is_malformed_drops_the_connection(make: Any) -> None:
    """B29: our own client distrusts its peer; every malformation is a DecodeError and nothing else."""
    connection = opened()
    correlation_id, _ = connection.request(ListGroupsRequest(), 4)
    with pytest.raises(DecodeError):
        connection.received(make(frame(correlation_id, ListGroupsResponse(error_code=0), 4, header=1)))


def test_b29_an_answer_that_nobody_asked_for_drops_the_connection() -> None:
    """B29: a frame without a request."""
    with pytest.raises(DecodeError, match="answers nothing"):
        opened().received(frame(1, ListGroupsResponse(), 4, header=1))


def test_b29_every_truncation_and_byte_change_of_an_answer_is_an_answer_or_a_decode_error() -> None:
    """B29, B30: whatever one byte becomes, the client does not crash."""
    right = bytes(frame(1, versions(), 3))
    changes = [right[:cut] for cut in range(len(right))]
    changes += [
        right[:at] + bytes([value]) + right[at + 1 :] for at in range(len(right)) for value in (0, 1, 0x7F, 0x80, 0xFF)
    ]
    for changed in changes:
        connection = opened()
        connection.request(ApiVersionsRequest(), 3)
        try:
            connection.received(bytearray(changed))
        except DecodeError:
            continue


def test_sasl_plain_is_spoken_before_anything_else() -> None:
    """RFC 4616 within SaslHandshake and SaslAuthenticate."""
    connection = Connection(settings(PlainLogin(username="al", password="pw")))
    connection.opening()
    handshake = connection.received(frame(0, versions(), 4))
    assert isinstance(handshake, bytes)
    assert struct.unpack_from(">hh", handshake, 4) == (17, 1)
    login = connection.received(frame(1, SaslHandshakeResponse(mechanisms=("PLAIN",)), 1))
    assert isinstance(login, bytes)
    assert struct.unpack_from(">hh", login, 4) == (36, 1)
    assert login.endswith(codec.encode(SaslAuthenticateRequest(auth_bytes=b"\0al\0pw"), 1))
    assert connection.received(frame(2, SaslAuthenticateResponse(), 1)) == b""
    assert connection.is_ready


def test_b78_a_wrong_password_is_an_error_with_the_nodes_text() -> None:
    """B78: wrong password."""
    connection = Connection(settings(PlainLogin(username="al", password="no")))
    connection.opening()
    connection.received(frame(0, versions(), 4))
    connection.received(frame(1, SaslHandshakeResponse(mechanisms=("PLAIN",)), 1))
    refusal = SaslAuthenticateResponse(error_code=58, error_message="Invalid username or password")
    with pytest.raises(PeerError, match="Invalid username or password") as caught:
        connection.received(frame(2, refusal, 1))
    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
