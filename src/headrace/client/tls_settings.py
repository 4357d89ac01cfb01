"""TLS settings out of Kafka's client properties.

Certificates and keys are PEM, in files or as text within the settings; text lets tasks on other machines do without files. No key and no password is
in a text of the settings, nor in an error of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headrace.core.errors import OperatorError

_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
_CONVERT: Final = {
    "truststore": "keytool -exportcert -rfc -keystore {path} -alias NAME > ca.pem",
    "keystore": (
        "keytool -importkeystore -srckeystore {path} -destkeystore store.p12 -deststoretype PKCS12, "
        "then openssl pkcs12 -in store.p12 -out client.pem"
    ),
}
_MEANINGLESS: Final = {
    "ssl.cipher.suites": "the ciphers are OpenSSL's; leave it out",
    "ssl.provider": "TLS is OpenSSL's; leave it out",
    "ssl.engine.factory.class": "TLS is OpenSSL's; leave it out",
    "ssl.keymanager.algorithm": "TLS is OpenSSL's; leave it out",
    "ssl.trustmanager.algorithm": "TLS is OpenSSL's; leave it out",
}
"""Settings of Java's that would change what is trusted or how it is secured: they are not passed over in silence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """How to reach a TLS listener: PEM material by path or text, and whether the host's name is checked."""

    ca_path: str | None = None
    ca_text: str | None = None
    certificate_path: str | None = None
    certificate_text: str | None = None
    key_path: str | None = None
    key_text: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    is_host_checked: bool = True
    versions: tuple[str, ...] = _VERSIONS


def parse_tls(properties: Mapping[str, str]) -> TlsSettings:
    """The TLS settings of client properties. Raises OperatorError for what has no meaning here."""
    for name, remedy in _MEANINGLESS.items():
        if properties.get(name):
            raise OperatorError(f"{name} has no meaning for this client: {remedy}")
    for role in ("truststore", "keystore"):
        path = properties.get(f"ssl.{role}.location")
        kind = properties.get(f"ssl.{role}.type", "JKS" if path else "PEM")
        if kind.upper() != "PEM":
            how = _CONVERT[role].format(path=path or f"{role}.jks")
            raise OperatorError(
                f"ssl.{role}.type={kind}: this client reads PEM; convert the store ({how}) and set ssl.{role}.type=PEM"
            )
    key, chain = properties.get("ssl.keystore.key"), properties.get("ssl.keystore.certificate.chain")
    if (key is None) != (chain is None):
        raise OperatorError("ssl.keystore.key and ssl.keystore.certificate.chain are given together, or neither")
    path = properties.get("ssl.keystore.location") or properties.get("ssl.certificate.location")
    if key is not None and path is not None:
        raise OperatorError("give the client's key as text in ssl.keystore.key or as a file, not both")
    return TlsSettings(
        ca_path=properties.get("ssl.truststore.location") or properties.get("ssl.ca.location"),
        ca_text=properties.get("ssl.truststore.certificates"),
        certificate_path=path,
        certificate_text=chain,
        key_path=properties.get("ssl.key.location"),
        key_text=key,
        key_password=properties.get("ssl.key.password"),
        is_host_checked=properties.get("ssl.endpoint.identification.algorithm", "https").strip() != "",
        versions=_versions(properties),
    )


def _versions(properties: Mapping[str, str]) -> tuple[str, ...]:
    text = properties.get("ssl.enabled.protocols", ",".join(_VERSIONS))
    named = {each.strip() for each in text.split(",") if each.strip()}
    known = tuple(each for each in _VERSIONS if each in named)
    if not known or len(known) != len(named):
        raise OperatorError(f"ssl.enabled.protocols={text}: must be TLSv1.2, TLSv1.3 or both")
    return known
