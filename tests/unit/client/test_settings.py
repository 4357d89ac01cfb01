"""Are client properties understood as Kafka's clients understand them, and bad ones refused in one line?"""

from __future__ import annotations

import pytest

from headrace.client.login import PlainLogin
from headrace.client.security_names import check_spelling
from headrace.client.settings import ClientSettings, parse_servers
from headrace.client.talk import Address
from headrace.config.node_settings import KEYS
from headrace.core.errors import OperatorError


def test_servers_may_have_protocols_blanks_and_ipv6_hosts() -> None:
    """`bootstrap.servers` as Kafka's clients take it."""
    assert parse_servers("a:1, PLAINTEXT://b:2,[::1]:3") == (
        Address(host="a", port=1),
        Address(host="b", port=2),
        Address(host="::1", port=3),
    )


@pytest.mark.parametrize("text", ["", " , ", "host", "host:", ":9092", "host:0", "host:65536", "host:x", "a:1,b"])
def test_a_server_without_a_port_is_refused(text: str) -> None:
    """B78: names that make no address are told."""
    with pytest.raises(OperatorError):
        parse_servers(text)


def test_s1_77_the_properties_of_a_file_configure_the_client() -> None:
    """S1-77: timeouts and security come from the file."""
    found = ClientSettings.of(
        {
            "bootstrap.servers": "h:9092",
            "request.timeout.ms": "1234",
            "default.api.timeout.ms": "99",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": 'org.apache.kafka.common.security.plain.PlainLoginModule required username="al" password="s\\"x";',
        }
    )
    assert (found.request_timeout_ms, found.default_api_timeout_ms) == (1234, 99)
    assert found.login == PlainLogin(username="al", password='s"x')
    assert found.tls is not None


@pytest.mark.parametrize(
    "bad",
    [
        {"request.timeout.ms": "soon"},
        {"request.timeout.ms": "-1"},
        {"security.protocol": "TELNET"},
        {"security.protocol": "SASL_PLAINTEXT"},
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"},
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"},
        {"security.protocol": "SSL", "ssl.truststore.location": "/x.jks"},
        {"check.crcs": "maybe"},
    ],
)
def test_a_bad_value_names_its_key(bad: dict[str, str]) -> None:
    """B78: one line that says which setting is wrong."""
    with pytest.raises(OperatorError) as caught:
        ClientSettings.of({"bootstrap.servers": "h:1", **bad})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("security.protocoll", "security.protocol"),
        ("Security.Protocol", "security.protocol"),
        ("ssl.truststore.locaton", "ssl.truststore.location"),
        ("sasl.jaas.confg", "sasl.jaas.config"),
    ],
)
def test_a_slip_in_the_name_of_a_security_setting_is_refused(given: str, meant: str) -> None:
    """B78: who asked for TLS must not speak without it."""
    with pytest.raises(OperatorError, match=f"^{given} is no setting of a client: did you mean {meant}\\?$"):
        ClientSettings.of({"bootstrap.servers": "h:1", given: "x"})


def test_settings_of_others_are_no_slips() -> None:
    """A file is shared with other programs, or is a node's own (`--command-config server.properties`)."""
    names = [
        *KEYS,
        "sasl.mechanisms",
        "ssl.crl.location",
        "security.protocol.map",
        "statistics.interval.ms",
        "session.timeout.ms",
    ]
    check_spelling(dict.fromkeys(names, "x"))
    for name in names:
        check_spelling({name: "x"})
