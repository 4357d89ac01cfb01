"""The versions of each API that Apache Kafka 4.3.1 speaks, and so do we."""

from __future__ import annotations

from importlib import import_module
from typing import Final, cast

from headrace.core.values import value_class
from headrace.wire.api_facts import API_FACTS, ApiKey
from headrace.wire.schema import Message

__all__ = [
    "APIS",
    "NEVER_FLEXIBLE",
    "PRODUCE_ADVERTISED_MIN",
    "ApiKey",
    "ApiVersions",
    "request_class",
    "response_class",
]

NEVER_FLEXIBLE: Final = 1 << 15
PRODUCE_ADVERTISED_MIN: Final = 0
"""What ApiVersions says of Produce; versions 0-2 are refused all the same. Old librdkafka looks for them (KAFKA-18659)."""


@value_class
class ApiVersions:
    """One api. `last_stable` is the highest version that is advertised; `last` the highest that can be read."""

    key: int
    name: str
    module: str
    first: int
    last: int
    last_stable: int
    flexible_from: int
    listeners: tuple[str, ...]

    @property
    def snake_name(self) -> str:
        """The name as modules have it: `create_topics`."""
        return self.module.rpartition(".")[2]

    def covers(self, version: int) -> bool:
        """Whether a version is one of those that Kafka 4.3.1 serves."""
        return self.first <= version <= self.last_stable


def _snake(name: str) -> str:
    return "".join("_" + char.lower() if char.isupper() else char for char in name).lstrip("_")


APIS: Final[dict[int, ApiVersions]] = {
    key: ApiVersions(
        key=key,
        name=name,
        module=f"headrace.wire.messages.{_snake(name)}",
        first=first,
        last=last,
        last_stable=stable,
        flexible_from=NEVER_FLEXIBLE if flexible < 0 else flexible,
        listeners=listeners,
    )
    for key, name, first, last, stable, flexible, listeners in API_FACTS
}
"""Every api by its key."""


def request_class(api_key: int) -> type[Message]:
    """The request of an api; its module is imported when first asked for. Raises KeyError for an unknown key."""
    api = APIS[api_key]
    return cast(type[Message], getattr(import_module(api.module), api.name + "Request"))


def response_class(api_key: int) -> type[Message]:
    """The response of an api; its module is imported when first asked for. Raises KeyError for an unknown key."""
    api = APIS[api_key]
    return cast(type[Message], getattr(import_module(api.module), api.name + "Response"))
