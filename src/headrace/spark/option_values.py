"""The text of one option, read: numbers, truths, durations, and Kafka-style JSON of partitions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from headrace.core.errors import OperatorError
from headrace.core.ids import TopicPartition

_DURATION: Final = re.compile(r"\s*(\d+)\s*([a-z]*)\s*")
_UNIT_MS: Final = {
    "": 1, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000,
}  # fmt: skip
_LARGEST: Final = (1 << 63) - 1


def lowered(options: Mapping[str, str]) -> dict[str, str]:
    """Options under lower-case names: Spark compares names without regard to case."""
    return {name.lower(): value for name, value in options.items()}


def truth(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    """`true` or `false` in any case."""
    value = options.get(name.lower())
    if value is None:
        return default
    if value.strip().lower() not in ("true", "false"):
        raise OperatorError(f"{name}={value}: must be true or false")
    return value.strip().lower() == "true"


def whole_number(name: str, value: str) -> int:
    """A whole number of 64 bits, at least 0."""
    try:
        number = int(value.strip())
    except ValueError:
        raise OperatorError(f"{name}={value}: must be a whole number") from None
    if not 0 <= number <= _LARGEST:
        raise OperatorError(f"{name}={value}: must be between 0 and {_LARGEST}")
    return number


def positive_int(options: Mapping[str, str], name: str) -> int | None:
    """A whole number of at least 1, or None when it was not given."""
    value = options.get(name.lower())
    if value is None:
        return None
    number = whole_number(name, value)
    if not number:
        raise OperatorError(f"{name}={value}: must be at least 1")
    return number


def duration_ms(options: Mapping[str, str], name: str, default: int) -> int:
    """Milliseconds out of `500`, `500ms`, `30s`, `15m`, `2h`, `1d`."""
    value = options.get(name.lower())
    if value is None:
        return default
    found = _DURATION.fullmatch(value.lower())
    if not found or found[2] not in _UNIT_MS:
        raise OperatorError(f"{name}={value}: must be a time such as 500ms, 30s, 15m or 2h")
    return int(found[1]) * _UNIT_MS[found[2]]


def parse_partitions(name: str, text: str) -> tuple[TopicPartition, ...]:
    """`{"topicA":[0,1],"topicB":[2]}`, sorted."""
    found = []
    for topic, numbers in _object(name, text, '{"topicA":[0,1],"topicB":[2]}').items():
        if not isinstance(numbers, list) or not all(_is_int(each) and each >= 0 for each in numbers):
            raise OperatorError(f"{name}: the partitions of {topic} must be a list of numbers")
        found += [TopicPartition(topic, number) for number in numbers]
    if not found:
        raise OperatorError(f"{name} names no partition")
    return tuple(sorted(set(found)))


def parse_partition_numbers(name: str, text: str) -> dict[TopicPartition, int]:
    """`{"topicA":{"0":23,"1":-2},"topicB":{"0":-1}}`: a number for each partition, -2 and -1 among them."""
    found: dict[TopicPartition, int] = {}
    for topic, numbers in _object(name, text, '{"topicA":{"0":23,"1":-2}}').items():
        if not isinstance(numbers, dict):
            raise OperatorError(f"{name}: the partitions of {topic} must be an object of numbers")
        for partition, number in numbers.items():
            if not partition.isdecimal() or not _is_int(number) or number < -2:
                raise OperatorError(f"{name}: {topic}-{partition} is {number!r}; must be a whole number, -1 or -2")
            found[TopicPartition(topic, int(partition))] = number
    if not found:
        raise OperatorError(f"{name} names no partition")
    return found


def parse_partition_times(name: str, text: str) -> dict[TopicPartition, int]:
    """The same with milliseconds since 1970; there is no time that means an end of the log."""
    found = parse_partition_numbers(name, text)
    for (topic, partition), time_ms in found.items():
        if time_ms < 0:
            raise OperatorError(f"{name}: {topic}-{partition} is {time_ms}; must be a time in milliseconds since 1970")
    return found


def _object(name: str, text: str, example: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise OperatorError(f"{name}={text}: must be JSON such as {example}")
    return value


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
