"""Are the TLS settings of Kafka's clients understood, and those without a meaning here refused with the remedy?"""

from __future__ import annotations

import pytest

from headrace.client.tls import tls_context
from headrace.client.tls_settings import TlsSettings, parse_tls
from headrace.core.errors import OperatorError


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"ssl.truststore.location": "/x.jks"}, "keytool -exportcert -rfc -keystore /x.jks"),
        ({"ssl.keystore.location": "/x.jks"}, "keytool -importkeystore -srckeystore /x.jks"),
        ({"ssl.truststore.type": "PKCS12"}, "ssl.truststore.type=PEM"),
        ({"ssl.keystore.key": "hush"}, "ssl.keystore.certificate.chain"),
        ({"ssl.keystore.certificate.chain": "c"}, "ssl.keystore.key"),
        ({"ssl.keystore.key": "hush", "ssl.keystore.certificate.chain": "c", "ssl.certificate.location": "/c"}, "both"),
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, "TLSv1.2, TLSv1.3"),
        ({"ssl.enabled.protocols": " "}, "ssl.enabled.protocols"),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "ssl.cipher.suites"),
        ({"ssl.engine.factory.class": "x.Y"}, "ssl.engine.factory.class"),
    ],
)
def test_a_setting_without_a_meaning_here_is_refused(properties: dict[str, str], named: str) -> None:
    """What would change whom we trust is never passed over in silence; the line says what to do."""
    with pytest.raises(OperatorError) as caught:
        parse_tls(properties)
    assert named in str(caught.value)
    assert "hush" not in str(caught.value)


def test_java_names_and_librdkafka_names_are_both_understood() -> None:
    """PEM by path and as text."""
    java = {
        "ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca", "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "/me", "ssl.key.password": "hush", "ssl.endpoint.identification.algorithm": "",
    }  # fmt: skip
    assert parse_tls(java) == TlsSettings(
        ca_path="/ca", certificate_path="/me", key_password="hush", is_host_checked=False
    )
    assert "hush" not in repr(parse_tls(java))
    text = {"ssl.truststore.certificates": "C", "ssl.keystore.key": "hush", "ssl.keystore.certificate.chain": "D"}
    assert parse_tls(text) == TlsSettings(ca_text="C", key_text="hush", certificate_text="D")
    assert "hush" not in repr(parse_tls(text))
    other = {"ssl.ca.location": "/ca", "ssl.certificate.location": "/me", "ssl.key.location": "/key"}
    assert parse_tls(other) == TlsSettings(ca_path="/ca", certificate_path="/me", key_path="/key")


def test_only_the_named_versions_of_tls_are_spoken() -> None:
    """`ssl.enabled.protocols`."""
    context = tls_context(parse_tls({"ssl.enabled.protocols": "TLSv1.3"}))
    assert (context.minimum_version.name, context.maximum_version.name) == ("TLSv1_3", "TLSv1_3")
    assert tls_context(parse_tls({})).minimum_version.name == "TLSv1_2"


@pytest.mark.parametrize(
    "settings",
    [
        TlsSettings(ca_path="/no/such/file"),
        TlsSettings(ca_text="no certificate"),
        TlsSettings(certificate_path="/no/such/file"),
        TlsSettings(key_text="-----BEGIN PRIVATE KEY-----\nhush\n-----END PRIVATE KEY-----", certificate_text="x"),
    ],
)
def test_material_that_cannot_be_used_is_told_without_the_material(settings: TlsSettings) -> None:
    """B78: one line; the text of a key is not in it."""
    with pytest.raises(OperatorError, match="cannot be used") as caught:
        tls_context(settings)
    assert "hush" not in str(caught.value)
    assert "\n" not in str(caught.value)
