"""Records of `__consumer_offsets` that Kafka 4.3.1 wrote: read, written again, shown, and loaded."""

from __future__ import annotations

from pathlib import Path

from headrace.coordinator.groups.config import GroupConfig
from headrace.coordinator.groups.dump import decode_offsets_record
from headrace.coordinator.groups.group import GroupState
from headrace.coordinator.groups.image import GroupStored
from headrace.coordinator.groups.machine import GroupCoordinator
from headrace.coordinator.groups.stored import GroupRules, group_record, new_group_record, read_record, restored_group
from headrace.coordinator.runtime.events import LoadedRecord, LoadFinished, RecordsLoaded
from headrace.coordinator.runtime.machine import Runtime
from headrace.core.ids import Uuid
from headrace.records.record import Record, all_records
from tests.unit.coordinator.group_bench import topics_of

HERE = Path(__file__).parent
TOPIC_ID = Uuid.parse("pdisWthpSCel8Ym0Qw0Hyg")


def stored() -> list[list[Record]]:
    """The records of each partition."""
    return [list(all_records((HERE / f"offsets-{partition}.log").read_bytes())) for partition in range(4)]


def rewritten(record: Record) -> tuple[bytes, bytes | None]:
    """The record as we would write what it says."""
    assert record.key is not None
    read = read_record(record.key, record.value)
    assert read is not None
    if isinstance(read, GroupStored) and read.value is not None:
        group = restored_group(read.group_id, read.value)
        is_new = not read.value.protocol_type
        assignment = {member.member_id: member.assignment for member in group.members.values()}
        read = new_group_record(group) if is_new else group_record(group, assignment)
    return GroupRules().written(read)


def test_what_kafka_wrote_is_what_we_write() -> None:
    """B-P06: byte for byte, all record types and versions that 4.3.1 writes for classic groups."""
    records = [record for partition in stored() for record in partition]
    assert len(records) == 35
    assert [rewritten(record) for record in records] == [(record.key, record.value) for record in records]


def test_records_are_shown_as_kafkas_tool_shows_them() -> None:
    """B-T09: kafka-dump-log --offsets-decoder, embedded subscriptions and assignments included."""
    shown = []
    for partition in stored():
        for record in partition:
            assert record.key is not None
            decoded = decode_offsets_record(record.key, record.value)
            assert decoded is not None
            shown.append(f"key: {decoded[0]} payload: {decoded[1]}")
    assert shown == (HERE / "decoded.txt").read_text().splitlines()


def loaded() -> dict[str, GroupCoordinator]:
    """For each group the coordinator that loaded its partition."""
    found = {}
    for partition in stored():
        machine = GroupCoordinator(GroupConfig())
        runtime = Runtime(machine, machine.shard)
        records = [LoadedRecord(record.offset, record.key, record.value) for record in partition]
        runtime.step(RecordsLoaded(records=records, producer_id=-1))
        runtime.step(LoadFinished(next_offset=len(records), now_ms=6))
        found.update(dict.fromkeys(machine.shard.groups, machine))
    return found


def test_a_coordinator_loads_what_kafka_wrote() -> None:
    """B-P06, G4: groups, members, assignments and positions; what was deleted stays away."""
    machines = loaded()
    assert {
        name: (machine.shard.groups[name].state, machine.shard.groups[name].generation_id)
        for name, machine in machines.items()
    } == {
        "": (GroupState.EMPTY, 0),
        "bad": (GroupState.EMPTY, 0),
        "byname": (GroupState.EMPTY, 0),
        "full": (GroupState.EMPTY, 2),
        "golden": (GroupState.STABLE, 1),
        "nullclient": (GroupState.EMPTY, 0),
        "retained": (GroupState.EMPTY, 0),
        "static": (GroupState.EMPTY, 3),
    }
    golden = machines["golden"].shard.groups["golden"]
    (member,) = golden.members.values()
    assert (golden.leader_id, golden.static_members) == (member.member_id, {"inst": member.member_id})
    assert (member.client_id, member.client_host, golden.subscribed) == ("a", "/127.0.0.1", frozenset({"alpha"}))
    positions = topics_of(machines["golden"].positions("golden"), [("alpha", TOPIC_ID, (0, 1))])[0].partitions
    assert [(p.committed_offset, p.metadata) for p in positions] == [(100, "grüße"), (101, "")]
    retained = machines["retained"].shard.committed.positions_of("retained")["alpha"][1]
    assert retained.expire_timestamp_ms - retained.commit_timestamp_ms == 86_400_000
