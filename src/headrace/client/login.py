"""Who a client is to a node, and what it answers to the node's challenges: SASL PLAIN, SCRAM and OAUTHBEARER.

No secret is in a text of a login, nor in an error of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Final, Protocol, TypeAlias

from headrace.core.error_code import ErrorCode
from headrace.core.errors import OperatorError, PeerError

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
TokenFunction: TypeAlias = Callable[[Mapping[str, str]], str]

_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
_CALLBACK: Final = "sasl.login.callback.handler.class"
_EXTENSION: Final = "extension_"
_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+", re.ASCII)
_TOKEN: Final = re.compile(r"[\x21-\x7e]+", re.ASCII)
_MOST_ITERATIONS: Final = 16_384
"""Kafka lets no user have more; a node that asks for more would only cost time."""
_ITERATIONS: Final = re.compile(r"(?:^|,)i=(\d+)(?:,|$)", re.ASCII)
_JAAS: Final = re.compile(
    r"^\s*(?P<module>[\w.$]+)\s+(?:required|requisite|sufficient|optional)\s*(?P<options>.*?);\s*$", re.S
)
_JAAS_OPTION: Final = re.compile(
    r"""(?P<key>[\w.]+)\s*=\s*(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>[^']*)'|(?P<bare>[^\s"';]+))"""
)


class Dialogue(Protocol):
    """One login on one connection: `first` opens it, `answer` goes on. Raises PeerError for a node that answers wrongly."""

    def first(self) -> bytes:
        """What is said first."""

    def answer(self, challenge: bytes) -> bytes | None:
        """What is said to what the node sent; None when all is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainLogin:
    """User and password for SASL PLAIN (RFC 4616)."""

    username: str
    password: str = field(repr=False)

    @property
    def mechanism(self) -> str:
        """Its name in SaslHandshake."""
        return "PLAIN"

    def dialogue(self) -> Dialogue:
        """For one connection."""
        return _OneMessage(f"\0{self.username}\0{self.password}".encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramLogin:
    """User and password for SCRAM (RFC 5802, RFC 7677); `mechanism` says with which hash."""

    mechanism: str
    username: str
    password: str = field(repr=False)

    def dialogue(self) -> Dialogue:
        """For one connection."""
        return _Scram(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogin:
    """A function that gives a token for SASL OAUTHBEARER (RFC 7628); it is called with `options` for each connection."""

    function: TokenFunction
    options: Mapping[str, str] = field(repr=False)
    extensions: Mapping[str, str] = field(repr=False, default_factory=dict)

    @property
    def mechanism(self) -> str:
        """Its name in SaslHandshake."""
        return "OAUTHBEARER"

    def dialogue(self) -> Dialogue:
        """For one connection. Raises OperatorError where the function gives no token."""
        try:
            token: object = self.function(self.options)
        except Exception as error:  # noqa: BLE001  # the user's own code; its text may hold a secret
            raise OperatorError(f"the function of {_CALLBACK} raised {type(error).__name__}") from None
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise OperatorError(f"the function of {_CALLBACK} gave no token: a str of visible ASCII is needed")
        parts = [f"auth=Bearer {token}", *(f"{name}={value}" for name, value in self.extensions.items())]
        return _OneMessage(("n,,\1" + "".join(f"{part}\1" for part in parts) + "\1").encode())


Login: TypeAlias = PlainLogin | ScramLogin | TokenLogin


class _OneMessage:
    """A login in one message. A node that refuses a token says so in a challenge, which has one answer (RFC 7628 3.2.3)."""

    def __init__(self, message: bytes) -> None:
        self._message = message

    def first(self) -> bytes:
        return self._message

    def answer(self, challenge: bytes) -> bytes | None:
        return b"\1" if challenge else None


class _Scram:
    """A login by proof, in which the node proves itself too. FIRST -> FINAL -> (the node's proof fits) DONE."""

    def __init__(self, login: ScramLogin) -> None:
        from scramp import ScramClient

        self._client = ScramClient([login.mechanism], login.username, login.password)
        self._is_proven = False

    def first(self) -> bytes:
        return str(self._client.get_client_first()).encode()

    def answer(self, challenge: bytes) -> bytes | None:
        from scramp import ScramException

        try:
            text = challenge.decode()
            if self._is_proven:
                self._client.set_server_final(text)
                return None
            found = _ITERATIONS.search(text)
            if found is not None and int(found[1]) > _MOST_ITERATIONS:
                raise _refused(f"the node asks for more than {_MOST_ITERATIONS} iterations")
            self._client.set_server_first(text)
            self._is_proven = True
            return str(self._client.get_client_final()).encode()
        except (ScramException, ValueError):
            raise _refused("the node does not answer as SCRAM asks, so it may not know the password") from None


def _refused(reason: str) -> PeerError:
    return PeerError(ErrorCode.SASL_AUTHENTICATION_FAILED, reason)


def parse_login(properties: Mapping[str, str]) -> Login:
    """The login that Kafka's client properties describe. Raises OperatorError."""
    mechanism = properties.get("sasl.mechanism", "GSSAPI").strip().upper()
    if mechanism not in MECHANISMS:
        raise OperatorError(
            f"sasl.mechanism={mechanism}: this client logs in with {', '.join(MECHANISMS[:-1])} or {MECHANISMS[-1]}"
        )
    handler = properties.get(_CALLBACK, "").strip()
    if mechanism == "OAUTHBEARER":
        return _token_login(handler, properties)
    if handler:
        raise OperatorError(f"{_CALLBACK} has a meaning with sasl.mechanism=OAUTHBEARER only")
    if "sasl.username" in properties:
        options: Mapping[str, str] = {
            "username": properties["sasl.username"],
            "password": properties.get("sasl.password", ""),
        }
    else:
        options = parse_jaas(properties.get("sasl.jaas.config", ""), mechanism)
    if not options.get("username") or "password" not in options:
        raise OperatorError(f"sasl.jaas.config: username and password are both needed for {mechanism}")
    if options.get("tokenauth", "false").lower() == "true":
        raise OperatorError("sasl.jaas.config: delegation tokens (tokenauth) are not supported")
    if mechanism == "PLAIN":
        return PlainLogin(username=options["username"], password=options["password"])
    return ScramLogin(mechanism=mechanism, username=options["username"], password=options["password"])


def parse_jaas(text: str, mechanism: str) -> dict[str, str]:
    """The options of a `sasl.jaas.config` line for Kafka's login module of the mechanism. Raises OperatorError."""
    match = _JAAS.match(text)
    wanted = _MODULES[mechanism]
    if match is None or match["module"].rpartition(".")[2] != wanted.rpartition(".")[2]:
        example = "..." if mechanism == "OAUTHBEARER" else 'username="..." password="..."'
        raise OperatorError(f"sasl.jaas.config: for {mechanism} expected '{wanted} required {example};'")
    return {
        found["key"]: re.sub(r"\\(.)", r"\1", found["double"])
        if found["double"] is not None
        else found["single"] or found["bare"] or ""
        for found in _JAAS_OPTION.finditer(match["options"])
    }


def _token_login(handler: str, properties: Mapping[str, str]) -> TokenLogin:
    options = {}
    if "sasl.jaas.config" in properties:
        options = parse_jaas(properties["sasl.jaas.config"], "OAUTHBEARER")
    extensions = {
        name.removeprefix(_EXTENSION): value for name, value in options.items() if name.startswith(_EXTENSION)
    }
    for name, value in extensions.items():
        if not _EXTENSION_NAME.fullmatch(name) or name == "auth" or not all(" " <= each <= "~" for each in value):
            raise OperatorError(f"sasl.jaas.config: {_EXTENSION}{name} is no extension that OAUTHBEARER can carry")
    return TokenLogin(function=_imported(handler), options=options, extensions=extensions)


def _imported(handler: str) -> TokenFunction:
    """The function `module:name`. Raises OperatorError."""
    module, colon, name = handler.partition(":")
    if not colon or not module or not name:
        raise OperatorError(
            f"{_CALLBACK}: for OAUTHBEARER name a Python function as module:function; it is called with the options of "
            "sasl.jaas.config and returns the token"
        )
    try:
        function = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise OperatorError(f"{_CALLBACK}={handler} cannot be imported here: {error}") from None
    if not callable(function):
        raise OperatorError(f"{_CALLBACK}={handler} is no function")
    found: TokenFunction = function
    return found
