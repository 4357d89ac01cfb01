"""What a fetch of one partition gives, read now.

A hot file: it runs for every Fetch, and again for each that waits when something has moved.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.broker.broker import Broker
from headrace.broker.epoch_ends import end_of_epoch
from headrace.broker.partitions import HostedPartition, check_leader_epoch
from headrace.broker.read_replica import NO_OTHER, preferred_read_replica
from headrace.broker.throttles import must_wait
from headrace.core.error_code import ErrorCode
from headrace.core.errors import StorageFault
from headrace.core.ids import Uuid
from headrace.core.values import value_class
from headrace.log.ports import FileSlice, OutOfRange, PartitionLogPort
from headrace.replication.fetch_session import FetchSession, SessionPartition
from headrace.replication.leader import PartitionLeader
from headrace.rpc.reply import Pieces
from headrace.wire.fetch import encode_one_slice
from headrace.wire.produce import TopicName

READ_COMMITTED = 1
OF_NO_TOPIC = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
"""There is nothing under that name or id."""


@value_class
class FetchTerms:
    """What holds for all partitions of one fetch. `replica_id` -1 is a consumer; a follower is any other. Sizes are bytes.

    `is_former`: that follower's id lives in a later epoch (KIP-903). `may_read_copies`: a consumer that is served by followers too (KIP-392). `rack` is where it is, empty unless leaders here point to others.
    """

    replica_id: int
    replica_epoch: int
    max_bytes: int
    min_bytes: int
    isolation_level: int
    by_id: bool
    is_follower: bool
    is_former: bool = False
    may_read_copies: bool = False
    rack: str = ""
    listener: str = ""

    @property
    def is_plain(self) -> bool:
        """A consumer's of the usual kind: of a version with all that an answer may have, for what is committed, wherever it is."""
        return self.may_read_copies and not self.rack and self.isolation_level != READ_COMMITTED


@dataclass(slots=True)
class PartitionRead:
    """What one partition gives: a slice of its log, or an error. Offsets are -1 where they are unknown."""

    asked: SessionPartition
    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    data: FileSlice | None = None
    diverging_epoch: tuple[int, int] | None = None
    aborted: tuple[tuple[int, int], ...] | None = None
    hosted: HostedPartition | None = None
    leader: PartitionLeader | None = None
    """None when a follower was read."""
    leader_epoch: int = -1
    preferred: int = NO_OTHER
    """The replica to read from instead."""
    size: int = 0
    """Bytes of records."""


def is_told(read: PartitionRead) -> bool:
    """Whether an answer within a session speaks of it though its offsets are known: it has records, or it failed."""
    return bool(read.size > 0 or read.error or read.diverging_epoch is not None or read.preferred != NO_OTHER)


def must_answer(read: PartitionRead) -> bool:
    """Whether it answers its fetch, whatever `min_bytes` says: it failed, or it has more than it may give at once, so that waiting brings nothing."""
    if read.error or read.diverging_epoch is not None or read.preferred != NO_OTHER:
        return True
    return read.data is not None and read.data.has_more


def find(asked: SessionPartition, terms: FetchTerms, broker: Broker) -> HostedPartition | ErrorCode:
    """The partition, led here or a copy that may be read, under the id or name that was asked for (P14). One that is withheld from clients is there for replicas."""
    partitions, number = broker.partitions, asked.partition
    name = asked.topic or ""
    hosted = partitions.by_id.get((asked.topic_id, number)) if terms.by_id else partitions.get(name, number)
    if (
        hosted is not None
        and (not hosted.is_withheld or terms.is_follower)
        and (hosted.leader is not None or (terms.may_read_copies and hosted.copy_to_read(broker.node_id) is not None))
    ):
        return hosted
    if terms.by_id:
        return partitions.leading_by_id(
            Uuid(asked.topic_id),
            number,
            broker.image,
            current_leader_epoch=asked.current_leader_epoch,
            known_as=asked.topic,
        )
    return partitions.leading(name, number, broker.image, current_leader_epoch=asked.current_leader_epoch)


def read_partition(
    asked: SessionPartition, terms: FetchTerms, broker: Broker, *, limit: int, min_one_batch: bool
) -> PartitionRead:
    """Read one partition. Nothing at or above the high watermark, or the last stable offset, is shown to consumers (P17)."""
    read = PartitionRead(asked)
    hosted = find(asked, terms, broker)
    if isinstance(hosted, ErrorCode):
        read.error = hosted
        return read
    leader, log = hosted.leader, hosted.log
    assert log is not None, "what may be read has a log"
    read.hosted = hosted
    hosted.traffic.fetches += 1
    read.leader = leader
    read.leader_epoch = hosted.leader_epoch
    if asked.current_leader_epoch >= 0:
        read.error = check_leader_epoch(asked.current_leader_epoch, hosted.leader_epoch)
    if not read.error and terms.is_follower and (leader is None or terms.replica_id not in leader.followers):
        is_known = (
            asked.current_leader_epoch >= 0
        )  # then the two are of one epoch, and only the replica is new to the leader
        read.error = ErrorCode.UNKNOWN_LEADER_EPOCH if is_known else ErrorCode.NOT_LEADER_OR_FOLLOWER
    if read.error:
        return read
    high_watermark = log.high_watermark
    last_stable = log.last_stable_offset
    if terms.rack and leader is not None:
        read.preferred = preferred_read_replica(
            leader, broker, rack=terms.rack, fetch_offset=asked.fetch_offset, listener=terms.listener
        )
    if read.preferred == NO_OTHER:
        _read_here(read, log, terms, broker, limit=limit, min_one_batch=min_one_batch)
        if (
            terms.is_follower
            and hosted.is_throttled_leader
            and must_wait(hosted, terms.replica_id, broker.leader_quota, broker.now_ms())
        ):
            read.data, read.size = None, 0
    if terms.is_former and not read.error and read.diverging_epoch is None:
        read.error, read.data, read.size = ErrorCode.NOT_LEADER_OR_FOLLOWER, None, 0
    if not read.error:
        read.high_watermark = high_watermark
        read.last_stable_offset = last_stable
        read.log_start_offset = log.log_start_offset
    return read


def _read_here(
    read: PartitionRead, log: PartitionLogPort, terms: FetchTerms, broker: Broker, *, limit: int, min_one_batch: bool
) -> None:
    """The slice that may be shown, or where the asker's history parts from this one."""
    if read.asked.last_fetched_epoch >= 0:
        _compare_histories(read, log)
    if terms.is_follower:
        upper = log.log_end_offset
    else:
        upper = log.last_stable_offset if terms.isolation_level == READ_COMMITTED else log.high_watermark
    if not read.error and read.diverging_epoch is None:
        try:
            _read_log(read, log, terms, limit=limit, upper=upper, min_one_batch=min_one_batch)
        except StorageFault as fault:
            broker.unreadable(fault)
            read.error = ErrorCode.KAFKA_STORAGE_ERROR


def _read_log(
    read: PartitionRead, log: PartitionLogPort, terms: FetchTerms, *, limit: int, upper: int, min_one_batch: bool
) -> None:
    """The slice below `upper`, and for read-committed consumers what was aborted in it. Raises StorageFault."""
    offset = read.asked.fetch_offset
    data = log.read_slice(offset, limit, upper_offset=upper, min_one_batch=min_one_batch)
    if isinstance(data, OutOfRange):
        read.error = ErrorCode.OFFSET_OUT_OF_RANGE
        return
    read.data = data
    read.size = data.size
    if terms.isolation_level == READ_COMMITTED and not terms.is_follower:
        aborted = log.aborted_transactions(offset, upper)
        read.aborted = tuple((each.producer_id, each.first_offset) for each in aborted)


def _compare_histories(read: PartitionRead, log: PartitionLogPort) -> None:
    """KIP-595: where the reader's history and ours part, if they do; a reader before our log's start has nothing in common with it."""
    asked = read.asked
    end = end_of_epoch(log, asked.last_fetched_epoch, leader_epoch=-1 if read.leader is None else read.leader_epoch)
    if end is None or asked.fetch_offset < log.log_start_offset:
        read.error = ErrorCode.OFFSET_OUT_OF_RANGE
    elif end.epoch < asked.last_fetched_epoch or end.offset < asked.fetch_offset:
        read.diverging_epoch = (end.epoch, end.offset)


def read_for_consumer(
    asked: SessionPartition, session: FetchSession, bounds: tuple[int, int], version: int, broker: Broker
) -> Pieces | None:
    """The whole answer of a fetch for which one partition was looked at, to a consumer that reads what is committed: its records, if there are enough now; else None, and nothing is changed.

    `bounds` are the fewest bytes that are enough and the most there may be. Hot path.
    """
    partitions = broker.partitions
    topic: TopicName
    if session.by_id:
        topic = asked.topic_id  # type: ignore[assignment] # of the request's own class
        hosted = partitions.by_id.get((asked.topic_id, asked.partition))
    else:
        topic = asked.topic or ""
        hosted = partitions.by_name.get((topic, asked.partition))
    if (
        hosted is None
        or hosted.is_withheld
        or asked.last_fetched_epoch >= 0
        or asked.current_leader_epoch not in (-1, hosted.leader_epoch)
    ):
        return None
    leader = hosted.leader
    log = hosted.copy_to_read(broker.node_id) if leader is None else leader.log
    if log is None:
        return None
    offset, high_watermark = asked.fetch_offset, log.high_watermark
    if offset >= high_watermark:
        return None
    least, most = bounds
    if asked.max_bytes < most:
        most = asked.max_bytes
    try:
        data = log.read_slice(offset, most, upper_offset=high_watermark, min_one_batch=True)
    except StorageFault:
        return None
    if type(data) is not FileSlice or not data[2] or (data[2] < least and not data[5]):
        return None
    asked.told_high_watermark = high_watermark
    asked.told_log_start_offset = log_start = log.log_start_offset
    session.served(asked)
    traffic = hosted.traffic
    traffic.bytes_out += data[2]
    traffic.fetches += 1
    known = session.known
    if known is not None and known.asked is asked and known.version == version:
        return known.write(high_watermark, log.last_stable_offset, log_start, data)
    offsets = (high_watermark, log.last_stable_offset, log_start)
    return encode_one_slice(version, topic, asked.partition, offsets, data, (0, session.id))


def read_for_follower(
    asked: SessionPartition, session: FetchSession, terms: FetchTerms, version: int, broker: Broker
) -> Pieces | None:
    """The same to a replica that follows this leader in its own epoch: what it does not have yet, committed or not."""
    partitions = broker.partitions
    topic: TopicName
    if session.by_id:
        topic = asked.topic_id  # type: ignore[assignment] # of the request's own class
        hosted = partitions.by_id.get((asked.topic_id, asked.partition))
    else:
        topic = asked.topic or ""
        hosted = partitions.by_name.get((topic, asked.partition))
    if (
        hosted is None
        or (leader := hosted.leader) is None
        or hosted.is_throttled_leader
        or terms.is_former
        or terms.replica_id not in leader.followers
        or asked.current_leader_epoch not in (-1, hosted.leader_epoch)
        or asked.last_fetched_epoch not in (-1, hosted.leader_epoch)
    ):
        return None
    log = leader.log
    offset, end = asked.fetch_offset, log.log_end_offset
    if offset >= end:
        return None
    most = min(asked.max_bytes, terms.max_bytes)
    try:
        data = log.read_slice(offset, most, upper_offset=end, min_one_batch=True)
    except StorageFault:
        return None
    if type(data) is not FileSlice or not data[2] or (data[2] < terms.min_bytes and not data[5]):
        return None
    partitions.replication_bytes_out += data[2]
    hosted.traffic.fetches += 1
    asked.told_high_watermark = high_watermark = log.high_watermark
    asked.told_log_start_offset = log_start = log.log_start_offset
    session.served(asked)
    offsets = (high_watermark, log.last_stable_offset, log_start)
    return encode_one_slice(version, topic, asked.partition, offsets, data, (0, session.id))


def only_offsets_moved(read: PartitionRead) -> bool:
    """Whether a follower that has all there is may be told other offsets than it was read with, and nothing else; then `read` has them."""
    hosted, log = read.hosted, None if read.hosted is None else read.hosted.log
    if (
        hosted is None
        or log is None
        or read.error
        or read.size
        or read.diverging_epoch is not None
        or hosted.leader is not read.leader
        or hosted.leader_epoch != read.leader_epoch
        or log.log_end_offset != read.asked.fetch_offset
    ):
        return False
    read.high_watermark = log.high_watermark
    read.last_stable_offset = log.last_stable_offset
    read.log_start_offset = log.log_start_offset
    return True


def has_news(read: PartitionRead, terms: FetchTerms) -> bool:
    """Cheap test whether a waiting fetch is worth reading again: this partition has more, or another role."""
    hosted = read.hosted
    if hosted is None or (hosted.is_withheld and not terms.is_follower):
        return True
    log = hosted.log
    if log is None or hosted.leader is not read.leader or hosted.leader_epoch != read.leader_epoch:
        return True
    if terms.is_follower:
        return log.log_end_offset > read.asked.fetch_offset or log.high_watermark != read.high_watermark
    upper = log.last_stable_offset if terms.isolation_level == READ_COMMITTED else log.high_watermark
    return upper > read.asked.fetch_offset
