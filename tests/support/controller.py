"""An active controller on an empty log, and its log: what it appends is committed when the test says so."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import count
from typing import Any, NamedTuple

from headrace.config.node_config import NodeConfig
from headrace.controller.events import (
    Answer,
    AppendRecords,
    ControllerEffect,
    LeadershipEnded,
    LeadershipGained,
    RecordsCommitted,
    RequestArrived,
    RequestCause,
    TimeAdvanced,
)
from headrace.controller.machine import ControllerMachine
from headrace.core.ids import Uuid
from headrace.metadata.bootstrap import bootstrap_records, read_bootstrap_records
from headrace.metadata.delta import MetadataDelta
from headrace.metadata.image import EMPTY_IMAGE, MetadataImage
from headrace.metadata.loader import MetadataLoader
from headrace.metadata.snapshot import VersionedRecord
from headrace.metadata.versions import SUPPORTED_FEATURES
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from headrace.wire.metadata_records.begin_transaction_record import BeginTransactionRecord
from headrace.wire.metadata_records.frame import decode_record
from headrace.wire.schema import Message

CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"


def incarnation(number: int) -> Uuid:
    """An incarnation id."""
    return Uuid(bytes([number]) * 16)


def directory(broker_id: int) -> Uuid:
    """The one log directory of a broker."""
    return Uuid(bytes([100 + broker_id]) * 16)


def registration(broker_id: int, /, **changes: Any) -> BrokerRegistrationRequest:
    """A registration that is let in."""
    fields: dict[str, Any] = {
        "broker_id": broker_id,
        "cluster_id": CLUSTER_ID,
        "incarnation_id": incarnation(broker_id),
        "listeners": (Listener(name="PLAINTEXT", host="h", port=9092 + broker_id),),
        "features": tuple(
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in SUPPORTED_FEATURES.items()
        ),
        "rack": None,
        "log_dirs": (directory(broker_id),),
    }
    return BrokerRegistrationRequest(**(fields | {"broker_id": broker_id} | changes))


class CommittedAppend(NamedTuple):
    """One append as the loader reads it back; without records it is a control batch of raft's."""

    base_offset: int
    records: tuple[bytes, ...]
    epoch: int
    timestamp: int = 0

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.base_offset + max(1, len(self.records)) - 1


class ControllerBench:
    """The machine and its log of records; `ask` decides, `commit` makes it count."""

    def __init__(
        self,
        *,
        image: MetadataImage = EMPTY_IMAGE,
        kraft_version: int = 0,
        features: Mapping[str, int] | None = None,
        **settings: Any,
    ) -> None:
        settings = {"metadata_max_idle_interval_ms": 0} | settings
        self.config = NodeConfig(node_id=1, log_dirs=("/d",), **settings)
        self.machine = ControllerMachine(
            config=self.config,
            cluster_id=CLUSTER_ID,
            rng=random.Random(5),
            bootstrap=read_bootstrap_records(bootstrap_records(features=features)),
            kraft_version=kraft_version,
        )
        self.machine.most_at_once = 10_000
        self.now_ms = 1_000
        self.listener = "CONTROLLER"
        self.is_direct = False
        self.epoch = 1
        self.loader = MetadataLoader(image)
        self.log: list[Message] = []
        self.start_offset = 0
        self.pending: list[Message] = []
        self._unwritten: list[CommittedAppend] = []
        self.written_at: dict[int, Message] = {}
        self.written_bytes: dict[int, bytes] = {}
        self.tokens = count(1)
        self.last_delta: MetadataDelta | None = None

    @property
    def committed_image(self) -> MetadataImage:
        """What is committed and visible."""
        return self.loader.image

    @property
    def next_offset(self) -> int:
        """Where the log goes on."""
        return self.start_offset + len(self.log) + len(self.pending)

    def gain(self, *, next_offset: int = 1, in_transaction: bool = False) -> list[ControllerEffect]:
        """Become active, and commit what that writes."""
        self.start_offset = next_offset - len(self.log)
        if in_transaction:
            begin = VersionedRecord(BeginTransactionRecord(name="cut off"), 0).encode()
            self.loader.load_batches([CommittedAppend(next_offset - 1, (begin,), self.epoch)])
        event = LeadershipGained(
            epoch=self.epoch,
            next_offset=next_offset,
            image=self.committed_image,
            in_transaction=in_transaction,
            now_ms=self.now_ms,
        )
        effects = self.take(self.machine.step(event))
        return effects + self.commit()

    def follow(self, leader: ControllerBench) -> list[ControllerEffect]:
        """As a standby, hear of what another controller has committed since."""
        start, end = max(1, self.loader.next_offset), leader.start_offset + len(leader.log)
        found = [(offset, leader.written_bytes.get(offset)) for offset in range(start, end)]
        if not found:
            return []
        batches = [CommittedAppend(offset, () if data is None else (data,), leader.epoch) for offset, data in found]
        delta = self.loader.load_batches(batches)
        event = RecordsCommitted(image=self.committed_image, upto=end, delta=delta, now_ms=self.now_ms)
        return self.take(self.machine.step(event))

    def lose(self) -> list[ControllerEffect]:
        """Another node leads; what was not committed is gone."""
        for offset in range(self.next_offset - len(self.pending), self.next_offset):
            del self.written_bytes[offset]
        self.pending.clear()
        self._unwritten.clear()
        return self.take(self.machine.step(LeadershipEnded(image=self.committed_image, now_ms=self.now_ms)))

    def commit(self) -> list[ControllerEffect]:
        """Everything appended so far is committed."""
        delta = self.last_delta = self.loader.load_batches(self._unwritten, self.machine.decided)
        self.log += self.pending
        self.pending = []
        self._unwritten = []
        event = RecordsCommitted(image=self.committed_image, upto=self.next_offset, delta=delta, now_ms=self.now_ms)
        return self.take(self.machine.step(event))

    def send(
        self, request: Any, *, version: int | None = None, deadline_ms: int | None = None
    ) -> list[ControllerEffect]:
        """One request, without committing what it leads to."""
        event = RequestArrived(
            token=next(self.tokens),
            request=request,
            cause=RequestCause(
                api_version=request.SCHEMA.versions.last if version is None else version,
                listener=self.listener,
                is_direct=self.is_direct,
            ),
            now_ms=self.now_ms,
            deadline_ms=self.now_ms + 1_000 if deadline_ms is None else deadline_ms,
        )
        return self.take(self.machine.step(event))

    def ask(self, request: Any, *, version: int | None = None) -> Any:
        """The answer to a request, once it is committed."""
        effects = self.send(request, version=version)
        effects += self.commit()
        [answer] = [effect.response for effect in effects if isinstance(effect, Answer)]
        return answer

    def written(self, request: Any, *, version: int | None = None) -> list[Message]:
        """The records that a request leads to."""
        before = len(self.log)
        self.ask(request, version=version)
        return self.log[before:]

    def advance(self, ms: int) -> list[ControllerEffect]:
        """Time goes on, in steps that are no stall."""
        effects: list[ControllerEffect] = []
        end = self.now_ms + ms
        while self.now_ms < end:
            self.now_ms = min(self.now_ms + 500, end)
            effects += self.take(self.machine.step(TimeAdvanced(now_ms=self.now_ms)))
        return effects

    def broker(self, broker_id: int, *, unfenced: bool = True, **changes: Any) -> int:
        """Register a broker and let it serve; its epoch."""
        answer = self.ask(registration(broker_id, **changes))
        assert answer.error_code == 0
        epoch: int = answer.broker_epoch
        if unfenced:
            assert self.heartbeat(broker_id, epoch).is_fenced is False
        return epoch

    def heartbeat(self, broker_id: int, epoch: int, **changes: Any) -> Any:
        """A broker says that it lives; it has read everything unless told otherwise."""
        fields: dict[str, Any] = {"current_metadata_offset": self.next_offset - 1} | changes
        return self.ask(BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=epoch, **fields))

    def take(self, effects: list[ControllerEffect]) -> list[ControllerEffect]:
        """What the machine appends is in the log, not committed yet."""
        for effect in effects:
            if isinstance(effect, AppendRecords):
                assert effect.base_offset == self.next_offset
                assert effect.epoch == self.epoch
                self._unwritten.append(CommittedAppend(effect.base_offset, effect.records, self.epoch))
                for data in effect.records:
                    offset = self.next_offset
                    self.written_at[offset], self.written_bytes[offset] = decode_record(data), data
                    self.pending.append(self.written_at[offset])
        return effects


def active(**settings: Any) -> ControllerBench:
    """A controller that wrote its bootstrap records."""
    bench = ControllerBench(**settings)
    bench.gain()
    return bench
