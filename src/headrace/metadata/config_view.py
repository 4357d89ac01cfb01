"""What DescribeConfigs says of a resource: each key's value, where it comes from, and what stands behind it. Given out one by one, as a broker has hundreds.

Pure: out of the image and the node's configuration. Sources and synonyms follow Kafka 4.3.1 (KIP-226, KIP-569).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from enum import IntEnum

from headrace.config.broker_keys import KAFKA_KEYS
from headrace.config.group_keys import GROUP_SYNONYMS
from headrace.config.key import ConfigKey, ConfigValue, InvalidConfigValue, Type, value_text
from headrace.config.node_config import NodeConfig
from headrace.config.node_settings import KEYS
from headrace.config.rules import ResourceType, base_name, is_dynamic, keys_of
from headrace.config.topic_keys import BROKER_SYNONYMS
from headrace.core.values import value_class
from headrace.metadata.image import ConfigsImage
from headrace.wire.messages.describe_configs import DescribeConfigsResourceResult, DescribeConfigsSynonym


class Source(IntEnum):
    """Where a value comes from (the wire's `config_source`)."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


_TIMES = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_SYNONYMS: dict[str, tuple[str, ...]] = {name: names for names in _TIMES for name in names}
_SYNONYMS["log.flush.interval.ms"] = ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
_DEFAULTS = {key.name: text for key in KAFKA_KEYS if (text := value_text(key, key.default)) is not None}


@value_class
class ConfigView:
    """The settings in force on one node, and how to show them."""

    started_with: NodeConfig
    current: NodeConfig
    configs: ConfigsImage
    shows_synonyms: bool = True
    shows_documentation: bool = False
    _static: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        originals = dict(self.started_with.originals)
        if "node.id" in originals:
            originals.setdefault("broker.id", originals["node.id"])
        object.__setattr__(self, "_static", originals)

    def topic(self, name: str, wanted: Collection[str] | None) -> Iterator[DescribeConfigsResourceResult]:
        """Every key of a topic, or those wanted."""
        own = self.configs.of(ResourceType.TOPIC, name)
        return self._all(ResourceType.TOPIC, own, wanted, Source.TOPIC)

    def group(self, name: str, wanted: Collection[str] | None) -> Iterator[DescribeConfigsResourceResult]:
        """Every key of a group, or those wanted."""
        return self._all(ResourceType.GROUP, self.configs.of(ResourceType.GROUP, name), wanted, Source.GROUP)

    def client_metrics(self, name: str, wanted: Collection[str] | None) -> Iterator[DescribeConfigsResourceResult]:
        """Every key of a client-metrics subscription, or those wanted."""
        own = self.configs.of(ResourceType.CLIENT_METRICS, name)
        return self._all(ResourceType.CLIENT_METRICS, own, wanted, Source.CLIENT_METRICS)

    def broker(self, wanted: Collection[str] | None) -> Iterator[DescribeConfigsResourceResult]:
        """Every key of this broker and what else it was given, or those wanted."""
        own = self.configs.of_broker(self.started_with.node_id)
        names = [name for name, key in KEYS.items() if not key.internal or name in self._static]
        names += sorted({name for name in {**self._static, **self.configs.of_all_brokers(), **own} if name not in KEYS})
        return (self._broker_entry(name, is_default=False) for name in names if not wanted or name in wanted)

    def all_brokers(self, wanted: Collection[str] | None) -> Iterator[DescribeConfigsResourceResult]:
        """What is set for the whole cluster, by name: every node answers alike."""
        names = sorted(self.configs.of_all_brokers())
        return (self._broker_entry(name, is_default=True) for name in names if not wanted or name in wanted)

    def _broker_entry(self, name: str, *, is_default: bool) -> DescribeConfigsResourceResult:
        key = keys_of(ResourceType.BROKER).get(base_name(name))
        is_sensitive = key is None or key.is_sensitive
        synonyms = self.broker_synonyms(name, is_sensitive=is_sensitive)
        if is_default:
            synonyms = [one for one in synonyms if one.source == Source.DYNAMIC_DEFAULT_BROKER]
        own = keys_of(ResourceType.BROKER).get(name)
        return self._entry(
            key or ConfigKey(name, Type.STRING, None),
            name,
            value=None if is_sensitive else self._broker_value(name, synonyms),
            synonyms=synonyms,
            is_read_only=own is None or not is_dynamic(own),
            is_known=key is not None,
        )

    def _broker_value(self, name: str, synonyms: list[DescribeConfigsSynonym]) -> str | None:
        """What is in force; of what is not set, the default."""
        key = KEYS.get(name)
        if synonyms and synonyms[0].name == name:
            return synonyms[0].value if key is None else _normal(key, synonyms[0].value)
        return None if key is None else value_text(key, key.default)

    def broker_synonyms(self, name: str, *, is_sensitive: bool) -> list[DescribeConfigsSynonym]:
        """Every place that gives the broker's key a value, the one in force first."""
        names = _SYNONYMS.get(name) or ((name, base_name(name)) if base_name(name) != name else (name,))
        layers: tuple[tuple[Mapping[str, str], Source], ...] = (
            (self.configs.of_broker(self.started_with.node_id), Source.DYNAMIC_BROKER),
            (self.configs.of_all_brokers(), Source.DYNAMIC_DEFAULT_BROKER),
            (self._static, Source.STATIC_BROKER),
            (_DEFAULTS, Source.DEFAULT),
        )
        found = [
            DescribeConfigsSynonym(name=one, value=None if is_sensitive else values[one], source=source)
            for values, source in layers
            for one in names
            if one in values
        ]
        while found and found[0].name != name:
            found.pop(0)
        return found

    def _all(
        self, resource_type: ResourceType, own: Mapping[str, str], wanted: Collection[str] | None, source: Source
    ) -> Iterator[DescribeConfigsResourceResult]:
        for key in keys_of(resource_type).values():
            if (key.internal and key.name not in own) or (wanted and key.name not in wanted):
                continue
            value, behind = self._default(resource_type, key)
            if key.name in own:
                value = _normal(key, own[key.name])
                behind = [DescribeConfigsSynonym(name=key.name, value=value, source=source), *behind]
            elif resource_type is ResourceType.GROUP and not behind:
                behind = [DescribeConfigsSynonym(name=key.name, value=value, source=Source.DEFAULT)]
            yield self._entry(key, key.name, value=value, synonyms=behind, is_read_only=False)

    def _default(self, resource_type: ResourceType, key: ConfigKey) -> tuple[str | None, list[DescribeConfigsSynonym]]:
        """The value of a key that the resource does not set, and what the broker says of it."""
        if resource_type is ResourceType.TOPIC and key.name in BROKER_SYNONYMS:
            first = BROKER_SYNONYMS[key.name][0]
            return self._in_force(key, first), self.broker_synonyms(first, is_sensitive=False)
        if resource_type is ResourceType.GROUP and key.name in GROUP_SYNONYMS:
            first = GROUP_SYNONYMS[key.name]
            return self._in_force(key, first), self.broker_synonyms(first, is_sensitive=False)
        return value_text(key, key.default), []

    def _in_force(self, key: ConfigKey, broker_key: str) -> str | None:
        """The broker's value, hours and minutes counted."""
        merged = {
            "log.retention.ms": self.current.log_retention_ms,
            "log.roll.ms": self.current.log_roll_ms,
            "log.roll.jitter.ms": self.current.log_roll_jitter_ms,
            "log.flush.interval.ms": self.current.log_flush_interval_ms,
        }
        value: ConfigValue = merged.get(broker_key)
        if value is None:
            value = self.current.values.get(broker_key, key.default)
        return value_text(key, value)

    def _entry(
        self,
        key: ConfigKey,
        name: str,
        *,
        value: str | None,
        synonyms: list[DescribeConfigsSynonym],
        is_read_only: bool,
        is_known: bool = True,
    ) -> DescribeConfigsResourceResult:
        return DescribeConfigsResourceResult(
            name=name,
            value=value,
            read_only=is_read_only,
            config_source=synonyms[0].source if synonyms else Source.DEFAULT,
            is_sensitive=key.is_sensitive or not is_known,
            synonyms=tuple(synonyms) if self.shows_synonyms else (),
            config_type=key.type if is_known else 0,
            documentation=_documentation(key) if self.shows_documentation else None,
        )


def _normal(key: ConfigKey, text: str | None) -> str | None:
    """The text of the parsed value: `TRUE` is `true`. What cannot be parsed stays as it is."""
    if text is None:
        return None
    try:
        return value_text(key, key.parse(text))
    except InvalidConfigValue:
        return text


def _documentation(key: ConfigKey) -> str:
    from headrace.config.docs import documentation_of  # few ask for it, and a node is to start fast

    return documentation_of(key)
