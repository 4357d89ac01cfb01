"""Does a client log in as the SASL mechanisms ask, and keep its secrets to itself?"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Mapping

import pytest
from scramp import ScramMechanism

from headrace.client.connection import Connection
from headrace.client.login import Login, PlainLogin, ScramLogin, TokenLogin, parse_jaas, parse_login
from headrace.client.settings import ClientSettings
from headrace.core.error_code import ErrorCode
from headrace.core.errors import OperatorError, PeerError
from headrace.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from headrace.wire.messages.sasl_handshake import SaslHandshakeResponse
from tests.unit.client.test_connection_dialogue import frame, settings, versions

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
HERE = "tests.unit.client.test_login"


def token_of(options: Mapping[str, str]) -> str:
    """A user's function: its token tells what it was called with."""
    return "token-for-" + options.get("scope", "nobody")


def raises_with_a_secret(_options: Mapping[str, str]) -> str:
    raise ValueError("client_secret=hush")


def gives_nothing(_options: Mapping[str, str]) -> str:
    return ""


NOT_A_FUNCTION = 7


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("iterations", [4096, 16384])
def test_scram_proves_the_password_and_has_the_node_prove_its_own(mechanism: str, iterations: int) -> None:
    """RFC 5802, RFC 7677: a server of another maker takes the proof, the client takes the server's; names are escaped."""
    with_hash = ScramMechanism(mechanism)
    salt, stored_key, server_key, count = with_hash.make_auth_info("p,w=x", iteration_count=iterations)
    server = with_hash.make_server(lambda name: {"a=l,": (salt, stored_key, server_key, count)}[name])
    dialogue = ScramLogin(mechanism=mechanism, username="a=l,", password="p,w=x").dialogue()
    server.set_client_first(dialogue.first().decode())
    final = dialogue.answer(server.get_server_first().encode())
    assert final is not None
    server.set_client_final(final.decode())
    assert dialogue.answer(server.get_server_final().encode()) is None


def scram_refused(*challenges: bytes) -> PeerError:
    dialogue = ScramLogin(mechanism="SCRAM-SHA-256", username="al", password="hush").dialogue()
    nonce = dialogue.first().decode().partition(",r=")[2].encode()
    for each in challenges[:-1]:
        dialogue.answer(each.replace(b"NONCE", nonce))
    with pytest.raises(PeerError) as caught:
        dialogue.answer(challenges[-1].replace(b"NONCE", nonce))
    return caught.value


@pytest.mark.parametrize(
    "challenges",
    [
        (b"",),
        (b"\xff\xfe",),
        (b"r=other,s=c2FsdHNhbHRzYWx0c2FsdA==,i=4096",),
        (b"r=NONCEx,s=c2FsdHNhbHRzYWx0c2FsdA==,i=2147483647",),
        (b"r=NONCEx,s=c2FsdHNhbHRzYWx0c2FsdA==,i=16385",),
        (b"r=NONCEx,s=!!,i=4096",),
        (b"r=NONCEx,s=c2FsdHNhbHRzYWx0c2FsdA==,i=x",),
        (b"r=NONCEx,s=c2FsdHNhbHRzYWx0c2FsdA==,i=4096", b"v=d3Jvbmc="),
        (b"r=NONCEx,s=c2FsdHNhbHRzYWx0c2FsdA==,i=4096", b"e=other-error"),
        (b"r=NONCEx,s=c2FsdHNhbHRzYWx0c2FsdA==,i=4096", b""),
    ],
    ids=[
        "empty",
        "no text",
        "other nonce",
        "years",
        "too many",
        "bad salt",
        "bad count",
        "wrong proof",
        "error",
        "none",
    ],
)
def test_b29_a_node_that_answers_scram_wrongly_is_left(challenges: tuple[bytes, ...]) -> None:
    """B29, RFC 5802 5: what a node sends is distrusted: its nonce, its cost, its proof; the password is in no error."""
    error = scram_refused(*challenges)
    assert error.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "hush" not in str(error)


def test_a_token_goes_out_with_its_extensions() -> None:
    """RFC 7628 3.1, KIP-342: the function named by the setting gets the options of the login module."""
    login = parse_login(
        {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.login.callback.handler.class": f"{HERE}:token_of",
            "sasl.jaas.config": f'{OAUTH} scope="read" extension_traceId="7";',
        }
    )
    dialogue = login.dialogue()
    assert dialogue.first() == b"n,,\1auth=Bearer token-for-read\1traceId=7\1\1"
    assert dialogue.answer(b"") is None
    assert dialogue.answer(b'{"status":"invalid_token"}') == b"\1"


@pytest.mark.parametrize("name", ["raises_with_a_secret", "gives_nothing"])
def test_a_function_without_a_token_is_told_without_its_text(name: str) -> None:
    """A function's error may hold a secret: only its kind is told."""
    login = TokenLogin(function=globals()[name], options={})
    with pytest.raises(OperatorError, match=r"sasl\.login\.callback\.handler\.class") as caught:
        login.dialogue()
    assert "hush" not in str(caught.value)
    assert "hush" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({}, "sasl.mechanism=GSSAPI"),
        ({"sasl.mechanism": "OAUTHBEARER"}, "module:function"),
        ({"sasl.mechanism": "OAUTHBEARER", "sasl.login.callback.handler.class": "org.x.Handler"}, "module:function"),
        ({"sasl.mechanism": "OAUTHBEARER", "sasl.login.callback.handler.class": "no.such:f"}, "cannot be imported"),
        ({"sasl.mechanism": "OAUTHBEARER", "sasl.login.callback.handler.class": f"{HERE}:no"}, "cannot be imported"),
        ({"sasl.mechanism": "OAUTHBEARER", "sasl.login.callback.handler.class": f"{HERE}:NOT_A_FUNCTION"}, "function"),
        ({"sasl.mechanism": "PLAIN", "sasl.login.callback.handler.class": f"{HERE}:token_of"}, "OAUTHBEARER only"),
        ({"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": f"{OAUTH} ;"}, "ScramLoginModule"),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": f'{SCRAM} username="a" password="hush";'}, "PlainLoginModule"),
        ({"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": f'{SCRAM} password="hush";'}, "both needed"),
        (
            {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": f'{SCRAM} username="a" password="hush" tokenauth="true";'},
            "delegation tokens",
        ),
        (
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.login.callback.handler.class": f"{HERE}:token_of",
                "sasl.jaas.config": f'{OAUTH} extension_auth="hush";',
            },
            "extension_auth",
        ),
    ],
)  # fmt: skip
def test_a_login_that_cannot_be_is_refused_by_name(properties: dict[str, str], named: str) -> None:
    """B78: one line that names the setting and what it should be, without the secret."""
    with pytest.raises(OperatorError) as caught:
        parse_login(properties)
    assert named in str(caught.value)
    assert "hush" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_user_and_password_come_from_either_place() -> None:
    """`sasl.jaas.config` as Java's clients have it, `sasl.username` and `sasl.password` as librdkafka's."""
    jaas = {"sasl.mechanism": "scram-sha-512", "sasl.jaas.config": f"{SCRAM} username='al' password=pw;"}
    pair = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "al", "sasl.password": "pw"}
    assert parse_login(jaas) == parse_login(pair) == ScramLogin(mechanism="SCRAM-SHA-512", username="al", password="pw")
    assert parse_jaas(f"{OAUTH};", "OAUTHBEARER") == {}


def test_no_secret_is_in_the_text_of_a_login() -> None:
    """What is printed, logged or shown in a traceback holds no secret; a login still goes to Spark's workers."""
    logins: list[Login] = [
        PlainLogin(username="al", password="hush"),
        ScramLogin(mechanism="SCRAM-SHA-256", username="al", password="hush"),
        TokenLogin(function=token_of, options={"clientSecret": "hush"}, extensions={"x": "hush"}),
    ]
    for login in logins:
        assert "hush" not in repr(login)
        assert "hush" not in repr(settings(login))
        assert pickle.loads(pickle.dumps(login)) == login


def test_scram_takes_two_rounds_and_the_session_is_known() -> None:
    """KIP-84, KIP-368: SaslAuthenticate until nothing is left to say; the last answer tells how long the login lasts."""
    with_hash = ScramMechanism("SCRAM-SHA-256")
    info = with_hash.make_auth_info("pw", iteration_count=4096)
    server = with_hash.make_server(lambda _name: info)
    connection = Connection(settings(ScramLogin(mechanism="SCRAM-SHA-256", username="al", password="pw")))
    connection.opening()
    connection.received(frame(0, versions(), 4))
    first = connection.received(frame(1, SaslHandshakeResponse(mechanisms=("SCRAM-SHA-256",)), 1))
    assert isinstance(first, bytes)
    server.set_client_first(first[first.index(b"n,,") :].decode())
    final = connection.received(frame(2, SaslAuthenticateResponse(auth_bytes=server.get_server_first().encode()), 1))
    assert isinstance(final, bytes)
    assert not connection.is_ready
    server.set_client_final(final[final.index(b"c=") :].decode())
    done = SaslAuthenticateResponse(auth_bytes=server.get_server_final().encode(), session_lifetime_ms=5_000)
    assert connection.received(frame(3, done, 1)) == b""
    assert (connection.is_ready, connection.session_ms) == (True, 5_000)


def test_a_mechanism_that_the_node_lacks_is_told_with_those_it_has() -> None:
    """B78: what to change is said."""
    connection = Connection(settings(ScramLogin(mechanism="SCRAM-SHA-512", username="al", password="pw")))
    connection.opening()
    connection.received(frame(0, versions(), 4))
    with pytest.raises(PeerError, match="PLAIN; SCRAM-SHA-512 is not one"):
        connection.received(frame(1, SaslHandshakeResponse(error_code=33, mechanisms=("PLAIN",)), 1))


def test_a_whole_login_is_read_from_client_properties() -> None:
    """S1-77: the mechanism of the file is the one that is spoken."""
    found = ClientSettings.of(
        {
            "bootstrap.servers": "h:1",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": f'{SCRAM} username="al" password="p\\"w";',
        }
    )
    assert found.login == ScramLogin(mechanism="SCRAM-SHA-256", username="al", password='p"w')
    assert SaslAuthenticateRequest.SCHEMA.api_key == 36
