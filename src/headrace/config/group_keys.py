"""The keys of a group and of a client-metrics subscription (Apache Kafka 4.3.1)."""

from __future__ import annotations

from headrace.config.checks import ListOf, OffsetReset, OneOf, at_least
from headrace.config.key import ConfigKey, Type

_k = ConfigKey
ON, OFF = True, False
BOOLEAN, INT, LIST, STRING = (
    Type.BOOLEAN,
    Type.INT,
    Type.LIST,
    Type.STRING,
)
NATURAL = at_least(0)
POSITIVE = at_least(1)

GROUP_KEYS: tuple[ConfigKey, ...] = (
    _k("consumer.assignment.interval.ms", INT, 1000, NATURAL),
    _k("consumer.heartbeat.interval.ms", INT, 5000, POSITIVE),
    _k("consumer.session.timeout.ms", INT, 45000, POSITIVE),
    _k("share.assignment.interval.ms", INT, 1000, NATURAL),
    _k("share.auto.offset.reset", STRING, "latest", OffsetReset()),
    _k("share.delivery.count.limit", INT, 5, at_least(2)),
    _k("share.heartbeat.interval.ms", INT, 5000, POSITIVE),
    _k("share.isolation.level", STRING, "read_uncommitted", OneOf(("read_committed", "read_uncommitted"))),
    _k("share.partition.max.record.locks", INT, 2000, at_least(100)),
    _k("share.record.lock.duration.ms", INT, 30000, at_least(1000)),
    _k("share.renew.acknowledge.enable", BOOLEAN, ON),
    _k("share.session.timeout.ms", INT, 45000, POSITIVE),
    _k("streams.assignment.interval.ms", INT, 1000, NATURAL),
    _k("streams.heartbeat.interval.ms", INT, 5000, POSITIVE),
    _k("streams.initial.rebalance.delay.ms", INT, 3000, NATURAL),
    _k("streams.num.standby.replicas", INT, 0, NATURAL),
    _k("streams.session.timeout.ms", INT, 45000, POSITIVE),
)
"""Every key of a group, by name (KIP-848, KIP-932, KIP-1071)."""

CLIENT_METRICS_KEYS: tuple[ConfigKey, ...] = (
    _k("interval.ms", INT, 300_000),
    _k("match", LIST, (), ListOf()),
    _k("metrics", LIST, (), ListOf()),
)
"""Every key of a client-metrics subscription (KIP-714)."""

GROUP_SYNONYMS: dict[str, str] = {
    "consumer.assignment.interval.ms": "group.consumer.assignment.interval.ms",
    "consumer.heartbeat.interval.ms": "group.consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms": "group.consumer.session.timeout.ms",
    "share.assignment.interval.ms": "group.share.assignment.interval.ms",
    "share.delivery.count.limit": "group.share.delivery.count.limit",
    "share.heartbeat.interval.ms": "group.share.heartbeat.interval.ms",
    "share.partition.max.record.locks": "group.share.partition.max.record.locks",
    "share.record.lock.duration.ms": "group.share.record.lock.duration.ms",
    "share.session.timeout.ms": "group.share.session.timeout.ms",
    "streams.assignment.interval.ms": "group.streams.assignment.interval.ms",
    "streams.heartbeat.interval.ms": "group.streams.heartbeat.interval.ms",
    "streams.initial.rebalance.delay.ms": "group.streams.initial.rebalance.delay.ms",
    "streams.num.standby.replicas": "group.streams.num.standby.replicas",
    "streams.session.timeout.ms": "group.streams.session.timeout.ms",
}
"""The key of the broker that gives the default of a group's key."""
