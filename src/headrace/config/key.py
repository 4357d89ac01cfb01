"""One configuration key: its type, its default, and the values it takes.

The tables of keys (`broker_keys`, `topic_keys`, `group_keys`) are rows of `ConfigKey`. The facts in them (names, types,
defaults, ranges) are those of Apache Kafka 4.3.1; `tools/KafkaConfigFacts.java` reads them out of it.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Protocol

from headrace.core.values import value_class

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
    """A value that a key does not take. The text names key and value and says what is wrong, in Kafka's words."""

    def __init__(self, key: str, value: ConfigValue, reason: str, *, text: str | None = None) -> None:
        super().__init__(text or f"Invalid value {_shown(value)} for configuration {key}: {reason}")
        self.key = key


def _shown(value: ConfigValue) -> str:
    if value is None:
        return "null"
    if isinstance(value, Password):
        return "[hidden]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return double_text(value)
    return "[" + ", ".join(value) + "]" if isinstance(value, tuple) else str(value)


class Check(Protocol):
    """Which values of its type a key takes. `str()` of it is the range in Kafka's notation."""

    def __call__(self, name: str, value: ConfigValue) -> None:
        """Raises InvalidConfigValue: the key `name` does not take `value`."""


@value_class(kw_only=False, eq=False)
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
        if self.check is not None:
            self.check(self.name, value)
        return value


_RANGES = {Type.INT: 2**31, Type.SHORT: 2**15, Type.LONG: 2**63}
RANGES_OF_TYPES = {kind: f"[{-limit},...,{limit - 1}]" for kind, limit in _RANGES.items()}
"""The values of a whole number's type, in Kafka's notation."""
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)", re.ASCII)


def parse_value(name: str, kind: Type, text: str) -> ConfigValue:
    """Parse `text` as `kind` (bounds of the type only); a list keeps the first of equal items. Raises InvalidConfigValue."""
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
        return tuple(dict.fromkeys(part.strip() for part in text.split(","))) if text else ()
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
