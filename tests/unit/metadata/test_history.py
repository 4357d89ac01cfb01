"""The history that a metadata log tells, and its sentences."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from headrace.core.ids import Uuid
from headrace.metadata.cause import Cause, CauseKind, encode_cause, encode_with_cause
from headrace.metadata.history import Happened, Historian, HistoryFault
from headrace.metadata.history_text import because, sentence
from headrace.metadata.image import EMPTY_IMAGE, RESOURCE_BROKER, RESOURCE_TOPIC
from headrace.records.control import ControlType
from headrace.wire.codec import encode
from headrace.wire.metadata_records.abort_transaction_record import AbortTransactionRecord
from headrace.wire.metadata_records.begin_transaction_record import BeginTransactionRecord
from headrace.wire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from headrace.wire.metadata_records.config_record import ConfigRecord
from headrace.wire.metadata_records.feature_level_record import FeatureLevelRecord
from headrace.wire.metadata_records.frame import encode_record
from headrace.wire.metadata_records.no_op_record import NoOpRecord
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from headrace.wire.metadata_records.partition_record import PartitionRecord
from headrace.wire.metadata_records.register_broker_record import RegisterBrokerRecord
from headrace.wire.metadata_records.register_controller_record import RegisterControllerRecord
from headrace.wire.metadata_records.remove_topic_record import RemoveTopicRecord
from headrace.wire.metadata_records.topic_record import TopicRecord
from headrace.wire.metadata_records.unregister_broker_record import UnregisterBrokerRecord
from headrace.wire.raft_records.leader_change_message import LeaderChangeMessage
from headrace.wire.schema import Message
from headrace.wire.versions import ApiKey
from tests.support.controller import CommittedAppend

TOPIC = Uuid(bytes([7]) * 16)
MADE = (
    TopicRecord(name="orders", topic_id=TOPIC),
    PartitionRecord(partition_id=3, topic_id=TOPIC, replicas=(1, 2), isr=(1, 2), leader=2, leader_epoch=5),
)
REQUEST = Cause(
    kind=CauseKind.REQUEST,
    api_key=ApiKey.CREATE_TOPICS,
    principal="User:alice",
    client_id="c",
    client_host="10.0.0.1",
    through=2,
)


def batch(at: int, records: Sequence[Message], cause: Cause | None = None) -> CommittedAppend:
    """A batch whose first record carries the cause."""
    data = [encode_record(each, 2 if isinstance(each, PartitionChangeRecord) else 0) for each in records]
    if cause is not None:
        data[0] = encode_with_cause(records[0], 0, encode_cause(cause))
    return CommittedAppend(at, tuple(data), 9, 1_000 + at)


def told(*batches: CommittedAppend) -> list[Happened]:
    historian = Historian()
    return [event for each in batches for event in historian.tell(each)]


def lines(*batches: CommittedAppend) -> list[str]:
    return [f"{event.offset}: {sentence(event)}" for event in told(*batches)]


def change(**fields: object) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=3, topic_id=TOPIC, **fields)  # type: ignore[arg-type]


def test_the_history_of_a_partition_says_who_led_when_and_why() -> None:
    """S3-08: in the order of offsets; a cause holds for the batch that it begins, and for nothing behind it."""
    fence = Cause(kind=CauseKind.CONNECTION_REFUSED, broker_id=2)
    found = lines(
        batch(10, MADE, REQUEST),
        batch(12, [change(leader=1, isr=(1,))], fence),
        batch(13, [NoOpRecord()]),
        batch(14, [change(isr=(1, 2))]),
        batch(15, [RemoveTopicRecord(topic_id=TOPIC)], Cause(kind=CauseKind.REQUEST, api_key=ApiKey.DELETE_TOPICS)),
    )
    by_alice = "because User:alice asked for CreateTopics (client id c, from 10.0.0.1, through broker 2)"
    assert found == [
        f"10: topic orders created {by_alice}",
        f"11: orders-3 created: leader 2, replicas 1,2, ISR 1,2 {by_alice}",
        "12: leader of orders-3: 2 -> 1 (leader epoch 5 -> 6); ISR of orders-3: 1,2 -> 1 because broker 2 was fenced: its connections were refused",
        "14: ISR of orders-3: 1 -> 1,2 (nobody wrote why)",
        "15: topic orders deleted because a client asked for DeleteTopics",
    ]


def test_the_steps_of_a_reassignment_are_told_apart() -> None:
    """S3-43: begun, another target, complete, cancelled."""
    begun = change(replicas=(3, 1, 2), adding_replicas=(3,), removing_replicas=(2,))
    other = change(replicas=(4, 1, 2), adding_replicas=(4,), removing_replicas=(2,))
    done = change(replicas=(4, 1), adding_replicas=(), removing_replicas=(), isr=(1, 4), leader=1)
    undone = change(replicas=(1, 2), adding_replicas=(), removing_replicas=())
    texts = [each.partition(": ")[2] for each in lines(batch(0, [*MADE, begun, other, done]))][2:]
    assert [each.replace(" (nobody wrote why)", "") for each in texts] == [
        "reassignment of orders-3 begins: adding 3, removing 2",
        "reassignment of orders-3 gets another target: adding 4, removing 2",
        "leader of orders-3: 2 -> 1 (leader epoch 5 -> 6); reassignment of orders-3 is complete: replicas 4,1,2 -> 4,1; ISR of orders-3: 1,2 -> 1,4",
    ]
    assert "reassignment of orders-3 is cancelled: replicas 3,1,2 -> 1,2" in lines(batch(0, [*MADE, begun, undone]))[-1]


def test_an_unclean_leader_is_told_as_one() -> None:
    """S3-01, inv:C11: records may be lost."""
    lost, elected = change(isr=(2,), leader=-1), change(leader=1, isr=(1,), leader_recovery_state=1)
    texts = lines(batch(0, [*MADE, lost, elected]))
    assert "leader of orders-3: 2 -> none (leader epoch 5 -> 6)" in texts[2]
    assert "leader of orders-3: none -> 1 (leader epoch 6 -> 7, unclean: records may be lost)" in texts[3]


def test_who_may_still_lead_is_told_whatever_else_changes() -> None:
    """C10, KIP-966: so that one sees why a broker that is back is not elected, though its registration notes a new directory, too."""
    out = change(leader=1, isr=(1,), eligible_leader_replicas=(2,))
    back = change(eligible_leader_replicas=(), directories=(TOPIC, Uuid(bytes([8]) * 16)))
    texts = lines(batch(0, [*MADE, out, back]))
    assert "ISR of orders-3: 1,2 -> 1; eligible leader replicas of orders-3: none -> 2" in texts[2]
    assert "directories of orders-3 were noted; eligible leader replicas of orders-3: 2 -> none" in texts[3]


def test_settings_are_told_but_no_secrets() -> None:
    """A password that was set does not stand in a history."""
    records = [
        ConfigRecord(resource_type=RESOURCE_TOPIC, resource_name="orders", name="retention.ms", value="5"),
        ConfigRecord(resource_type=RESOURCE_TOPIC, resource_name="orders", name="retention.ms", value=None),
        ConfigRecord(resource_type=RESOURCE_BROKER, resource_name="", name="log.cleaner.threads", value="2"),
        ConfigRecord(resource_type=RESOURCE_BROKER, resource_name="1", name="ssl.key.password", value="s3cret"),
        ConfigRecord(resource_type=RESOURCE_BROKER, resource_name="1", name="listener.name.x.ssl.key.password", value="s3cret"),
    ]  # fmt: skip
    texts = [each.partition(": ")[2].removesuffix(" (nobody wrote why)") for each in lines(batch(0, records))]
    assert texts == [
        "setting retention.ms of topic orders: not set -> 5",
        "setting retention.ms of topic orders: 5 -> not set",
        "setting log.cleaner.threads of all brokers: not set -> 2",
        "setting ssl.key.password of broker 1: not set -> [hidden]",
        "setting listener.name.x.ssl.key.password of broker 1: not set -> [hidden]",
    ]
    assert [event.broker for event in told(batch(0, records))] == [-1, -1, -1, 1, 1]


def test_a_transaction_that_is_taken_back_leaves_nothing() -> None:
    """KIP-868, inv:C4: what it held did not happen."""
    begin, abort = BeginTransactionRecord(name="x"), AbortTransactionRecord(reason="y")
    historian = Historian()
    before = historian.image
    events = list(
        historian.tell(batch(0, [begin, FeatureLevelRecord(name="metadata.version", feature_level=30), abort]))
    )
    assert [event.what for event in events] == ["feature", "transaction-aborted"]
    assert historian.image.features == before.features


def test_the_leaders_of_the_quorum_stand_in_the_same_order() -> None:
    """S3-38: epochs of the quorum with their leaders."""
    key = bytes((0, 0, 0, ControlType.LEADER_CHANGE))
    value = encode(LeaderChangeMessage(version=0, leader_id=4), 0)
    [event] = Historian().tell_control(CommittedAppend(20, (), 11, 5), [(key, value)])
    assert (event.offset, event.epoch, sentence(event)) == (20, 11, "node 4 leads the metadata quorum in epoch 11")


def registered(incarnation: int, epoch: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(broker_id=3, incarnation_id=Uuid(bytes([incarnation]) * 16), broker_epoch=epoch)


def test_a_process_that_registers_again_is_told_from_one_that_was_started() -> None:
    """S3-08, S1-73: by its incarnation id, also when it was unregistered meanwhile; without all of the log a first one may be either."""
    cause = Cause(kind=CauseKind.REGISTERED, broker_id=3)
    asked = Cause(kind=CauseKind.REQUEST, api_key=ApiKey.UNREGISTER_BROKER, broker_id=3)
    log = [
        batch(0, [registered(1, 0)], cause),
        batch(1, [UnregisterBrokerRecord(broker_id=3, broker_epoch=0)], asked),
        batch(2, [registered(1, 2)], cause),
        batch(3, [registered(1, 3)], cause),
        batch(4, [registered(2, 4)], cause),
    ]
    assert lines(*log) == [
        "0: broker 3 registered (broker epoch 0) because it was started",
        "1: broker 3 is not registered any more because a client asked for broker 3 to be unregistered",
        "2: broker 3 registered (broker epoch 2) because its process registered again",
        "3: broker 3 registered (broker epoch 3) because its process registered again",
        "4: broker 3 registered (broker epoch 4, in place of its former process) because it was started",
    ]
    historian = Historian()
    historian.load_snapshot(EMPTY_IMAGE)
    [first] = historian.tell(log[0])
    assert sentence(first) == "broker 3 registered (broker epoch 0) because its process asked for it"


def test_a_controller_that_registers_again_is_told_from_one_that_was_started() -> None:
    """S3-08, KIP-919: the first registration may come long after the start, with a metadata.version that has it."""
    cause = Cause(kind=CauseKind.CONTROLLER_REGISTERED, broker_id=5)
    records = [RegisterControllerRecord(controller_id=5, incarnation_id=Uuid(bytes([each]) * 16)) for each in (1, 1, 2)]
    assert [each.partition(" because ")[2] for each in lines(batch(0, records, cause))] == [
        "its process asked for it", "its process registered again", "it was started",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "fenced", "text"),
    [
        (CauseKind.CONNECTION_REFUSED, 1, "broker 3 is fenced because its connections were refused"),
        (CauseKind.SESSION_EXPIRED, 1, "broker 3 is fenced because it sent no heartbeat for its session timeout"),
        (CauseKind.OWN_WISH, 1, "broker 3 is fenced because it asked for that"),
        (CauseKind.SHUT_DOWN, 1, "broker 3 is fenced because it has shut down"),
        (CauseKind.UNFENCED, -1, "broker 3 is unfenced because it has caught up"),
    ],
)
def test_a_reason_does_not_say_the_event_again(kind: CauseKind, fenced: int, text: str) -> None:
    """S3-08."""
    change = BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=0, fenced=fenced)
    assert lines(batch(0, [registered(1, 0)]), batch(1, [change], Cause(kind=kind, broker_id=3)))[1:] == [f"1: {text}"]


def test_directories_of_a_broker_are_told_when_something_changed() -> None:
    """KIP-1066: that none is cordoned is taken for granted, and said with each registration."""
    first, second = Uuid(bytes([8]) * 16), Uuid(bytes([9]) * 16)
    cause = Cause(kind=CauseKind.DIRECTORIES_CORDONED, broker_id=3)

    def cordoned(at: int, *directories: Uuid) -> CommittedAppend:
        record = BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=0, cordoned_log_dirs=directories)
        data = encode_with_cause(record, 3, encode_cause(cause))
        return CommittedAppend(at, (data,), 9, 1_000 + at)

    made = RegisterBrokerRecord(broker_id=3, broker_epoch=0, log_dirs=(first, second))
    log = CommittedAppend(0, (encode_record(made, 4),), 9, 1_000)
    assert lines(log, cordoned(1), cordoned(2, first), cordoned(3, first), cordoned(4))[1:] == [
        "2: log directories of broker 3 that take no new replicas: 0 -> 1 because it said so",
        "4: log directories of broker 3 that take no new replicas: 1 -> 0 because it said so",
    ]


def test_who_is_concerned() -> None:
    """S3-37: a broker that gains or loses a role or a replica, or that is the cause; not one that stays what it was."""
    first, second = told(batch(0, [*MADE]), batch(2, [change(leader=1, isr=(1,))], Cause(kind=2, broker_id=9)))[1:]
    assert [second.concerns(each) for each in (1, 2, 3, 9)] == [True, True, False, True]
    assert [first.concerns(each) for each in (1, 2, 3)] == [True, True, False]


def test_every_kind_of_cause_has_its_sentence_and_later_ones_are_left_alone() -> None:
    """docs/history.md: kinds that this version does not know are said to be so."""
    texts = {because(Cause(kind=kind, broker_id=7, api_key=ApiKey.CREATE_TOPICS)) for kind in CauseKind}
    assert len(texts) == len(CauseKind)
    assert all(each.startswith("because ") for each in texts)
    assert because(Cause(kind=99)) == "because of something that this version does not know (kind 99)"
    assert (
        because(Cause(kind=1, api_key=ApiKey.ELECT_LEADERS, election=1))
        == "because a client asked for an unclean election"
    )


def test_a_record_that_makes_no_sense_ends_it_with_its_offset() -> None:
    """inv:C18: nothing is guessed."""
    with pytest.raises(HistoryFault, match="the record at offset 5"):
        told(batch(5, [change(leader=1)]))
    with pytest.raises(HistoryFault, match="the record at offset 5"):
        told(CommittedAppend(5, (b"\x01\x7f\x00\x00",), 1))
