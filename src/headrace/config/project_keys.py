"""The keys that Headrace adds to Kafka's, the older names that it takes, and prefixes under which anything may stand."""

from __future__ import annotations

from headrace.config.checks import Between, ListenAddress, OneOf, at_least
from headrace.config.key import ConfigKey, Type

OFF, ON = False, True
NATURAL, POSITIVE = at_least(0), at_least(1)

PROJECT_KEYS: tuple[ConfigKey, ...] = (
    # A broker without word from the controller for this long stops its clients (0: never). S0-15, S0-44.
    ConfigKey("broker.heartbeat.timeout.ms", Type.INT, 13_500, NATURAL),
    # The longest wait between two tries of a quorum request. S1-22.
    ConfigKey("controller.quorum.retry.backoff.max.ms", Type.INT, 1_000, POSITIVE),
    # Every record of a produced batch is checked, not only the batch.
    ConfigKey("headrace.validate.records", Type.BOOLEAN, OFF),
    ConfigKey("headrace.keep.strays", Type.BOOLEAN, OFF),
    # The last partition of a topic may be removed. Stays on as long as partitions may be added where one was removed.
    ConfigKey("partition.deletion.enable", Type.BOOLEAN, OFF),
    # What one batch may open to; beyond it the batch is refused.
    ConfigKey("headrace.max.decompressed.bytes", Type.INT, 268_435_456, POSITIVE),
    # How long a frame may take from its first byte to its last.
    ConfigKey("headrace.frame.timeout.ms", Type.INT, 30_000, POSITIVE),
    # Requests of one connection that are not answered yet; beyond it the connection is not read from.
    ConfigKey("headrace.max.requests.in.flight", Type.INT, 1_000, POSITIVE),
    # The metadata log says of each decision why it was made; Kafka skips that, and `headrace history` tells it.
    ConfigKey("headrace.record.causes", Type.BOOLEAN, ON),
    # A broker whose connection is gone and whose listeners all refuse is fenced at once, not after its session.
    ConfigKey("headrace.fence.unreachable.brokers", Type.BOOLEAN, ON),
    # How long a stopping broker waits for the controller to move its leaderships away. B-K03.
    ConfigKey("headrace.controlled.shutdown.timeout.ms", Type.INT, 300_000, POSITIVE),
    # A voter whose leader's host refuses connections asks for an election at once, not after the fetch timeout.
    ConfigKey("headrace.elect.on.refusal", Type.BOOLEAN, ON),
    # A voter that starts, reaches a majority and hears of no leader asks for an election at once.
    ConfigKey("headrace.elect.at.start", Type.BOOLEAN, ON),
    # What a broker without word from the controller stops: partitions of which it hears no other in-sync replica either, all, or nothing.
    ConfigKey("headrace.self.fencing", Type.STRING, "isolated", OneOf(("isolated", "always", "off"))),
    # What a broker does whose registration was taken away, or taken over by another process: register again, or end. S1-73.
    ConfigKey("headrace.when.unregistered", Type.STRING, "register", OneOf(("register", "exit"))),
    # A file for everything that the metadata side of this node takes in, for `headrace debug replay`; empty: none.
    ConfigKey("headrace.journal.file", Type.STRING, ""),
    # A file for the life of each change of a replica's state, as lines of JSON; empty: none.
    ConfigKey("headrace.state.change.file", Type.STRING, ""),
    # When it has so many bytes it becomes FILE.1, in place of the one before.
    ConfigKey("headrace.state.change.file.bytes", Type.INT, 10_485_760, at_least(65_536)),
    # The TCP congestion control between this node and a process on the same machine; empty: the machine's own choice.
    ConfigKey("headrace.loopback.congestion.control", Type.STRING, "reno"),
    # Whether the event loop stays awake between requests that follow each other closely; auto: unless others want its core.
    ConfigKey("headrace.network.busy.poll", Type.STRING, "auto", OneOf(("auto", "on", "off"))),
    # Addresses that several processes of this machine share, as NAME://host:port: each takes connections there for its own listener NAME.
    ConfigKey("headrace.shared.listeners", Type.STRING, ""),
    # Where `GET /metrics` is answered, as host:port; port 0 lets the system choose; empty: nowhere.
    ConfigKey("headrace.metrics.listener", Type.STRING, "", ListenAddress()),
    # Of so many topics each has lines of its own there; 0: of none.
    ConfigKey("headrace.metrics.topics.max", Type.INT, 200, Between(0, 2_000)),
    # Of so many hosted partitions each has lines of its own there; 0: of none.
    ConfigKey("headrace.metrics.partitions.max", Type.INT, 10_000, NATURAL),
)
"""The keys that only Headrace has."""

ALIASES: dict[str, str] = {
    "controller.connect": "controller.quorum.voters",
    "quorum.voters": "controller.quorum.voters",
    "bootstrap.quorum.voters": "controller.quorum.voters",
    "bootstrap.servers": "controller.quorum.bootstrap.servers",
    "quorum.fetch.timeout.ms": "controller.quorum.fetch.timeout.ms",
    "quorum.election.timeout.ms": "controller.quorum.election.timeout.ms",
    "quorum.election.backoff.max.ms": "controller.quorum.election.backoff.max.ms",
    "quorum.request.timeout.ms": "controller.quorum.request.timeout.ms",
    "quorum.retry.backoff.ms": "controller.quorum.retry.backoff.ms",
    "quorum.retry.backoff.max.ms": "controller.quorum.retry.backoff.max.ms",
    "controller.id": "node.id",
    "broker.id": "node.id",
    "broker.registration.timeout.ms": "broker.session.timeout.ms",
    "controller.heartbeat.timeout.ms": "broker.session.timeout.ms",
    "replica.keep.in.sync.time.ms": "replica.lag.time.max.ms",
}
"""Names of older designs, and what they are called today; both given must say the same."""

BROKER_QUOTA_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey("follower.replication.throttled.rate", Type.LONG, 2**63 - 1, NATURAL),
    ConfigKey("leader.replication.throttled.rate", Type.LONG, 2**63 - 1, NATURAL),
    ConfigKey("replica.alter.log.dirs.io.max.bytes.per.second", Type.LONG, 2**63 - 1, NATURAL),
)
"""Keys of a broker that can only be set while it runs (KIP-73, KIP-113)."""

FORMER_KEYS = frozenset({
    "alter.config.policy.kraft.compatibility.enable",
    "broker.id.generation.enable",
    "eligible.leader.replicas.enable",
    "group.consumer.remote.assignors",
    "group.coordinator.new.enable",
    "inter.broker.protocol.version",
    "log.message.downconversion.enable",
    "log.message.format.version",
    "log.message.timestamp.difference.max.ms",
    "password.encoder.cipher.algorithm",
    "password.encoder.iterations",
    "password.encoder.key.length",
    "password.encoder.keyfactory.algorithm",
    "password.encoder.old.secret",
    "password.encoder.secret",
    "reserved.broker.max.id",
    "unstable.metadata.versions.enable",
})  # fmt: skip
"""Keys that earlier releases of Kafka had and 4.3 ignores: accepted, without effect."""

FORMER_PREFIXES = ("zookeeper.",)
"""Prefixes of keys that 4.3 ignores (S1-26)."""

OPEN_PREFIXES = ("listener.name.", "config.providers.", "rlmm.config.", "rsm.config.", "headrace.plugin.")
"""Below these anything may stand."""

PLUGIN_KEYS = frozenset({"super.users", "allow.everyone.if.no.acl.found"})
"""Keys of plugins that come with Kafka."""

PLUGIN_CLASSES = (
    "alter.config.policy.class.name", "authorizer.class.name", "client.quota.callback.class", "create.topic.policy.class.name",
    "kafka.metrics.reporters", "metric.reporters", "principal.builder.class", "ssl.engine.factory.class",
)  # fmt: skip
"""Keys that name a plugin; where one is set, unknown keys may be the plugin's own."""

REFUSED_KEYS: dict[str, str] = {
    "control.plane.listener.name": "is not supported with process.roles: remove it and name the controller's listeners in "
    "controller.listener.names",
    "zookeeper.metadata.migration.enable": "needs ZooKeeper, which is not supported: remove it",
}
"""Keys whose effect cannot be left out quietly."""
