"""Schemas of a schema registry that speaks Confluent's REST API: Confluent's own, Karapace, Apicurio. The client is confluent-kafka's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from headrace.core.errors import OperatorError

UNKNOWN: Final = 404
_NUMBERS: Final = (
    "cache.capacity",
    "cache.latest.ttl.sec",
    "max.retries",
    "retries.max.wait.ms",
    "retries.wait.ms",
    "timeout",
)
"""What the client wants as numbers; options are texts."""
_MOST_REFERENCES: Final = 1_000
_MOST_DEPTH: Final = 50
"""Schemas that refer to others, in all and in a row: a registry that goes on for ever is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredSchema:
    """A schema as it was registered: AVRO, PROTOBUF or JSON, and the schemas that it refers to by their names, those first that others refer to."""

    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()


class Registry:
    """A registry's schemas by their ids, remembered; they never change."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """`properties` are the client's: `url`, `basic.auth.user.info`, `ssl.ca.location` ... Raises OperatorError for wrong ones."""
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient
        except ImportError:
            raise OperatorError("a schema registry needs more packages: pip install 'headrace[registry]'") from None
        self._place = _without_user(properties["url"])
        try:
            self._client = SchemaRegistryClient(
                {name: int(value) if name in _NUMBERS else value for name, value in properties.items()}
            )
        except (ValueError, TypeError, OSError) as error:
            raise OperatorError(f"the schema.registry options are wrong: {type(error).__name__}: {error}") from None
        self._known: dict[int, RegisteredSchema] = {}

    def close(self) -> None:
        """Close the client's connections; nothing can be asked afterwards."""
        self._client.close()

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        """The schema, or None where the registry has none of this id. Raises OperatorError where it does not answer."""
        if schema_id not in self._known:
            found = self._ask(f"schema {schema_id}", lambda: self._client.get_schema(schema_id))
            if found is None:
                return None
            self._known[schema_id] = self._registered(found)
        return self._known[schema_id]

    def of_subject(self, subject: str, version: int | None) -> RegisteredSchema:
        """A subject's schema, the latest without `version`. Raises OperatorError where there is none, or the registry does not answer."""
        found = self._ask(f"subject {subject}", lambda: self._client.get_version(subject, version or "latest"))
        if found is None:
            which = "" if version is None else f" in version {version}"
            raise OperatorError(
                f"the schema registry at {self._place} has no subject {subject}{which}: say valueSubject"
            )
        return self._registered(found.schema)

    def _ask(self, what: str, call: Any) -> Any:
        from confluent_kafka.schema_registry import SchemaRegistryError

        try:
            return call()
        except SchemaRegistryError as error:
            if error.http_status_code == UNKNOWN:
                return None
            why = f"{error.http_status_code}: {error.error_message}"
        except Exception as error:  # noqa: BLE001  # of the HTTP library, whose names are no part of the client's interface
            why = f"{type(error).__name__}: {error}"
        raise OperatorError(f"the schema registry at {self._place} gave no {what}: {' '.join(why.split())}")

    def _registered(self, schema: Any) -> RegisteredSchema:
        parts: dict[str, str] = {}
        self._add_references(schema, parts, 0)
        return RegisteredSchema(kind=schema.schema_type or "AVRO", text=schema.schema_str, references=(*parts.items(),))

    def _add_references(self, schema: Any, parts: dict[str, str], depth: int) -> None:
        for each in schema.references or []:
            if each.name in parts:
                continue
            if depth > _MOST_DEPTH or len(parts) >= _MOST_REFERENCES:
                raise OperatorError(
                    f"the schema registry at {self._place} has a schema that refers to itself, or to too many others"
                )
            found = self._ask(
                f"subject {each.subject}", lambda each=each: self._client.get_version(each.subject, each.version)
            )
            if found is None:
                raise OperatorError(f"the schema registry at {self._place} lacks the referred subject {each.subject}")
            self._add_references(found.schema, parts, depth + 1)
            parts[each.name] = found.schema.schema_str


def _without_user(url: str) -> str:
    """The address without what may be secret in it."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


@lru_cache(maxsize=8)
def registry_of(properties: tuple[tuple[str, str], ...]) -> Registry:
    """The registry of these settings; a worker process has one for all its tasks."""
    return Registry(dict(properties))
