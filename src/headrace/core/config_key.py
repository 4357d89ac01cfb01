"""What is one configuration key: its type, its default, and which values it takes?

The tables of keys (`broker_keys`, `topic_keys`, `group_keys`) are rows of `ConfigKey`. The facts in them (names, types,
defaults, ranges) are those of Apache Kafka 4.3.1; `tools/KafkaConfigFacts.java` reads them out of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

ConfigValue = bool | int | float | str | tuple[str, ...] | None


class Type(IntEnum):
    """The type of a value; the numbers are those of DescribeConfigs' `config_type` (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Update(IntEnum):
    """Who may change a broker's key while it runs (KIP-226)."""

    READ_ONLY = 0
    PER_BROKER = 1
    CLUSTER_WIDE = 2


class Password(str):
    """A secret: its text is only shown when asked for by `str()`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'[hidden]'"


class InvalidConfigValue(ValueError):
    """A value that a key does not take. The text names key, value and what would be valid."""

    def __init__(self, key: str, value: object, reason: str) -> None:
        shown = "null" if value is None else repr(value)[1:-1] if isinstance(value, Password) else value
        super().__init__(f"Invalid value {shown} for configuration {key}: {reason}")
        self.key = key
        self.value = value
        self.reason = reason


Check = Callable[[ConfigValue], str | None]
"""Says why a parsed value is refused, or None when it is fine."""


@dataclass(frozen=True, slots=True, eq=False)
class ConfigKey:
    """One key. `default` is parsed; `required` keys have none. `valid` is the range in words, for messages and docs."""

    name: str
    type: Type
    default: ConfigValue
    check: Check | None = None
    update: Update = Update.READ_ONLY
    required: bool = False
    internal: bool = False

    @property
    def is_sensitive(self) -> bool:
        """A password is never shown to anybody."""
        return self.type is Type.PASSWORD

    @property
    def valid(self) -> str:
        """The valid values in Kafka's notation, e.g. `[1,...]`; empty when every value of the type is valid."""
        return "" if self.check is None else str(self.check)

    def parse(self, text: str | None) -> ConfigValue:
        """The value that `text` stands for.

        Raises InvalidConfigValue: not of the type, or outside the valid values.
        """
        value = None if text is None else parse_value(self.name, self.type, text)
        refusal = self.check(value) if self.check is not None else None
        if refusal is not None:
            raise InvalidConfigValue(
                self.name, text if isinstance(value, tuple) is False else list_text(value), refusal
            )
        return value


_RANGES = {Type.INT: 2**31, Type.SHORT: 2**15, Type.LONG: 2**63}
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)", re.ASCII)


def list_text(value: ConfigValue) -> str:
    """A list as Kafka's messages show it: `[a, b]`."""
    assert isinstance(value, tuple)
    return "[" + ", ".join(value) + "]"


def parse_value(name: str, kind: Type, text: str) -> ConfigValue:
    """Parse `text` as `kind` (bounds of the type only). Raises InvalidConfigValue."""
    if kind is Type.PASSWORD:
        return Password(text.strip())
    text = text.strip()
    if kind in _RANGES:
        limit = _RANGES[kind]
        if _WHOLE_NUMBER.fullmatch(text) and len(text) < 40 and -limit <= (number := int(text)) < limit:
            return number
        raise InvalidConfigValue(name, text, f"Not a number of type {kind.name}")
    if kind is Type.BOOLEAN:
        if text.lower() not in ("true", "false"):
            raise InvalidConfigValue(name, text, "Expected value to be either true or false")
        return text.lower() == "true"
    if kind is Type.DOUBLE:
        if not _DECIMAL.fullmatch(text):
            raise InvalidConfigValue(name, text, "Not a number of type DOUBLE")
        return float(text.rstrip("fFdD") if text[-1:] in "fFdD" else text.replace("Infinity", "inf"))
    if kind is Type.LIST:
        return tuple(part.strip() for part in text.split(",")) if text else ()
    return text


def value_text(key: ConfigKey, value: ConfigValue) -> str | None:
    """`value` as DescribeConfigs shows it: lists joined by a comma, numbers as Java prints them."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if key.type is Type.DOUBLE:
        return double_text(float(value))
    return str(value)


def double_text(number: float) -> str:
    """A double in Java's notation: `0.5`, `1.7976931348623157E308`."""
    if number != number or number in (float("inf"), float("-inf")):
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(str(number), "NaN")
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        text = format(number, "f") if "e" in repr(number) else repr(number)
        return text if "." in text else text + ".0"
    mantissa, _, exponent = repr(number).partition("e")
    if not exponent:
        digits = repr(number).rstrip("0").rstrip(".") if "." in repr(number) else repr(number)
        mantissa, exponent = _scientific(digits)
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def _scientific(digits: str) -> tuple[str, str]:
    """Mantissa and exponent of a plain decimal: `12345678.5` -> `1.23456785`, `7`."""
    sign, digits = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
    whole, _, fraction = digits.partition(".")
    if whole.strip("0"):
        return f"{sign}{whole[0]}.{(whole[1:] + fraction).rstrip('0') or '0'}", str(len(whole) - 1)
    kept = fraction.lstrip("0")
    return f"{sign}{kept[0]}.{kept[1:] or '0'}", str(-(len(fraction) - len(kept) + 1))
