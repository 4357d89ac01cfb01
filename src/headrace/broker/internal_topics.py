"""The topics that the cluster keeps for itself, and how they are made."""

from __future__ import annotations

from headrace.config.node_config import NodeConfig
from headrace.config.rules import LEGAL_TOPIC_NAME
from headrace.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
METADATA_TOPIC = "__cluster_metadata"
SHARE_STATE_TOPIC = "__share_group_state"

INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})


def creatable_topic(name: str, config: NodeConfig) -> CreatableTopic:
    """What auto-creation asks the controller for: internal topics have settings of their own, others the defaults (-1)."""
    if name == OFFSETS_TOPIC:
        return CreatableTopic(
            name=name,
            num_partitions=config.offsets_topic_num_partitions,
            replication_factor=config.offsets_topic_replication_factor,
            configs=_settings(
                {
                    "cleanup.policy": "compact",
                    "compression.type": "producer",
                    "segment.bytes": str(config.offsets_topic_segment_bytes),
                }
            ),
        )
    if name == TRANSACTIONS_TOPIC:
        return CreatableTopic(
            name=name,
            num_partitions=config.transaction_state_log_num_partitions,
            replication_factor=config.transaction_state_log_replication_factor,
            configs=_settings(
                {
                    "cleanup.policy": "compact",
                    "compression.type": "uncompressed",
                    "min.insync.replicas": str(config.transaction_state_log_min_isr),
                    "segment.bytes": str(config.transaction_state_log_segment_bytes),
                    "unclean.leader.election.enable": "false",
                }
            ),
        )
    return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)


def _settings(values: dict[str, str]) -> tuple[CreatableTopicConfig, ...]:
    return tuple(CreatableTopicConfig(name=name, value=value) for name, value in values.items())


def topic_name_problem(name: str) -> str | None:
    """Why this cannot be a topic's name, or None (B26)."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return "it cannot be . or .."
    if len(name) > 249:
        return f"it has {len(name)} characters; at most 249 are allowed"
    if LEGAL_TOPIC_NAME.fullmatch(name) is None:
        return "only ASCII letters, digits, '.', '_' and '-' are allowed"
    return None
