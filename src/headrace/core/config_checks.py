"""Which values of its type does a key take?

Each check is a callable that returns why a value is refused; `str(check)` is the range in Kafka's notation.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.config_key import ConfigValue


@dataclass(frozen=True, slots=True)
class Between:
    """A number within inclusive bounds; an absent bound is None. A value that is not set (null) is refused."""

    lowest: int | float
    highest: int | float | None = None

    def __call__(self, value: ConfigValue) -> str | None:
        if not isinstance(value, (int, float)):
            return "Value must be non-null"
        if value < self.lowest:
            return f"Value must be at least {self.lowest}"
        if self.highest is not None and not value <= self.highest:
            return f"Value must be no more than {self.highest}"
        return None

    def __str__(self) -> str:
        return f"[{self.lowest},...]" if self.highest is None else f"[{self.lowest},...,{self.highest}]"


def at_least(lowest: int) -> Between:
    """No upper bound but the type's."""
    return Between(lowest)


@dataclass(frozen=True, slots=True)
class GzipLevel:
    """1 to 9, or -1 for the library's default."""

    def __call__(self, value: ConfigValue) -> str | None:
        if isinstance(value, int) and (1 <= value <= 9 or value == -1):
            return None
        return "Value must be between 1 and 9 or equal to -1"

    def __str__(self) -> str:
        return "[1,...,9] or -1"


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of some words."""

    words: tuple[str, ...]
    ignores_case: bool = False

    def __call__(self, value: ConfigValue) -> str | None:
        if isinstance(value, str) and (value in self.words or (self.ignores_case and value.upper() in self.words)):
            return None
        words = ", ".join(self.words)
        return f"String must be one of{' (case insensitive)' if self.ignores_case else ''}: {words}"

    def __str__(self) -> str:
        return f"{'(case insensitive) ' if self.ignores_case else ''}[{', '.join(self.words)}]"


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list without repeated or blank items; of some words only, if any are given."""

    words: tuple[str, ...] = ()
    may_be_empty: bool = True
    may_be_null: bool = False

    def __call__(self, value: ConfigValue) -> str | None:
        if value is None:
            return None if self.may_be_null else "Configuration must not be null."
        assert isinstance(value, tuple)
        if not value:
            return (
                None
                if self.may_be_empty
                else "Configuration must not be empty. Valid values include: any non-empty value"
            )
        if len(set(value)) != len(value):
            return "Configuration must not contain duplicate values."
        if "" in value:
            return "Configuration values must not be empty."
        for item in value:
            if self.words and item not in self.words:
                return f"String must be one of: {', '.join(self.words)}"
        return None

    def __str__(self) -> str:
        return f"[{', '.join(self.words)}]" if self.words else ""


@dataclass(frozen=True, slots=True)
class NonEmptyList:
    """At least one item, when the key is set at all."""

    def __call__(self, value: ConfigValue) -> str | None:
        return "Configuration must not be empty" if value == () else None

    def __str__(self) -> str:
        return "non-empty list"


@dataclass(frozen=True, slots=True)
class NonEmptyText:
    """Some text, when the key is set at all."""

    def __call__(self, value: ConfigValue) -> str | None:
        return "String must be non-empty" if value == "" else None

    def __str__(self) -> str:
        return "non-empty string"


@dataclass(frozen=True, slots=True)
class NotNull:
    """Any text, but not null."""

    def __call__(self, value: ConfigValue) -> str | None:
        return "entry must be non null" if value is None else None

    def __str__(self) -> str:
        return "non-null string"


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """`*`, or pairs `partition:broker` (KIP-73)."""

    def __call__(self, value: ConfigValue) -> str | None:
        assert isinstance(value, tuple)
        if value == ("*",) or all(_is_pair(item) for item in value):
            return None
        return (
            "must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )

    def __str__(self) -> str:
        return "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


def _is_pair(item: str) -> bool:
    partition, colon, broker = item.partition(":")
    return bool(colon) and _is_number(partition) and _is_number(broker)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """`latest`, `earliest` or `by_duration:` with an ISO-8601 duration (KIP-932)."""

    def __call__(self, value: ConfigValue) -> str | None:
        text = str(value)
        if text in ("latest", "earliest") or (text.startswith("by_duration:P") and len(text) > len("by_duration:P")):
            return None
        return "Unknown auto offset reset strategy: " + text

    def __str__(self) -> str:
        return "[latest, earliest, by_duration:PnDTnHnMn.nS]"
