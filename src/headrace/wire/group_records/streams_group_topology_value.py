"""The schema of StreamsGroupTopologyValue.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class CopartitionGroup(Struct):
    """Part of `StreamsGroupTopologyValue`."""

    source_topics: tuple[int, ...] = field("[]int16 0+", default=())
    source_topic_regex: tuple[int, ...] = field("[]int16 0+", default=())
    repartition_source_topics: tuple[int, ...] = field("[]int16 0+", default=())


class TopicConfig(Struct):
    """Part of `StreamsGroupTopologyValue`."""

    key: str = field("string 0+ name=key", default="")
    value: str = field("string 0+ name=value", default="")


class TopicInfo(Struct):
    """Part of `StreamsGroupTopologyValue`."""

    name: str = field("string 0+", default="")
    partitions: int = field("int32 0+", default=0)
    replication_factor: int = field("int16 0+", default=0)
    topic_configs: tuple[TopicConfig, ...] = field("[]TopicConfig 0+", default=())


class Subtopology(Struct):
    """Part of `StreamsGroupTopologyValue`."""

    subtopology_id: str = field("string 0+", default="")
    source_topics: tuple[str, ...] = field("[]string 0+", default=())
    source_topic_regex: tuple[str, ...] = field("[]string 0+", default=())
    state_changelog_topics: tuple[TopicInfo, ...] = field("[]TopicInfo 0+", default=())
    repartition_sink_topics: tuple[str, ...] = field("[]string 0+", default=())
    repartition_source_topics: tuple[TopicInfo, ...] = field("[]TopicInfo 0+", default=())
    copartition_groups: tuple[CopartitionGroup, ...] = field("[]CopartitionGroup 0+", default=())


class StreamsGroupTopologyValue(Message, kind="coordinator-value", api_key=23, versions="0", flexible="0+"):
    """Value of a coordinator's record of type 23."""

    epoch: int = field("int32 0+", default=0)
    subtopologies: tuple[Subtopology, ...] = field("[]Subtopology 0+", default=())
