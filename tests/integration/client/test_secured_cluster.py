"""Does our client log in with a password and over TLS, and is it told plainly when it may not?"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from headrace.client.blocking import BlockingClient
from headrace.core.error_code import ErrorCode
from headrace.core.errors import OperatorError, PeerError
from tests.peers import kafka
from tests.support.commands import headrace
from tests.support.roles import until

pytestmark = pytest.mark.java
PASSWORD = "secret-of-the-store"


class Secured(NamedTuple):
    """Where a Kafka listens with login and TLS, and the certificate that vouches for it."""

    plain: str
    tls: str
    certificate: Path


def is_listening(port: int) -> bool:
    """Somebody takes connections there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _make_store(directory: Path) -> Path:
    """A PKCS#12 key store for localhost, and beside it its certificate as PEM."""
    store, certificate = directory / "broker.p12", directory / "broker.pem"
    shared = ["-keystore", str(store), "-storepass", PASSWORD, "-alias", "broker"]
    names = ["-dname", "CN=localhost", "-ext", "SAN=DNS:localhost,IP:127.0.0.1", "-ext", "bc:c"]
    subprocess.run(
        ["keytool", "-genkeypair", "-keyalg", "RSA", "-storetype", "PKCS12", *shared, *names],
        check=True,
        capture_output=True,
    )
    subprocess.run(
        ["keytool", "-exportcert", "-rfc", "-file", str(certificate), *shared], check=True, capture_output=True
    )
    return store


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    store = _make_store(directory)
    port, controller, login, tls = kafka.free_ports(4)
    users = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_al="p;w \\"x\\"";'
    listeners = {"PLAINTEXT": port, "LOGIN": login, "TLS": tls, "CONTROLLER": controller}
    addresses = {name: f"{name}://127.0.0.1:{number}" for name, number in listeners.items()}
    properties = {
        "listeners": ",".join(addresses.values()),
        "advertised.listeners": ",".join(address for name, address in addresses.items() if name != "CONTROLLER"),
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_PLAINTEXT,TLS:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": users.replace("\\", "\\\\"),
        "listener.name.tls.plain.sasl.jaas.config": users.replace("\\", "\\\\"),
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": PASSWORD,
        "ssl.keystore.type": "PKCS12",
    }
    with kafka.Kafka(directory / "kafka", port=port, controller_port=controller, properties=properties):
        until(lambda: is_listening(login) and is_listening(tls))  # a listener each, one after the other
        yield Secured(f"127.0.0.1:{login}", f"127.0.0.1:{tls}", directory / "broker.pem")


def settings(protocol: str, password: str = 'p;w \\"x\\"', **more: str) -> dict[str, str]:
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="al" password="{password}";'
    return {
        "security.protocol": protocol,
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": login,
        "default.api.timeout.ms": "60000",
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def test_plain_login_is_taken(secured: Secured) -> None:
    """SASL PLAIN over an open connection, the password with blanks, quotes and a semicolon."""
    with BlockingClient(secured.plain, properties=settings("SASL_PLAINTEXT")) as client:
        assert set(client.topics()) <= {"tls"}  # what another test of this file makes, if it ran before
        assert client.session.cluster.cluster_id == kafka.CLUSTER_ID


def test_b78_a_wrong_password_is_told_at_once(secured: Secured, tmp_path: Path) -> None:
    """B78: wrong password: no retries, one line, exit code 1."""
    wrong = settings("SASL_PLAINTEXT", "wrong")
    with BlockingClient(secured.plain, properties=wrong) as client, pytest.raises(PeerError) as caught:
        client.topics()
    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in wrong.items()))
    done = headrace("topics", "--list", "--bootstrap-server", secured.plain, "--command-config", str(file))
    assert (done.code, len(done.err.splitlines())) == (1, 1)
    assert "uthentication" in done.err


def test_s1_77_tls_is_checked_against_the_certificate_in_the_file(secured: Secured, tmp_path: Path) -> None:
    """S1-77: `ssl.truststore.location` as PEM; records go over TLS."""
    file = tmp_path / "client.properties"
    pem = {"ssl_truststore_location": str(secured.certificate), "ssl_truststore_type": "PEM"}
    quoted = {key: value.replace("\\", "\\\\") for key, value in settings("SASL_SSL", **pem).items()}
    file.write_text("".join(f"{key}={value}\n" for key, value in quoted.items()))
    server = ["--bootstrap-server", secured.tls, "--command-config", str(file)]
    assert headrace("console-producer", *server, "--topic", "tls", "--timeout", "0", stdin="over tls\n").code == 0
    read = headrace("console-consumer", *server, "--topic", "tls", "--from-beginning", "--max-messages", "1")
    assert (read.code, read.out) == (0, "over tls\n")


def test_a_certificate_nobody_vouches_for_is_refused(secured: Secured) -> None:
    """TLS without the certificate: the connection fails, and says why."""
    quick = settings("SASL_SSL", default_api_timeout_ms="500")
    with (
        BlockingClient(secured.tls, properties=quick) as client,
        pytest.raises(OperatorError, match="TLS handshake failed"),
    ):
        client.topics()


def test_b78_a_plain_client_at_a_secured_port_gives_up_in_one_line(secured: Secured) -> None:
    """B78: the wrong protocol for the port."""
    for address in (secured.plain, secured.tls):
        with (
            BlockingClient(address, properties={"default.api.timeout.ms": "500"}) as client,
            pytest.raises((OperatorError, PeerError)) as caught,
        ):
            client.topics()
        assert "\n" not in str(caught.value)
