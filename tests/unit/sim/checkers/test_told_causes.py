"""Made-up decisions with their causes: one that is missing or wrong is flagged, the right ones are not."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from headrace.controller.events import AppendRecords, BrokerUnreachable, TimeAdvanced
from headrace.core.ids import Uuid
from headrace.metadata.cause import Cause, CauseKind, encode_cause, encode_with_cause
from headrace.sim.checkers.controller_steps import ControllerSteps
from headrace.sim.checkers.told_causes import ToldCauses
from headrace.sim.observation import MachineStep
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.messages.create_topics import CreateTopicsRequest
from headrace.wire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from headrace.wire.metadata_records.no_op_record import NoOpRecord
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from headrace.wire.metadata_records.producer_ids_record import ProducerIdsRecord
from headrace.wire.metadata_records.topic_record import TopicRecord
from headrace.wire.schema import Message
from tests.support.histories import breaks
from tests.support.made_up_metadata import TOPIC, Reigning, framed, image_of, usual_records

GROUP = partial(ControllerSteps, judges=(ToldCauses,))
SILENT = Cause(kind=CauseKind.SESSION_EXPIRED, broker_id=1)
REFUSED = Cause(kind=CauseKind.CONNECTION_REFUSED, broker_id=1)
STOPPED = Cause(kind=CauseKind.SHUT_DOWN, broker_id=1)
ASKED = Cause(kind=CauseKind.REQUEST, api_key=CreateTopicsRequest.SCHEMA.api_key)
FENCE = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, fenced=1)
UNFENCE = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, fenced=-1)
STOPPING = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, in_controlled_shutdown=1)
MADE = TopicRecord(name="new", topic_id=Uuid(b"another-topic-id"))

Told = tuple[Message, Cause | None]


def decide(event: Any, *parts: list[Told]) -> None:
    """The controller takes an event of a usual cluster, and writes batches of records, some with a cause."""
    reign = Reigning(GROUP, image=image_of(*usual_records()))
    if event == "create":
        event = reign.request(CreateTopicsRequest())
    elif event == "heartbeat":
        event = reign.request(BrokerHeartbeatRequest(broker_id=1, broker_epoch=1, want_shut_down=True))
    effects = []
    for part in parts:
        records = tuple(
            framed(record)
            if cause is None
            else encode_with_cause(record, record.SCHEMA.versions.last, encode_cause(cause))
            for record, cause in part
        )
        effects.append(AppendRecords(records=records, base_offset=reign.next_offset, epoch=1))
        reign.next_offset += len(records)
    reign.step(1, machines=[MachineStep("controller", event, effects)])


TIME = TimeAdvanced(now_ms=5)
UNREACHABLE = BrokerUnreachable(broker_id=1, broker_epoch=1, now_ms=5)
LEAVES = PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=2)


@pytest.mark.parametrize(
    ("event", "parts"),
    [
        (TIME, [[(NoOpRecord(), None)]]),
        (TIME, [[(FENCE, SILENT)]]),
        (TIME, [[(LEAVES, SILENT), (FENCE, None)]]),
        (TIME, [[(LEAVES, SILENT)], [(FENCE, SILENT)]]),
        (UNREACHABLE, [[(FENCE, REFUSED)]]),
        ("heartbeat", [[(FENCE, STOPPED)]]),
        ("heartbeat", [[(UNFENCE, Cause(kind=CauseKind.UNFENCED, broker_id=1))]]),
        ("heartbeat", [[(STOPPING, Cause(kind=CauseKind.CONTROLLED_SHUTDOWN, broker_id=1))]]),
        ("create", [[(MADE, ASKED)]]),
    ],
)
def test_what_happened_is_told(event: Any, parts: list[list[Told]]) -> None:
    """inv:C27: once for a batch, each batch by itself; NoOpRecords come from nothing."""
    decide(event, *parts)


@pytest.mark.parametrize(
    ("event", "parts"),
    [
        ("create", [[(MADE, None)]]),
        (TIME, [[(LEAVES, SILENT)], [(FENCE, None)]]),
        (TIME, [[(FENCE, Cause(kind=CauseKind.SESSION_EXPIRED, broker_id=2))]]),
        (TIME, [[(LEAVES, Cause(kind=CauseKind.SESSION_EXPIRED, broker_id=9))]]),
        (TIME, [[(LEAVES, Cause(kind=CauseKind.BALANCING))]]),
        (TIME, [[(LEAVES, Cause(kind=CauseKind.UNCLEAN_TIMER))]]),
        (TIME, [[(LEAVES, Cause(kind=CauseKind.UNFENCED, broker_id=2))]]),
        (TIME, [[(ProducerIdsRecord(broker_id=2), Cause(kind=CauseKind.PRODUCER_IDS, broker_id=1))]]),
        (UNREACHABLE, [[(FENCE, SILENT)]]),
        ("heartbeat", [[(FENCE, SILENT)]]),
        ("heartbeat", [[(STOPPING, STOPPED)]]),
        ("create", [[(MADE, Cause(kind=CauseKind.REQUEST, api_key=20))]]),
        ("create", [[(MADE, Cause(kind=CauseKind.REQUEST, api_key=19, correlation_id=7))]]),
    ],
)
def test_a_cause_that_is_missing_or_wrong_is_flagged(event: Any, parts: list[list[Told]]) -> None:
    """inv:C27, defect:X19, defect:X20: none, that of another broker or request, or of something else that might have happened."""
    with breaks("C27"):
        decide(event, *parts)
