"""The configuration of a node: what it is, where it listens and keeps its data, and its limits.

`NodeConfig` holds the settings that the code reads, typed and checked; every field is named as Kafka's key with `_` for
`.`, and has Kafka's default. `node_settings.parse_node_config` makes one from the text of a server.properties.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from headrace.config.key import ConfigValue
from headrace.core.listener import HostPort, Listener, QuorumVoter, SecurityProtocol
from headrace.core.values import value_class

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

DEFAULT_PROTOCOLS: Mapping[str, SecurityProtocol] = {protocol.name: protocol for protocol in SecurityProtocol}


RACK_AWARE_SELECTORS = ("org.apache.kafka.common.replica.RackAwareReplicaSelector", "rack-aware")
"""Values of `replica.selector.class`: Kafka's class, and what it is called here."""


@value_class(eq=False)
class NodeConfig:
    """The settings of one node: milliseconds, bytes and counts as the names say; who made it has checked them.

    `listeners` are what this node binds (a broker's and a controller's alike); it tells others
    `advertised_listeners` for clients and brokers, `advertised_controller_listeners` for the quorum. `log_retention_ms`, `log_roll_ms`, `log_roll_jitter_ms` and
    `log_flush_interval_ms` are what follows from their hours, minutes and milliseconds together.
    """

    node_id: int
    process_roles: tuple[str, ...] = ("broker", "controller")
    listeners: tuple[Listener, ...] = ()
    advertised_listeners: tuple[Listener, ...] = ()
    advertised_controller_listeners: tuple[Listener, ...] = ()
    controller_listener_names: tuple[str, ...] = ("CONTROLLER",)
    inter_broker_listener_name: str = "PLAINTEXT"
    early_start_listeners: tuple[str, ...] = ()
    listener_security_protocol_map: Mapping[str, SecurityProtocol] = field(default_factory=lambda: DEFAULT_PROTOCOLS)
    controller_quorum_voters: tuple[QuorumVoter, ...] = ()
    controller_quorum_bootstrap_servers: tuple[HostPort, ...] = ()
    log_dirs: tuple[str, ...] = ()
    metadata_log_dir: str = ""
    cordoned_log_dirs: tuple[str, ...] = ()

    # Headrace's own
    headrace_validate_records: bool = False
    headrace_keep_strays: bool = False
    partition_deletion_enable: bool = False
    headrace_max_decompressed_bytes: int = 268_435_456
    headrace_frame_timeout_ms: int = 30_000
    headrace_max_requests_in_flight: int = 1_000
    headrace_record_causes: bool = True
    headrace_fence_unreachable_brokers: bool = True
    headrace_controlled_shutdown_timeout_ms: int = 300_000
    headrace_elect_on_refusal: bool = True
    headrace_elect_at_start: bool = True
    headrace_self_fencing: str = "isolated"
    headrace_when_unregistered: str = "register"
    headrace_journal_file: str = ""
    headrace_state_change_file: str = ""
    headrace_state_change_file_bytes: int = 10_485_760
    headrace_loopback_congestion_control: str = "reno"
    headrace_network_busy_poll: str = "auto"
    headrace_shared_listeners: str = ""
    headrace_metrics_listener: str = ""
    headrace_metrics_topics_max: int = 200
    headrace_metrics_partitions_max: int = 10_000

    # Logs: what follows from several keys
    log_retention_ms: int = 604_800_000
    log_roll_ms: int = 604_800_000
    log_roll_jitter_ms: int = 0
    log_flush_interval_ms: int = LONG_MAX

    # Roles and registration
    broker_rack: str | None = None
    broker_heartbeat_interval_ms: int = 2_000
    broker_heartbeat_timeout_ms: int = 13_500
    broker_session_timeout_ms: int = 9_000
    initial_broker_registration_timeout_ms: int = 60_000
    controlled_shutdown_enable: bool = True
    request_timeout_ms: int = 30_000

    # Controller and quorum
    controller_quorum_append_linger_ms: int = 25
    controller_quorum_auto_join_enable: bool = False
    controller_quorum_election_backoff_max_ms: int = 1_000
    controller_quorum_election_timeout_ms: int = 1_000
    controller_quorum_fetch_max_bytes: int = 1_048_576
    controller_quorum_fetch_snapshot_max_bytes: int = 1_048_576
    controller_quorum_fetch_timeout_ms: int = 2_000
    controller_quorum_request_timeout_ms: int = 2_000
    controller_quorum_retry_backoff_ms: int = 20
    controller_quorum_retry_backoff_max_ms: int = 1_000
    unclean_leader_election_enable: bool = False
    unclean_leader_election_interval_ms: int = 300_000
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300

    # Metadata log
    metadata_log_segment_bytes: int = 1_073_741_824
    metadata_log_segment_ms: int = 604_800_000
    metadata_log_max_record_bytes_between_snapshots: int = 20_971_520
    metadata_log_max_snapshot_interval_ms: int = 3_600_000
    metadata_max_idle_interval_ms: int = 500
    metadata_max_retention_bytes: int = 104_857_600
    metadata_max_retention_ms: int = 604_800_000
    internal_metadata_log_segment_bytes: int | None = None
    internal_metadata_max_batch_size_in_bytes: int = 8_388_608

    # Network
    connections_max_idle_ms: int = 600_000
    max_connection_creation_rate: int = INT_MAX
    max_connections: int = INT_MAX
    max_connections_of_listeners: Mapping[str, int] = field(default_factory=dict)
    creation_rates_of_listeners: Mapping[str, int] = field(default_factory=dict)
    max_connections_per_ip: int = INT_MAX
    max_connections_per_ip_overrides: str = ""
    queued_max_request_bytes: int = -1
    socket_connection_setup_timeout_ms: int = 10_000
    socket_listen_backlog_size: int = 50
    socket_receive_buffer_bytes: int = 102_400
    socket_request_max_bytes: int = 104_857_600
    socket_send_buffer_bytes: int = 102_400
    max_incremental_fetch_session_cache_slots: int = 1_000
    max_request_partition_size_limit: int = 2_000
    fetch_max_bytes: int = 57_671_680

    # Topics and their defaults
    auto_create_topics_enable: bool = True
    default_replication_factor: int = 1
    delete_topic_enable: bool = True
    min_insync_replicas: int = 1
    num_partitions: int = 1
    message_max_bytes: int = 1_048_588
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3

    # Logs
    log_cleaner_delete_retention_ms: int = 86_400_000
    log_cleaner_enable: bool = True
    log_cleaner_max_compaction_lag_ms: int = LONG_MAX
    log_cleaner_min_cleanable_ratio: float = 0.5
    log_cleaner_min_compaction_lag_ms: int = 0
    log_cleanup_policy: tuple[str, ...] = ("delete",)
    log_flush_interval_messages: int = LONG_MAX
    log_index_interval_bytes: int = 4_096
    log_index_size_max_bytes: int = 10_485_760
    log_message_timestamp_after_max_ms: int = 3_600_000
    log_message_timestamp_before_max_ms: int = LONG_MAX
    log_message_timestamp_type: str = "CreateTime"
    log_preallocate: bool = False
    log_retention_bytes: int = -1
    log_retention_check_interval_ms: int = 300_000
    log_segment_bytes: int = 1_073_741_824
    log_segment_delete_delay_ms: int = 60_000
    producer_id_expiration_check_interval_ms: int = 600_000
    producer_id_expiration_ms: int = 86_400_000

    # Log directories
    alter_log_dirs_replication_quota_window_num: int = 11
    alter_log_dirs_replication_quota_window_size_seconds: int = 1
    log_dir_failure_timeout_ms: int = 30_000
    num_replica_alter_log_dirs_threads: int | None = None

    # Replication
    num_replica_fetchers: int = 1
    replica_fetch_backoff_ms: int = 1_000
    replica_fetch_max_bytes: int = 1_048_576
    replica_fetch_min_bytes: int = 1
    replica_fetch_response_max_bytes: int = 10_485_760
    replica_fetch_wait_max_ms: int = 500
    replica_high_watermark_checkpoint_interval_ms: int = 5_000
    replica_lag_time_max_ms: int = 30_000
    replica_selector_class: str | None = None
    replication_quota_window_num: int = 11
    replication_quota_window_size_seconds: int = 1
    replica_socket_timeout_ms: int = 30_000

    # Groups
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = INT_MAX
    group_min_session_timeout_ms: int = 6_000
    offset_metadata_max_bytes: int = 4_096
    offsets_commit_timeout_ms: int = 5_000
    offsets_retention_check_interval_ms: int = 600_000
    offsets_retention_minutes: int = 10_080
    offsets_topic_compression_codec: int = 0
    offsets_topic_num_partitions: int = 50
    offsets_topic_replication_factor: int = 3
    offsets_topic_segment_bytes: int = 104_857_600

    # Transactions
    transaction_max_timeout_ms: int = 900_000
    transaction_state_log_min_isr: int = 2
    transaction_state_log_num_partitions: int = 50
    transaction_state_log_replication_factor: int = 3
    transaction_state_log_segment_bytes: int = 104_857_600

    # As given
    values: Mapping[str, ConfigValue] = field(default_factory=dict, repr=False)
    """Every key of Kafka's and ours, parsed; also those that the code does not read."""
    originals: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What the file and the command line said, aliases resolved; DescribeConfigs shows these as static settings."""
    without_effect: tuple[str, ...] = ()
    """Keys given that Kafka knows and nothing here reads."""
    warnings: tuple[str, ...] = ()
    """What is allowed and probably not meant; said once at the start."""

    @property
    def is_broker(self) -> bool:
        """This node hosts partitions and serves clients."""
        return "broker" in self.process_roles

    @property
    def is_controller(self) -> bool:
        """This node is of the metadata quorum."""
        return "controller" in self.process_roles

    @property
    def controller_listeners(self) -> tuple[Listener, ...]:
        """The listeners bound for the quorum; none on a node that is only a broker."""
        return tuple(one for one in self.listeners if one.name in self.controller_listener_names)

    @property
    def broker_listeners(self) -> tuple[Listener, ...]:
        """The listeners bound for clients and other brokers; none on a node that is only a controller."""
        return tuple(one for one in self.listeners if one.name not in self.controller_listener_names)

    @property
    def has_static_voters(self) -> bool:
        """The quorum is the one of `controller.quorum.voters` (KIP-595), not of voter records (KIP-853)."""
        return bool(self.controller_quorum_voters)

    def protocol_of(self, listener_name: str) -> SecurityProtocol:
        """How to speak with a listener of that name. Raises KeyError: not in the map (checked at the start)."""
        return self.listener_security_protocol_map[listener_name]
