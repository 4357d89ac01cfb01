"""The plan of a run: how big a cluster, within which limits, with which clients and which faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from headrace.core.values import value_class
from headrace.metadata.versions import LATEST_METADATA_VERSION
from headrace.sim.faults import Fault, Profile
from headrace.sim.limits import Limits
from headrace.sim.network import NetworkQuality


@value_class
class Plan:
    """What a run is, drawn from its seed or said by the caller. Times in ms of simulated time.

    `voters` of the `controllers` begin as voters; `brokers` are whole nodes with the broker's role, `scripted_brokers` only their calls; the share `wants_fence` of
    the heartbeats of these ask to be fenced; `hostile_peers` send forged packets. Administrators also ask for reassignments (`moves_replicas`), allow unclean elections and ask
    for elections (`elects`), and read what became of it (`reads`). Brokers stop, are unregistered, and lose or cordon directories
    (`moves_brokers`), or are decommissioned (`decommissions`); the cluster begins with `first_metadata_version`, with ELR or without, and is upgraded by UpdateFeatures (`upgrades`). Controllers may join the
    voters by themselves (`auto_joins`), `combined_nodes` of them are brokers too, and metadata may begin with ACLs and the like (`has_all_records`).
    `producers` write records to whole brokers, each to a topic of its own that has `copies` replicas a partition, and `consumers` read them.
    Such a topic is deleted after a while and made anew under its name (`ends_topics`). Brokers have so many `directories`, between which replicas move where the faults have it.
    `members` of consumer groups share out the partitions of the first of these topics, and keep positions.
    """

    seed: int
    controllers: int = 3
    voters: int = 3
    brokers: int = 0
    scripted_brokers: int = 2
    admins: int = 2
    hostile_peers: int = 0
    is_dynamic: bool = True
    changes_voters: bool = False
    racks: int = 0
    limits: Limits = field(default_factory=Limits)
    quality: NetworkQuality = field(default_factory=NetworkQuality)
    profile: Profile = field(default_factory=Profile)
    faults: tuple[Fault, ...] = ()
    faults_until_ms: int = 10_000
    think_ms: int = 200
    wants_fence: float = 0.01
    moves_replicas: bool = False
    elects: bool = False
    has_elr: bool = True
    reads: bool = False
    moves_brokers: bool = False
    upgrades: bool = False
    first_metadata_version: int = LATEST_METADATA_VERSION
    has_all_records: bool = False
    auto_joins: bool = False
    combined_nodes: int = 0
    versions: Mapping[int, dict[int, int]] = field(default_factory=dict)
    producers: int = 0
    consumers: int = 0
    copies: int = 1
    members: int = 0
    directories: int = 1
    ends_topics: bool = False
    decommissions: bool = False

    @property
    def has_leaders(self) -> bool:
        """Scripted brokers lead their partitions: replicas that come get in sync, lost leaders are replaced and recover."""
        return self.scripted_brokers > 0 and not self.brokers and (self.moves_replicas or self.elects)

    def with_limits(self, limits: Limits) -> Plan:
        """The same run within other limits."""
        return replace(self, limits=limits)
