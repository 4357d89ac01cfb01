"""Which requests of clients are sent to Kafka and to Headrace alike, one after the other, to compare the whole answers?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from headrace.wire.messages.describe_cluster import DescribeClusterRequest
from headrace.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from headrace.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    RequestCursor,
    TopicRequest,
)
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from headrace.wire.schema import Message

UNKNOWN = Uuid(b"0123456789abcdef")
FULL, EMPTY, COMPACTED, KEPT = "same-full", "same-none", "same-compacted", "same-kept"
"""Topics: three partitions of which two have records, two empty ones, one that is compacted, one without a cleanup policy."""

Ids = dict[str, Uuid]


class Question(NamedTuple):
    """A request in one version, and what it asks in words."""

    title: str
    request: Message
    version: int


def questions(ids: Ids) -> Iterator[Question]:
    """All of them; what deletes comes last. `ids` are those that this broker gave to the topics."""
    yield from _pages()
    yield from _metadata(ids)
    yield from _offsets()
    yield from _epochs()
    yield from _cluster()
    yield from _fetches(ids)
    yield from _fetches_with_epochs(ids)
    yield from _sessions(ids)
    yield from _log_dirs()
    yield from _deletions()


def _pages() -> Iterator[Question]:
    def ask(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Question:
        request = DescribeTopicPartitionsRequest(
            topics=tuple(TopicRequest(name=name) for name in names),
            response_partition_limit=limit,
            cursor=None if cursor is None else RequestCursor(topic_name=cursor[0], partition_index=cursor[1]),
        )
        return Question(f"pages of {names} limit {limit} cursor {cursor}", request, 0)

    for limit in (-1, 0, 1, 2, 3, 4, 5, 2000):
        yield ask(FULL, EMPTY, limit=limit)
        yield ask(FULL, "zzz", limit=limit)
        yield ask("aaa", FULL, limit=limit)
    for place in (-1, 0, 1, 3, 9):
        yield ask(FULL, EMPTY, cursor=(FULL, place))
        yield ask(FULL, EMPTY, cursor=(FULL, place), limit=1)
    for cursor in ((FULL, 0), ("zzz", 1), ("aaa", 1)):
        yield ask(EMPTY, cursor=cursor)
    yield ask("aaa", FULL, EMPTY, cursor=("aaa", 1))
    yield ask("aaa", FULL, EMPTY, cursor=("aaa", 1), limit=1)
    yield ask("a/b", FULL, FULL, "__share_group_state")


def _metadata(ids: Ids) -> Iterator[Question]:
    def ask(version: int, *topics: MetadataRequestTopic, operations: bool = False) -> Question:
        request = MetadataRequest(
            topics=topics,
            allow_auto_topic_creation=version < 4,
            include_topic_authorized_operations=operations,
        )
        return Question(f"metadata of {topics}", request, version)

    def by_name(name: str) -> MetadataRequestTopic:
        return MetadataRequestTopic(name=name)

    def by_id(topic_id: Uuid) -> MetadataRequestTopic:
        return MetadataRequestTopic(topic_id=topic_id, name=None)

    for version in range(14):
        yield ask(version, by_name(FULL), by_name(EMPTY), by_name(FULL))
    for version in (4, 8, 10, 12, 13):
        yield ask(version, by_name("zzz"), by_name("a/b"), by_name(""), by_name("__share_group_state"))
    for version in (8, 13):
        yield ask(version, by_name(FULL), by_name("zzz"), operations=True)
    for version in (12, 13):
        yield ask(version, by_id(ids[FULL]), by_id(UNKNOWN), by_id(ids[FULL]), operations=True)
        yield ask(version, by_id(ids[FULL]), by_name(EMPTY))
        yield ask(version, MetadataRequestTopic(topic_id=ids[FULL], name=EMPTY))
    for version in (10, 11):
        yield ask(version, MetadataRequestTopic(name=None))
        yield ask(version, MetadataRequestTopic(topic_id=ids[FULL], name=FULL))


def _offsets() -> Iterator[Question]:
    def ask(version: int, *asked: tuple[int, int, int], replica: int = -1, isolation: int = 0) -> Question:
        partitions = tuple(
            ListOffsetsPartition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch)
            for index, timestamp, epoch in asked
        )
        request = ListOffsetsRequest(
            replica_id=replica,
            isolation_level=isolation,
            topics=(ListOffsetsTopic(name=FULL, partitions=partitions), ListOffsetsTopic(name="zzz")),
        )
        return Question(f"offsets of {asked} for replica {replica}", request, version)

    for version in range(1, 12):
        for timestamp in (-1, -2, -3, -4, -5, -6, -7, -100, -(2**63), 0, 1_500, 2_000, 3_000, 2**63 - 1):
            yield ask(version, (0, timestamp, -1))
    for replica in (-3, -2, 0, 1, 5):
        for timestamp in (-1, -2, -3, 1000):
            yield ask(7, (0, timestamp, -1), replica=replica)
    for epoch in (-2, 0, 1, 100):
        yield ask(7, (0, -1, epoch))
    yield ask(7, (0, -1, -1), (1, -3, -1), isolation=1)
    yield ask(7, (0, -1, -1), (0, -2, -1), (1, -1, -1), (9, -1, -1), (-1, -1, -1))
    yield ask(7)


def _epochs() -> Iterator[Question]:
    for version in (2, 3, 4):
        for current in (-2, -1, 0, 1):
            for epoch in (-1, 0, 1, 2**31 - 1):
                asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
                unknown = OffsetForLeaderPartition(partition=9, current_leader_epoch=current, leader_epoch=epoch)
                topics = (
                    OffsetForLeaderTopic(topic=FULL, partitions=(asked, unknown)),
                    OffsetForLeaderTopic(topic="zzz", partitions=(asked,)),
                )
                request = OffsetForLeaderEpochRequest(replica_id=-1 if version > 2 else -2, topics=topics)
                yield Question(f"end of epoch {epoch} at {current}", request, version)


def _cluster() -> Iterator[Question]:
    for version in (1, 2):
        for kind in (0, 1, 2, 3):
            request = DescribeClusterRequest(endpoint_type=kind, include_cluster_authorized_operations=kind == 1)
            yield Question(f"cluster, endpoint type {kind}", request, version)
    for version in range(7):
        for kind in (0, 3, -1) if version else (0,):
            asked = {"key": "g"} if version < 4 else {"coordinator_keys": ("g", "", "g")}
            request_of: Any = FindCoordinatorRequest
            yield Question(f"coordinator of type {kind}", request_of(key_type=kind, **asked), version)


def _partition(index: int = 0, offset: int = 0, size: int = 1 << 20, **more: Any) -> FetchPartition:
    return FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=size, **more)


def _fetch(
    ids: Ids, version: int, *partitions: FetchPartition, topic: str = FULL, title: str = "", **more: Any
) -> Question:
    by_id = version >= 13
    topic_id = ids.get(topic, UNKNOWN) if topic else ZERO_UUID
    asked = FetchTopic(topic="" if by_id else topic, topic_id=topic_id if by_id else ZERO_UUID, partitions=partitions)
    given: dict[str, Any] = {"min_bytes": 1, "max_bytes": 1 << 20, "topics": (asked,), **more}
    return Question(f"fetch of {topic} {partitions} {more}{title}", FetchRequest(**given), version)


def _fetches(ids: Ids) -> Iterator[Question]:
    for version in range(4, 19):
        for offset in (-1, 0, 3, 4, 100):
            yield _fetch(ids, version, _partition(offset=offset))
        for size in (0, 1, 70, 100, 150, 200):
            yield _fetch(ids, version, _partition(size=size), _partition(1, size=size))
            yield _fetch(ids, version, _partition(), _partition(1), max_bytes=size)
        yield _fetch(ids, version, _partition(9), _partition(-1), _partition(), _partition(offset=1))
        yield _fetch(ids, version, _partition(), topic="zzz")
        yield _fetch(ids, version, _partition(), topic="")
        yield _fetch(ids, version, _partition(), isolation_level=1)
    for replica in (-2, 7):
        yield _fetch(ids, 12, _partition(), replica_id=replica)
    for least in (-1, 0, 2**31 - 1):
        yield _fetch(ids, 12, _partition(), min_bytes=least, max_wait_ms=50)


def _fetches_with_epochs(ids: Ids) -> Iterator[Question]:
    for version in (9, 12, 13, 16, 18):
        for epoch in (-2, 0, 1):
            yield _fetch(ids, version, _partition(current_leader_epoch=epoch))
    for version in (12, 13, 18):
        for epoch in (-2, 0, 1):
            for offset in (0, 2, 4, 100):
                yield _fetch(ids, version, _partition(offset=offset, last_fetched_epoch=epoch))


def _sessions(ids: Ids) -> Iterator[Question]:
    for version in (7, 12, 13, 18):
        for session, epoch in ((0, 1), (5, 0), (5, -1), (5, 1), (0, -2), (-3, 3)):
            yield _fetch(ids, version, _partition(), session_id=session, session_epoch=epoch)
        for epoch in (0, -1):
            nothing = FetchRequest(max_wait_ms=1000, min_bytes=1, session_epoch=epoch)
            yield Question(f"fetch of nothing, session epoch {epoch}", nothing, version)
        by_id = version >= 13
        gone = ForgottenTopic(topic="" if by_id else FULL, topic_id=ids[FULL] if by_id else ZERO_UUID, partitions=(0,))
        yield _fetch(ids, version, _partition(), title=", forgotten", forgotten_topics_data=(gone,))


def _log_dirs() -> Iterator[Question]:
    for version in range(1, 6):
        for topics in ({FULL: (0, 1)}, {"zzz": (0,), FULL: (9,)}, {}):
            asked = tuple(DescribableLogDirTopic(topic=name, partitions=given) for name, given in topics.items())
            yield Question(f"log directories of {topics}", DescribeLogDirsRequest(topics=asked), version)


def _deletions() -> Iterator[Question]:
    def ask(version: int, *asked: tuple[str, int, int]) -> Question:
        topics = tuple(
            DeleteRecordsTopic(
                name=name,
                partitions=tuple(
                    DeleteRecordsPartition(partition_index=index, offset=offset)
                    for one, index, offset in asked
                    if one == name
                ),
            )
            for name in dict.fromkeys(name for name, _, _ in asked)
        )
        return Question(f"deletion of {asked}", DeleteRecordsRequest(topics=topics, timeout_ms=1000), version)

    for version in (0, 1, 2):
        for offset in (-2, 0, 100, 2**63 - 1, -(2**63)):
            yield ask(version, (FULL, 0, offset))
        yield ask(version, ("zzz", 0, 0), (FULL, 9, 0), (FULL, -1, 0), (FULL, 1, 0), (FULL, 1, 0))
        yield ask(
            version, (COMPACTED, 0, 0), (KEPT, 0, 0), ("__consumer_offsets", 0, 0), ("__consumer_offsets", 9999, 0)
        )
        yield ask(version)
    for offset in (1, 0, -1):
        yield ask(2, (FULL, 0, offset))
