"""One real Kafka with a listener for each way to log in, and the settings of a client for each."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.peers import kafka
from tests.support.roles import until

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
PASSWORD = 'p;w "x"'
SECRETS = ("p;w", "hush-of-the-key")
WAYS = ("plain", "scram-sha-256", "scram-sha-512", "oauthbearer", "mtls", "mtls-text")
"""The ways to log in: over TLS all but `scram-sha-256`."""
REAUTHENTICATION_MS = 1_500
"""After so long the listener of `scram-sha-256` closes a connection that has not logged in again (KIP-368)."""


@dataclass(frozen=True, kw_only=True)
class SecuredKafka:
    """Where each listener is, and the PEM files."""

    open: str
    login: str
    tls: str
    mtls: str
    directory: Path

    def settings(self, way: str, *, password: str = PASSWORD) -> dict[str, str]:
        """Kafka's client settings for one of `WAYS`."""
        quoted = password.replace('"', '\\"')
        user = f'username="al" password="{quoted}";'
        trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.directory / "ca.pem")}
        if way == "scram-sha-256":
            return {
                "bootstrap.servers": self.login,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": f"{SCRAM} {user}",
            }
        if way.startswith("mtls"):
            return {"bootstrap.servers": self.mtls, "security.protocol": "SSL", **self._client_key(way, trust)}
        more = {
            "plain": {"sasl.jaas.config": f"{PLAIN} {user}"},
            "scram-sha-512": {"sasl.jaas.config": f"{SCRAM} {user}"},
            "oauthbearer": {
                "sasl.jaas.config": f'{OAUTH} principal="al";',
                "sasl.login.callback.handler.class": "tests.support.secured_kafka:unsecured_token",
            },
        }[way]
        return {
            "bootstrap.servers": self.tls,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": way.upper(),
            **trust,
            **more,
        }

    def _client_key(self, way: str, trust: Mapping[str, str]) -> dict[str, str]:
        if way == "mtls":
            location = str(self.directory / "client.pem")
            return {
                **trust,
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": location,
                "ssl.key.password": SECRETS[1],
            }
        return {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": (self.directory / "ca.pem").read_text(),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": (self.directory / "client.key").read_text(),
            "ssl.keystore.certificate.chain": (self.directory / "client.crt").read_text(),
            "ssl.key.password": SECRETS[1],
        }


def unsecured_token(options: Mapping[str, str]) -> str:
    """A token that Kafka's validator for development takes: unsigned, for `principal` (RFC 7515, alg none)."""
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": options["principal"], "iat": now, "exp": now + 600})
    texts = [base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in parts]
    return ".".join([*texts, ""])


def _make_certificates(directory: Path) -> None:
    """An authority, a key of the broker (without password) and one of the client (with one), in PEM and PKCS#8."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=directory)

    key = ("-newkey", "rsa:2048", "-days", "2")
    openssl("req", "-x509", *key, "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority")
    (directory / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    for name, secret in (("broker", ("-nodes",)), ("client", ("-passout", f"pass:{SECRETS[1]}"))):
        openssl("req", *key, *secret, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        openssl(
            "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-days", "2", "-extfile", "names", "-out", f"{name}.crt",
        )  # fmt: skip
        pair = (directory / f"{name}.key").read_text() + (directory / f"{name}.crt").read_text()
        (directory / f"{name}.pem").write_text(pair)


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _properties(directory: Path, ports: Mapping[str, int], *, quoted: str) -> dict[str, str]:
    addresses = {name: f"{name}://127.0.0.1:{number}" for name, number in ports.items()}
    sasl = {
        "plain": f'{PLAIN} user_al="{quoted}";',
        "scram-sha-256": f"{SCRAM};",
        "scram-sha-512": f"{SCRAM};",
        "oauthbearer": f'{OAUTH} unsecuredLoginStringClaim_sub="broker";',
    }
    return {
        "listeners": ",".join(addresses.values()),
        "advertised.listeners": ",".join(each for name, each in addresses.items() if name != "CONTROLLER"),
        "controller.quorum.voters": f"1@127.0.0.1:{ports['CONTROLLER']}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_PLAINTEXT,"
        "TLS:SASL_SSL,MTLS:SSL",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.login.scram-sha-256.connections.max.reauth.ms": str(REAUTHENTICATION_MS),
        **{
            f"listener.name.{listener}.{mechanism}.sasl.jaas.config": line
            for listener in ("login", "tls")
            for mechanism, line in sasl.items()
        },
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(directory / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / "ca.pem"),
        "listener.name.mtls.ssl.client.auth": "required",
    }


@contextmanager
def secured_kafka(directory: Path) -> Iterator[SecuredKafka]:
    """The broker runs until the end of the `with`; user `al` has `PASSWORD` for PLAIN and SCRAM."""
    _make_certificates(directory)
    numbers = kafka.free_ports(5)
    ports = dict(zip(("PLAINTEXT", "CONTROLLER", "LOGIN", "TLS", "MTLS"), numbers, strict=True))
    quoted = PASSWORD.replace('"', '\\\\"')
    users = [
        argument
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        for argument in ("--add-scram", f"{mechanism}=[name=al,password={PASSWORD}]")
    ]
    broker = kafka.Kafka(
        directory / "kafka",
        port=ports["PLAINTEXT"],
        controller_port=ports["CONTROLLER"],
        properties=_properties(directory, ports, quoted=quoted),
        format_arguments=users,
    )
    with broker:
        until(lambda: all(_is_listening(ports[name]) for name in ("LOGIN", "TLS", "MTLS")))
        where = {name.lower(): f"127.0.0.1:{number}" for name, number in ports.items()}
        yield SecuredKafka(
            open=where["plaintext"],
            login=where["login"],
            tls=where["tls"],
            mtls=where["mtls"],
            directory=directory,
        )
