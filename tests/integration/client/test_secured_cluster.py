"""Does our client log in to a secured Kafka in each way, and is it told plainly when it may not?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.arrow.read import read_table
from headrace.client.aio import AsyncClient
from headrace.client.blocking import BlockingClient
from headrace.core.error_code import ErrorCode
from headrace.core.errors import OperatorError, PeerError
from tests.peers import kafka
from tests.support.commands import headrace
from tests.support.secured_kafka import REAUTHENTICATION_MS, SECRETS, WAYS, SecuredKafka, secured_kafka

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with secured_kafka(tmp_path_factory.mktemp("secured")) as found:
        yield found


def file_of(settings: dict[str, str], file: Path) -> str:
    """The settings as a properties file for `--command-config`."""
    given = {key: value for key, value in settings.items() if key != "bootstrap.servers"}
    quoted = {key: value.replace("\\", "\\\\").replace("\n", "\\n") for key, value in given.items()}
    file.write_text("".join(f"{key}={value}\n" for key, value in quoted.items()))
    return str(file)


@pytest.mark.parametrize("way", WAYS)
def test_s1_77_each_way_to_log_in_is_taken(secured: SecuredKafka, tmp_path: Path, way: str) -> None:
    """S1-77: PLAIN, SCRAM (KIP-84), OAUTHBEARER (KIP-255) and client certificates, PEM by path and as text (KIP-651): tools, scripts and tables."""
    settings = secured.settings(way)
    server = ["--bootstrap-server", settings["bootstrap.servers"]]
    server += ["--command-config", file_of(settings, tmp_path / "client.properties")]
    sent = headrace("console-producer", *server, "--topic", way, "--timeout", "0", stdin="one\ntwo\n")
    assert (sent.code, sent.err) == (0, "")
    assert read_table(settings, way, columns=["value"]).column("value").to_pylist() == [b"one", b"two"]

    async def ask() -> str | None:
        async with AsyncClient(properties=settings) as client:
            assert way in await client.topics()
            return client.session.cluster.cluster_id

    assert asyncio.run(ask()) == kafka.CLUSTER_ID


def test_kip_368_a_login_is_renewed_before_it_expires(secured: SecuredKafka) -> None:
    """KIP-368: with `connections.max.reauth.ms` the broker closes connections whose login is too old; no request is lost to that."""
    settings = secured.settings("scram-sha-256")
    links: dict[int, object] = {}
    with BlockingClient(properties=settings) as client:
        until = time.monotonic() + 3 * REAUTHENTICATION_MS / 1000
        while time.monotonic() < until:
            client.topics()
            links |= {id(link): link for link in client._links.values()}
            assert all(not link.has_input for link in client._links.values())
    assert len(links) > 1


@pytest.mark.parametrize("way", ["plain", "scram-sha-256", "scram-sha-512"])
def test_b78_a_wrong_password_is_told_at_once(secured: SecuredKafka, tmp_path: Path, way: str) -> None:
    """B78: wrong password: no retries, one line, exit code 1, and the password is not in it."""
    wrong = secured.settings(way, password="wrong-hush")
    with BlockingClient(properties=wrong) as client, pytest.raises(PeerError) as caught:
        client.topics()
    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    file = file_of(wrong, tmp_path / "client.properties")
    done = headrace("topics", "--list", "--bootstrap-server", wrong["bootstrap.servers"], "--command-config", file)
    assert (done.code, len(done.err.splitlines())) == (1, 1)
    assert "uthentication" in done.err
    assert "hush" not in done.err


def test_b78_a_token_that_is_refused_is_told_at_once(secured: SecuredKafka) -> None:
    """B78, RFC 7628 3.2.3: the broker's challenge is answered, and its error is ours; the token is not in it."""
    settings = secured.settings("oauthbearer")
    settings["sasl.login.callback.handler.class"] = f"{__name__}:no_token_of_theirs"
    with BlockingClient(properties=settings) as client, pytest.raises(PeerError) as caught:
        client.topics()
    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "hush" not in str(caught.value)


def no_token_of_theirs(_options: object) -> str:
    return "hush"


@pytest.mark.parametrize("way", ["plain", "mtls"])
def test_a_certificate_nobody_vouches_for_is_refused(secured: SecuredKafka, way: str) -> None:
    """TLS without the authority: the connection fails, and says why."""
    settings = secured.settings(way) | {"default.api.timeout.ms": "500"}
    del settings["ssl.truststore.location"]
    with (
        BlockingClient(properties=settings) as client,
        pytest.raises(OperatorError, match="TLS handshake failed"),
    ):
        client.topics()


def test_a_client_without_a_certificate_is_turned_away_where_one_is_asked_for(secured: SecuredKafka) -> None:
    """`ssl.client.auth=required`: one line, whenever the node's alert comes."""
    settings = {key: value for key, value in secured.settings("mtls").items() if "key" not in key}
    settings["default.api.timeout.ms"] = "500"
    with BlockingClient(properties=settings) as client, pytest.raises(OperatorError) as caught:
        client.topics()
    assert "\n" not in str(caught.value)


def test_a_wrong_password_of_a_key_is_told_without_it(secured: SecuredKafka) -> None:
    """B78: nothing is asked on the terminal either."""
    settings = secured.settings("mtls")
    for password in ("wrong-hush", ""):
        with pytest.raises(OperatorError, match="cannot be used") as caught:
            BlockingClient(properties=settings | {"ssl.key.password": password})
        assert "hush" not in str(caught.value)
        assert SECRETS[1] not in str(caught.value)


def test_b78_a_plain_client_at_a_secured_port_gives_up_in_one_line(secured: SecuredKafka) -> None:
    """B78: the wrong protocol for the port."""
    for address in (secured.login, secured.tls, secured.mtls):
        with (
            BlockingClient(address, properties={"default.api.timeout.ms": "500"}) as client,
            pytest.raises((OperatorError, PeerError)) as caught,
        ):
            client.topics()
        assert "\n" not in str(caught.value)
