"""The names of a client's security settings, and which of them was probably meant by one that nobody knows.

A client takes any setting, as files are shared with other programs. With a slip of the pen in one of these it would speak without TLS or
without a login, though somebody asked for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.core.errors import OperatorError
from headrace.core.nearest import nearest_name

_KAFKAS: Final = (
    "security.protocol", "security.providers", "ssl.cipher.suites", "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm", "ssl.engine.factory.class", "ssl.key.password",
    "ssl.keymanager.algorithm", "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location",
    "ssl.keystore.password", "ssl.keystore.type", "ssl.protocol", "ssl.provider",
    "ssl.secure.random.implementation", "ssl.trustmanager.algorithm", "ssl.truststore.certificates",
    "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type",
    "sasl.client.callback.handler.class", "sasl.jaas.config", "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin", "sasl.kerberos.service.name", "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor", "sasl.login.callback.handler.class", "sasl.login.class",
    "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms", "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds", "sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter",
    "sasl.login.retry.backoff.max.ms", "sasl.login.retry.backoff.ms", "sasl.mechanism",
)  # fmt: skip
_LIBRDKAFKAS: Final = (
    "ssl.ca.certificate.stores", "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem",
    "ssl.crl.location", "ssl.curves.list", "ssl.engine.id", "ssl.engine.location", "ssl.key.location",
    "ssl.key.pem", "ssl.providers", "ssl.sigalgs.list", "sasl.kerberos.keytab", "sasl.kerberos.principal",
    "sasl.mechanisms", "sasl.password", "sasl.username",
)  # fmt: skip
"""Some of them are taken as well."""
_NAMES: Final = frozenset((*_KAFKAS, *_LIBRDKAFKAS))
_OAUTH_PREFIX: Final = "sasl.oauthbearer."
"""There are many, and none of them decides whether there is a login."""
_ALIKE: Final = 0.9
"""By difflib's ratio: a letter or two of such a name."""


def check_spelling(properties: Mapping[str, str]) -> None:
    """Raises OperatorError for a name that is none and nearly one of these, where that one is not given."""
    for name in properties:
        if name in _NAMES or name.startswith(_OAUTH_PREFIX) or not name.lower().startswith("s"):
            continue
        meant = nearest_name(name.lower(), _NAMES, least=_ALIKE)
        if meant is not None and meant not in properties:
            raise OperatorError(f"{name} is no setting of a client: did you mean {meant}?")
