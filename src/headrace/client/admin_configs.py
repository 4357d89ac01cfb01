"""Conversations about settings: what they are, where they come from, and their changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from headrace.client.retry import error_of, of_each
from headrace.client.routing import ask_any, ask_controller, ask_node
from headrace.client.session import Session
from headrace.client.talk import Call, Conversation
from headrace.core.errors import PeerError
from headrace.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.messages.list_config_resources import ListConfigResourcesRequest


class ResourceType(IntEnum):
    """What a setting belongs to, as numbered on the wire."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Where a value comes from, as numbered on the wire."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8

    @classmethod
    def known(cls, number: int) -> ConfigSource:
        """The source of a number; a number nobody knows is UNKNOWN."""
        return cls(number) if 0 <= number <= 8 else cls.UNKNOWN


class Operation(IntEnum):
    """What to do with one setting (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Resource(NamedTuple):
    """One thing that has settings; the name of all brokers' defaults is empty."""

    kind: ResourceType
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Synonym:
    """Another place where the value could come from."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """A setting and its value (None when it is secret or not set)."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    is_read_only: bool
    synonyms: tuple[Synonym, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """One setting to change; `value` is None for DELETE."""

    name: str
    operation: Operation
    value: str | None = None


def _is_brokers_own(resource: Resource) -> bool:
    return resource.kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and resource.name.isdecimal()


def describe_configs(
    session: Session, resources: Sequence[Resource], *, is_with_synonyms: bool = False
) -> Conversation[dict[Resource, tuple[ConfigEntry, ...] | PeerError]]:
    """The settings of each resource; those of a broker are asked of itself, and are BROKER_NOT_AVAILABLE when it has left the cluster."""
    found: dict[Resource, tuple[ConfigEntry, ...] | PeerError] = {}
    shared = [resource for resource in resources if not _is_brokers_own(resource)]
    for group in [[each] for each in resources if _is_brokers_own(each)] + ([shared] if shared else []):
        request = DescribeConfigsRequest(
            resources=tuple(
                DescribeConfigsResource(resource_type=each.kind, resource_name=each.name, configuration_keys=None)
                for each in group
            ),
            include_synonyms=is_with_synonyms,
        )
        if group is shared or session.settings.is_controller:
            response = (yield from ask_any(session, request)).response
        else:
            try:
                response = yield from ask_node(session, int(group[0].name), request, is_awaited=False)
            except PeerError as gone:
                found[group[0]] = gone
                continue
        rows: dict[Any, tuple[ConfigEntry, ...] | PeerError] = {
            (row.resource_type, row.resource_name): error_of(row.error_code, row.error_message)
            or tuple(_entry(each) for each in row.configs)
            for row in response.results
        }
        found |= of_each(group, rows)
    return found


def _entry(each: Any) -> ConfigEntry:
    return ConfigEntry(
        name=each.name,
        value=each.value,
        source=ConfigSource.known(each.config_source),
        is_sensitive=each.is_sensitive,
        is_read_only=each.read_only,
        synonyms=tuple(
            Synonym(name=syn.name, value=syn.value, source=ConfigSource.known(syn.source)) for syn in each.synonyms
        ),
    )


def alter_configs(
    session: Session, changes: Mapping[Resource, Sequence[ConfigChange]], *, is_validate_only: bool = False
) -> Conversation[dict[Resource, PeerError | None]]:
    """Change settings one by one (KIP-339); None for each resource whose changes were taken, all or none of them."""
    found: dict[Resource, PeerError | None] = {}
    shared = [resource for resource in changes if not _is_brokers_own(resource)]
    for group in [[each] for each in changes if _is_brokers_own(each)] + ([shared] if shared else []):
        request = IncrementalAlterConfigsRequest(
            resources=tuple(
                AlterConfigsResource(
                    resource_type=each.kind,
                    resource_name=each.name,
                    configs=tuple(
                        AlterableConfig(name=change.name, config_operation=change.operation, value=change.value)
                        for change in changes[each]
                    ),
                )
                for each in group
            ),
            validate_only=is_validate_only,
        )
        if group is shared or session.settings.is_controller:
            response = yield from ask_controller(session, request)
        else:
            response = yield from ask_node(session, int(group[0].name), request)
        rows: dict[Any, PeerError | None] = {
            (row.resource_type, row.resource_name): error_of(row.error_code, row.error_message)
            for row in response.responses
        }
        found |= of_each(group, rows)
    return found


def list_config_resources(session: Session, kind: ResourceType) -> Conversation[list[str]]:
    """Names of the resources of a kind that have settings (client metrics, groups). Raises PeerError."""

    def build(version: int) -> ListConfigResourcesRequest:
        return ListConfigResourcesRequest(resource_types=(int(kind),) if version >= 1 else ())

    at_least = 0 if kind is ResourceType.CLIENT_METRICS else 1
    call = Call(api=ListConfigResourcesRequest, build=build, at_least=at_least)
    response = (yield from ask_any(session, call)).response
    error = error_of(response.error_code)
    if error is not None:
        raise error
    return sorted(each.resource_name for each in response.config_resources)


def alter(changes: Mapping[str, str], deletions: Sequence[str] = ()) -> list[ConfigChange]:
    """The changes that set `changes` and delete `deletions`, in their order."""
    return [ConfigChange(name=name, operation=Operation.SET, value=value) for name, value in changes.items()] + [
        ConfigChange(name=name, operation=Operation.DELETE) for name in deletions
    ]
