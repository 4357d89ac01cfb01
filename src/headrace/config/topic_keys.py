"""The keys of a topic, and the broker's keys that hold their defaults (Apache Kafka 4.3.1)."""

from __future__ import annotations

from headrace.config.checks import Between, GzipLevel, ListOf, OneOf, ThrottledReplicas, at_least
from headrace.config.key import ConfigKey, Type

_k = ConfigKey
ON, OFF = True, False
BOOLEAN, DOUBLE, INT, LIST, LONG, STRING = (
    Type.BOOLEAN,
    Type.DOUBLE,
    Type.INT,
    Type.LIST,
    Type.LONG,
    Type.STRING,
)
LONG_MAX = 2**63 - 1
NATURAL = at_least(0)
POSITIVE = at_least(1)

TOPIC_KEYS: tuple[ConfigKey, ...] = (
    _k("cleanup.policy", LIST, ("delete",), ListOf(("compact", "delete"))),
    _k("compression.gzip.level", INT, -1, GzipLevel()),
    _k("compression.lz4.level", INT, 9, Between(1, 17)),
    _k("compression.type", STRING, "producer", OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"))),
    _k("compression.zstd.level", INT, 3, Between(-131_072, 22)),
    _k("delete.retention.ms", LONG, 86_400_000, NATURAL),
    _k("file.delete.delay.ms", LONG, 60000, NATURAL),
    _k("flush.messages", LONG, LONG_MAX, POSITIVE),
    _k("flush.ms", LONG, LONG_MAX, NATURAL),
    _k("follower.replication.throttled.replicas", LIST, (), ThrottledReplicas()),
    _k("index.interval.bytes", INT, 4096, NATURAL),
    _k("internal.segment.bytes", INT, None, internal=True),
    _k("leader.replication.throttled.replicas", LIST, (), ThrottledReplicas()),
    _k("local.retention.bytes", LONG, -2, at_least(-2)),
    _k("local.retention.ms", LONG, -2, at_least(-2)),
    _k("max.compaction.lag.ms", LONG, LONG_MAX, POSITIVE),
    _k("max.message.bytes", INT, 1_048_588, NATURAL),
    _k("message.timestamp.after.max.ms", LONG, 3_600_000, NATURAL),
    _k("message.timestamp.before.max.ms", LONG, LONG_MAX, NATURAL),
    _k("message.timestamp.type", STRING, "CreateTime", OneOf(("CreateTime", "LogAppendTime"))),
    _k("min.cleanable.dirty.ratio", DOUBLE, 0.5, Between(0, 1)),
    _k("min.compaction.lag.ms", LONG, 0, NATURAL),
    _k("min.insync.replicas", INT, 1, POSITIVE),
    _k("preallocate", BOOLEAN, OFF),
    _k("remote.log.copy.disable", BOOLEAN, OFF),
    _k("remote.log.delete.on.disable", BOOLEAN, OFF),
    _k("remote.storage.enable", BOOLEAN, OFF),
    _k("retention.bytes", LONG, -1),
    _k("retention.ms", LONG, 604_800_000, at_least(-1)),
    _k("segment.bytes", INT, 1_073_741_824, at_least(1_048_576)),
    _k("segment.index.bytes", INT, 10_485_760, at_least(4)),
    _k("segment.jitter.ms", LONG, 0, NATURAL),
    _k("segment.ms", LONG, 604_800_000, POSITIVE),
    _k("unclean.leader.election.enable", BOOLEAN, OFF),
)
"""Every key of a topic, by name."""

BROKER_SYNONYMS: dict[str, tuple[str, ...]] = {
    "cleanup.policy": ("log.cleanup.policy",),
    "compression.gzip.level": ("compression.gzip.level",),
    "compression.lz4.level": ("compression.lz4.level",),
    "compression.type": ("compression.type",),
    "compression.zstd.level": ("compression.zstd.level",),
    "delete.retention.ms": ("log.cleaner.delete.retention.ms",),
    "file.delete.delay.ms": ("log.segment.delete.delay.ms",),
    "flush.messages": ("log.flush.interval.messages",),
    "flush.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    "index.interval.bytes": ("log.index.interval.bytes",),
    "local.retention.bytes": ("log.local.retention.bytes",),
    "local.retention.ms": ("log.local.retention.ms",),
    "max.compaction.lag.ms": ("log.cleaner.max.compaction.lag.ms",),
    "max.message.bytes": ("message.max.bytes",),
    "message.timestamp.after.max.ms": ("log.message.timestamp.after.max.ms",),
    "message.timestamp.before.max.ms": ("log.message.timestamp.before.max.ms",),
    "message.timestamp.type": ("log.message.timestamp.type",),
    "min.cleanable.dirty.ratio": ("log.cleaner.min.cleanable.ratio",),
    "min.compaction.lag.ms": ("log.cleaner.min.compaction.lag.ms",),
    "min.insync.replicas": ("min.insync.replicas",),
    "preallocate": ("log.preallocate",),
    "retention.bytes": ("log.retention.bytes",),
    "retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "segment.bytes": ("log.segment.bytes",),
    "segment.index.bytes": ("log.index.size.max.bytes",),
    "segment.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    "segment.ms": ("log.roll.ms", "log.roll.hours"),
    "unclean.leader.election.enable": ("unclean.leader.election.enable",),
}
"""The keys of the broker that give the default of a topic's key, first set one wins; minutes and hours count."""
