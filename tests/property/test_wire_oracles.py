"""Do other makers' codecs, `kio` and `kafka-python`, read what we write and write what we read?"""

from __future__ import annotations

import datetime
import enum
import importlib
import io
import pkgutil
import random
import re
import uuid
from collections.abc import Callable
from functools import cache
from pkgutil import resolve_name
from typing import Any

from kafka.protocol.api_message import ApiMessage
from kio.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.codec import decode, encode
from headrace.wire.messages.api_versions import ApiVersionsResponse
from headrace.wire.schema import Message, Struct, fields_of
from tests.support.messages import all_versions, sample

_MILLISECOND = datetime.timedelta(milliseconds=1)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _kio_class(cls: type[Message], version: int) -> Any:
    name = cls.__name__
    kinds = (
        ("Request", EntityType.request),
        ("Response", EntityType.response),
        ("", EntityType.data),
        ("", EntityType.header),
    )
    for suffix, kind in kinds:
        words = re.sub(
            r"([a-z0-9])([A-Z])", r"\1_\2", re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name.removesuffix(suffix))
        )
        places = schema_name_map.get(words.lower(), {}).get(version, {})
        if name.endswith(suffix) and kind in places:
            return resolve_name(places[kind])
    return None


@cache
def _kafka_python_classes() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for folder in ("admin", "consumer", "metadata", "producer"):
        package = importlib.import_module(f"kafka.protocol.{folder}")
        for info in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{package.__name__}.{info.name}")
            found |= {k: v for k, v in vars(module).items() if isinstance(v, type) and issubclass(v, ApiMessage)}
    return found


def _plain(value: Any) -> Any:
    """A value of kio's as we hold it."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, datetime.timedelta):
        return value // _MILLISECOND
    if isinstance(value, datetime.datetime):
        return (value - _EPOCH) // _MILLISECOND
    if isinstance(value, uuid.UUID):
        return Uuid(value.bytes)
    return value


def _assert_same(ours: Any, theirs: Any, at: str) -> None:
    """Field by field: the names are Kafka's on both sides."""
    if isinstance(ours, Struct):
        for spec in fields_of(type(ours)):
            if hasattr(theirs, spec.name):
                _assert_same(getattr(ours, spec.name), getattr(theirs, spec.name), f"{at}.{spec.name}")
    elif isinstance(ours, tuple):
        assert len(ours) == len(theirs), at
        for number, (left, right) in enumerate(zip(ours, theirs, strict=True)):
            _assert_same(left, right, f"{at}[{number}]")
    else:
        found = _plain(theirs)
        assert ours == found or (ours == ZERO_UUID and found is None) or (ours == -1 and found is None), at


def _check(codec: Callable[[type[Message], int], Any], *, seed: int) -> int:
    """How many messages agreed; the test fails at the first that does not."""
    agreed = 0
    rng = random.Random(seed)
    for cls, version in all_versions():
        theirs = codec(cls, version)
        if theirs is None:
            continue
        message = sample(cls, version, rng, tame=True, depth_limit=2)
        data = encode(message, version)
        again, value = theirs(data)
        assert again == data, (cls.__name__, version)
        assert decode(cls, again, version) == message, (cls.__name__, version)
        if value is not None:
            _assert_same(message, value, f"{cls.__name__} v{version}")
        agreed += 1
    return agreed


def test_kio_reads_and_writes_the_same_bytes() -> None:
    """B-W01: kio decodes our bytes of every message and version that it knows, holds the same values, and encodes them alike."""

    def through_kio(cls: type[Message], version: int) -> Any:
        found = _kio_class(cls, version)
        if found is None:
            return None

        def there_and_back(data: bytes) -> tuple[bytes, Any]:
            value, size = entity_reader(found)(data, 0)
            assert size == len(data)
            out = io.BytesIO()
            entity_writer(found)(out, value)
            return out.getvalue(), value

        return there_and_back

    assert _check(through_kio, seed=1) > 550


def test_kafka_python_reads_and_writes_the_same_bytes() -> None:
    """B-W01: kafka-python decodes our bytes of every request and response that it knows and encodes them alike."""

    def through_kafka_python(cls: type[Message], version: int) -> Any:
        found = _kafka_python_classes().get(cls.__name__)
        # its ApiVersionsResponse takes any error code to mean a version 0 answer
        if found is None or version > found.max_version or cls is ApiVersionsResponse:
            return None

        def there_and_back(data: bytes) -> tuple[bytes, Any]:
            value = found.decode(data, version=version)
            value._header = None
            value._version = version
            return value.encode(version=version), None

        return there_and_back

    assert _check(through_kafka_python, seed=2) > 400
