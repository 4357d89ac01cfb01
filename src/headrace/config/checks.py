"""The values of its type that a key takes.

Each check is a callable that raises InvalidConfigValue, in Kafka's words; `str(check)` is the range in Kafka's notation.
"""

from __future__ import annotations

import re

from headrace.config.key import ConfigValue, InvalidConfigValue
from headrace.core.listener import HostPort
from headrace.core.values import value_class

_DURATION = re.compile(
    r"by_duration:P(?=.)([0-9]+D)?(T(?=.)([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]{1,9})?S)?)?", re.IGNORECASE
)
_LISTEN_ADDRESS = re.compile(r"(?:\[([0-9a-fA-F:%._a-zA-Z\-]+)\]|([0-9a-zA-Z\-._]*)):([0-9]{1,5})", re.ASCII)
_MAX_PORT = 65_535


@value_class(kw_only=False)
class Between:
    """A number within inclusive bounds; an absent bound is None. A value that is not set (null) is refused."""

    lowest: int | float
    highest: int | float | None = None

    def __call__(self, name: str, value: ConfigValue) -> None:
        if not isinstance(value, (int, float)):
            raise InvalidConfigValue(name, value, "Value must be non-null")
        if value < self.lowest:
            raise InvalidConfigValue(name, value, f"Value must be at least {self.lowest}")
        if self.highest is not None and value > self.highest:
            raise InvalidConfigValue(name, value, f"Value must be no more than {self.highest}")

    def __str__(self) -> str:
        return f"[{self.lowest},...]" if self.highest is None else f"[{self.lowest},...,{self.highest}]"


def at_least(lowest: int) -> Between:
    """No upper bound but the type's."""
    return Between(lowest)


@value_class(kw_only=False)
class GzipLevel:
    """1 to 9, or -1 for the library's default."""

    def __call__(self, name: str, value: ConfigValue) -> None:
        if not isinstance(value, int) or not (1 <= value <= 9 or value == -1):
            raise InvalidConfigValue(name, value, "Value must be between 1 and 9 or equal to -1")

    def __str__(self) -> str:
        return "[1,...,9] or -1"


@value_class(kw_only=False)
class OneOf:
    """One of some words."""

    words: tuple[str, ...]
    ignores_case: bool = False

    def __call__(self, name: str, value: ConfigValue) -> None:
        if isinstance(value, str) and (value in self.words or (self.ignores_case and value.upper() in self.words)):
            return
        words = ", ".join(self.words)
        raise InvalidConfigValue(
            name, value, f"String must be one of{' (case insensitive)' if self.ignores_case else ''}: {words}"
        )

    def __str__(self) -> str:
        return f"{'(case insensitive) ' if self.ignores_case else ''}[{', '.join(self.words)}]"


@value_class(kw_only=False)
class ListOf:
    """A list without blank items; of some words only, if any are given."""

    words: tuple[str, ...] = ()
    may_be_empty: bool = True
    may_be_null: bool = False

    def __call__(self, name: str, value: ConfigValue) -> None:
        if value is None:
            if not self.may_be_null:
                raise InvalidConfigValue(name, value, "", text=f"Configuration '{name}' values must not be null.")
            return
        assert isinstance(value, tuple)
        if not value and not self.may_be_empty:
            valid = str(self) or "any non-empty value"
            raise InvalidConfigValue(
                name, value, "", text=f"Configuration '{name}' must not be empty. Valid values include: {valid}"
            )
        if "" in value:
            raise InvalidConfigValue(name, value, "", text=f"Configuration '{name}' values must not be empty.")
        for item in value:
            if self.words and item not in self.words:
                raise InvalidConfigValue(name, item, f"String must be one of: {', '.join(self.words)}")

    def __str__(self) -> str:
        return f"[{', '.join(self.words)}]" if self.words else ""


@value_class(kw_only=False)
class ListenAddress:
    """`host:port`, `[IPv6 address]:port`, or `:port` for every interface; port 0 lets the system choose. Or nothing at all."""

    def __call__(self, name: str, value: ConfigValue) -> None:
        try:
            parse_listen_address(str(value or ":0"))
        except ValueError as error:
            raise InvalidConfigValue(name, value, str(error)) from None

    def __str__(self) -> str:
        return "empty or host:port"


def parse_listen_address(text: str) -> HostPort:
    """What `ListenAddress` takes; an empty host is every interface. Raises ValueError."""
    match = _LISTEN_ADDRESS.fullmatch(text)
    if match is None or int(match[3]) > _MAX_PORT:
        raise ValueError(f"Value must be host:port with a port from 0 to {_MAX_PORT}")
    return HostPort(match[1] or match[2] or "", int(match[3]))


@value_class(kw_only=False)
class NonEmptyText:
    """Some text, when the key is set at all."""

    def __call__(self, name: str, value: ConfigValue) -> None:
        if value == "":
            raise InvalidConfigValue(name, value, "String must be non-empty")

    def __str__(self) -> str:
        return "non-empty string"


@value_class(kw_only=False)
class NotNull:
    """Any text, but not null."""

    def __call__(self, name: str, value: ConfigValue) -> None:
        if value is None:
            raise InvalidConfigValue(name, value, "entry must be non null")

    def __str__(self) -> str:
        return "non-null string"


@value_class(kw_only=False)
class ThrottledReplicas:
    """`*`, or pairs `partition:broker` (KIP-73)."""

    def __call__(self, name: str, value: ConfigValue) -> None:
        assert isinstance(value, tuple)
        if value == ("*",) or all(_is_pair(item) for item in value):
            return
        raise InvalidConfigValue(
            name,
            value,
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        )

    def __str__(self) -> str:
        return "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


def _is_pair(item: str) -> bool:
    partition, colon, broker = item.partition(":")
    return bool(colon) and _is_number(partition) and _is_number(broker)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


@value_class(kw_only=False)
class OffsetReset:
    """`latest`, `earliest` or `by_duration:` with an ISO-8601 duration (KIP-932)."""

    def __call__(self, name: str, value: ConfigValue) -> None:
        text = str(value)
        if text not in ("latest", "earliest") and not _DURATION.fullmatch(text):
            raise InvalidConfigValue(
                name,
                value,
                f"Invalid value `{text}` for configuration {name}. The value must be either 'earliest', 'latest' or of the "
                "format 'by_duration:<PnDTnHnMn.nS>'.",
            )

    def __str__(self) -> str:
        return "[latest, earliest, by_duration:PnDTnHnMn.nS]"
