"""Groups and offsets as they are written in the offsets topic and read back.

A key begins with its type in two bytes: 0 and 1 an offset, 2 a classic group. Other types are those of other kinds of group; they are left alone, as
Kafka leaves types that it does not know. A value begins with its version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from headrace.coordinator.groups.group import ClassicGroup, GroupState, MemberTally
from headrace.coordinator.groups.image import (
    EMPTY_IMAGE,
    NO_PRODUCER,
    CommittedOffset,
    GroupsImage,
    GroupStored,
    OffsetKey,
    OffsetStored,
    StoredRecord,
    end_transaction,
    replay,
)
from headrace.coordinator.groups.member import Member
from headrace.coordinator.runtime.events import LogRecord
from headrace.core.errors import DecodeError
from headrace.wire.codec import decode, encode, encode_into
from headrace.wire.group_records.group_metadata_key import GroupMetadataKey
from headrace.wire.group_records.group_metadata_value import GroupMetadataValue, MemberMetadata
from headrace.wire.group_records.legacy_offset_commit_value import LegacyOffsetCommitValue
from headrace.wire.group_records.offset_commit_key import OffsetCommitKey
from headrace.wire.group_records.offset_commit_value import OffsetCommitValue

LEGACY_OFFSET_KEY, OFFSET_KEY, GROUP_KEY = 0, 1, 2
GROUP_VALUE_VERSION = 3
OFFSET_VALUE_VERSION = 4
EXPIRING_OFFSET_VALUE_VERSION = 1
_HIGHEST_VALUE_VERSION = 4
MOST_GROUP_BYTES = 8 << 20
"""Eight times what a topic takes unless told otherwise. What is more takes longer to be written than one turn may."""
_SHORT = 2
_PARTITION = 4


class GroupRules:
    """Records of groups and positions for the runtime of coordinators: as bytes here, what they mean in `image.replay`."""

    def empty(self) -> GroupsImage:
        """No groups."""
        return EMPTY_IMAGE

    def read(self, record: LogRecord) -> StoredRecord | None:
        """What a record says, or None when it is of a kind that we do not know; raises DecodeError on damage."""
        return read_record(record.key, record.value)

    def written(self, record: StoredRecord) -> LogRecord:
        """The record as it lies in the log. Source: GroupMetadataValue 3; OffsetCommitValue 4, or 1 when it has an expiry of its own."""
        if isinstance(record, GroupStored):
            key, value = _key(GroupMetadataKey(group=record.group_id), GROUP_KEY), record.value
            return LogRecord(key, None if value is None else _versioned(value, GROUP_VALUE_VERSION))
        return LogRecord(_offset_key(record.key), None if record.value is None else _offset_value(record.value))

    def replay(
        self, state: GroupsImage, records: Iterable[StoredRecord], producer_id: int = NO_PRODUCER
    ) -> GroupsImage:
        """The image after these records."""
        return replay(state, records, producer_id)

    def end_transaction(self, state: GroupsImage, producer_id: int, *, is_committed: bool) -> GroupsImage:
        """The image after a transaction ended."""
        return end_transaction(state, producer_id, is_committed=is_committed)


def is_too_large(group: ClassicGroup, assignment: dict[str, bytes]) -> bool:
    """Whether the record of a group is larger than any topic of offsets takes: it is not even made (M6)."""
    said = sum(len(member.metadata(group.protocol_name)) for member in group.members.values())
    return said + sum(map(len, assignment.values())) > MOST_GROUP_BYTES


def group_record(group: ClassicGroup, assignment: dict[str, bytes]) -> GroupStored:
    """The record of a group as it is now, with `assignment` by member id."""
    members = tuple(
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata(group.protocol_name),
            assignment=assignment.get(member.member_id, b""),
        )
        for member in group.members.values()
    )
    return GroupStored(
        group.group_id,
        GroupMetadataValue(
            protocol_type=group.protocol_type or "",
            generation=group.generation_id,
            protocol=group.protocol_name,
            leader=group.leader_id,
            current_state_timestamp=_or_unknown(group.state_timestamp_ms),
            members=members,
        ),
    )


def new_group_record(group: ClassicGroup) -> GroupStored:
    """The record that says no more than that a group exists."""
    return GroupStored(
        group.group_id,
        GroupMetadataValue(
            protocol_type="",
            generation=0,
            protocol=None,
            leader=None,
            current_state_timestamp=_or_unknown(group.state_timestamp_ms),
            members=(),
        ),
    )


def read_record(key: bytes, value: bytes | None) -> StoredRecord | None:
    """What a record means, or None when it is of a kind that we do not know; raises DecodeError on damage."""
    kind = _leading_short(key)
    if kind == GROUP_KEY:
        group_key = decode(GroupMetadataKey, key[_SHORT:], 0)
        return GroupStored(group_key.group, None if value is None else read_group_value(value))
    if kind in (LEGACY_OFFSET_KEY, OFFSET_KEY):
        stored_key = decode(OffsetCommitKey, key[_SHORT:], 0)
        offset_key = OffsetKey(stored_key.group, stored_key.topic, stored_key.partition)
        return OffsetStored(
            offset_key, None if value is None else _read_offset(value, is_legacy=kind == LEGACY_OFFSET_KEY)
        )
    return None


def read_group_value(value: bytes) -> GroupMetadataValue:
    """The value of a group's record; raises DecodeError."""
    return decode(GroupMetadataValue, value[_SHORT:], _value_version(value))


def restored_group(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group that a record describes: Stable with members, Empty without."""
    group = group_to_restore(group_id, value)
    for _ in restored_members(group, value):
        pass
    return group


def group_to_restore(group_id: str, value: GroupMetadataValue, *, tally: MemberTally | None = None) -> ClassicGroup:
    """The same before its members are restored."""
    stamp = value.current_state_timestamp
    group = ClassicGroup(group_id, wall_ms=None if stamp == -1 else stamp, tally=tally)
    group.generation_id = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    group.leader_id = value.leader
    return group


def restored_members(group: ClassicGroup, value: GroupMetadataValue) -> Iterator[Member]:
    """The members that a record describes, each in its group when it comes; the group is whole behind the last one."""
    for stored in value.members:
        rebalance_timeout = stored.session_timeout if stored.rebalance_timeout == -1 else stored.rebalance_timeout
        member = Member(
            stored.member_id,
            client=(stored.client_id, stored.client_host),
            timeouts_ms=(rebalance_timeout, stored.session_timeout),
            protocol_type=value.protocol_type,
            protocols=[(value.protocol or "", bytes(stored.subscription))],
            group_instance_id=stored.group_instance_id,
        )
        member.assignment = bytes(stored.assignment)
        if member.group_instance_id not in group.static_members:
            group.add(member)
            yield member
    if group.members:
        group.state = GroupState.STABLE
        group.previous_state = GroupState.COMPLETING_REBALANCE
        if group.leader_id not in group.members:
            group.leader_id = next(iter(group.members))
    group.refresh_subscription()


def _read_offset(value: bytes, *, is_legacy: bool) -> CommittedOffset:
    version = _value_version(value)
    if is_legacy and version == 0:
        legacy = decode(LegacyOffsetCommitValue, value[_SHORT:], 0)
        return CommittedOffset(legacy.offset, -1, legacy.metadata, legacy.commit_timestamp)
    read = decode(OffsetCommitValue, value[_SHORT:], version)
    return CommittedOffset(
        read.offset,
        read.leader_epoch,
        read.metadata,
        read.commit_timestamp,
        expire_timestamp_ms=read.expire_timestamp,
        topic_id=read.topic_id,
    )


def _offset_value(value: CommittedOffset) -> bytes:
    message = OffsetCommitValue(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        commit_timestamp=value.commit_timestamp_ms,
        expire_timestamp=value.expire_timestamp_ms,
        topic_id=value.topic_id,
    )
    return _versioned(
        message, EXPIRING_OFFSET_VALUE_VERSION if value.expire_timestamp_ms != -1 else OFFSET_VALUE_VERSION
    )


def _offset_key(key: OffsetKey) -> bytes:
    return _offset_key_start(key.group_id, key.topic) + key.partition.to_bytes(_PARTITION, "big", signed=True)


@lru_cache(maxsize=128)
def _offset_key_start(group_id: str, topic: str) -> bytes:
    """The key up to the partition, which stands last: a group commits the same partitions over and over."""
    return _key(OffsetCommitKey(group=group_id, topic=topic, partition=0), OFFSET_KEY)[:-_PARTITION]


def _key(message: Any, kind: int) -> bytes:
    return kind.to_bytes(_SHORT, "big") + encode(message, 0)


def _versioned(message: Any, version: int) -> bytes:
    out = bytearray(version.to_bytes(_SHORT, "big"))
    encode_into(message, version, out)
    return bytes(out)


def _leading_short(data: bytes) -> int:
    if len(data) < _SHORT:
        raise DecodeError("a key or value of the offsets topic begins with two bytes")
    return int.from_bytes(data[:_SHORT], "big", signed=True)


def _value_version(value: bytes) -> int:
    version = _leading_short(value)
    if not 0 <= version <= _HIGHEST_VALUE_VERSION:
        raise DecodeError(f"value version {version} is unknown")
    return version


def _or_unknown(timestamp_ms: int | None) -> int:
    return -1 if timestamp_ms is None else timestamp_ms
