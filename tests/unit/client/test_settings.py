"""Are client properties understood as Kafka's clients understand them, and bad ones refused in one line?"""

from __future__ import annotations

import pytest

from headrace.client.login import PlainLogin
from headrace.client.settings import ClientSettings, parse_servers
from headrace.client.talk import Address
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
