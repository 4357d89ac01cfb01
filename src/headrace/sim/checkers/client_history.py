"""The history of a run as its clients saw it, for the judge that real clusters have too.  H1 H2 H3 H6 H7 H8 H9 H14 H15

What clients were told of partitions with several copies, and of groups, is written down; when all is over every partition is read from its beginning, and
`anomalies.judge` says what must not be. Where too many copies lost something the history begins anew: what was sent before may be there or not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.core.error_code import ErrorCode
from headrace.records.batch import checked_batches
from headrace.sim.anomalies.history import (
    NEVER,
    NOWHERE,
    Assigned,
    Commit,
    History,
    Outcome,
    Part,
    Poll,
    PositionRead,
    SeenRecord,
    Send,
)
from headrace.sim.anomalies.judge import judge
from headrace.sim.checkers.copied_records import is_about, records_of
from headrace.sim.checkers.eligible_replicas import needed_in_sync
from headrace.sim.checkers.group import Group, Scene
from headrace.sim.checkers.groups import group_of, place_of_group
from headrace.sim.checkers.promises import Place, Promise, hosted_at, registered_at, topic_id_at
from headrace.sim.checkers.records import asked_partition, records_in, values_of
from headrace.sim.group_clients import code_of, positions_of
from headrace.sim.observation import CallEnded, CallStarted
from headrace.sim.record_clients import is_copied
from headrace.wire.messages.fetch import FetchRequest, FetchResponse
from headrace.wire.messages.offset_commit import OffsetCommitRequest
from headrace.wire.messages.offset_fetch import OffsetFetchRequest
from headrace.wire.messages.produce import ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.metadata.image import MetadataImage
    from headrace.sim.observation import ClusterView

_ALL: Final = -1
_READER: Final = "reader"
_NO_PRODUCER: Final = -1
_STORED_TWICE: Final = "H6"
"""The rule that no record lies at two offsets."""


class _Begun(NamedTuple):
    """A call that goes on, and what was true when it began."""

    place: Place
    losses: int
    at: int


class _Told:
    """What clients were told of one partition since it last lost too much."""

    def __init__(self, losses: int) -> None:
        self.losses = losses
        self.sends: dict[str, Send] = {}
        self.sights: list[Assigned | Poll] = []
        self.commits: list[Commit] = []
        self.positions: list[PositionRead] = []

    def begin_anew(self, losses: int) -> None:
        """What was sent may still be there, and nobody must find it."""
        self.losses = losses
        self.sends = {
            value: replace(send, outcome=Outcome.UNKNOWN, offset=NOWHERE, ended=NEVER)
            for value, send in self.sends.items()
        }
        self.sights.clear()
        self.commits = [replace(commit, outcome=Outcome.UNKNOWN, ended=NEVER) for commit in self.commits]
        self.positions.clear()


class ClientHistory(Group):
    """Writes down, and has it judged in the end."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._told: dict[Place, _Told] = {}
        self._begun: dict[int, _Begun] = {}
        self._follows: dict[int, tuple[Place, int]] = {}
        """Consumer -> where it goes on."""
        self._sent = 0

    def called(self, event: object) -> None:
        """A call begins or has ended."""
        if isinstance(event, CallStarted):
            place = self._place(event.request)
            promise = (
                None
                if place is None
                else self.scene.promises.setdefault(place, Promise(topic_id_at(self._image(), place)))
            )
            if place is not None and promise is not None and self._is_about(event.request, place):
                self._begin(place, promise, event)
        elif isinstance(event, CallEnded) and event.call_id in self._begun:
            begun = self._begun.pop(event.call_id)
            promise, told = self.scene.promises[begun.place], self._told[begun.place]
            if not promise.is_void and promise.losses == begun.losses == told.losses:
                self._end(told, begun, event)
            elif isinstance(event.request, OffsetCommitRequest):
                self._committed(told, begun, event.request, None)  # it may be there

    def _is_about(self, request: object, place: Place) -> bool:
        return not isinstance(request, ProduceRequest | FetchRequest) or is_about(request, self.scene, place)

    def _place(self, request: object) -> Place | None:
        if isinstance(request, ProduceRequest | FetchRequest):
            place = asked_partition(request, self.ghost)
            return place if is_copied(place[0]) else None
        if isinstance(request, OffsetCommitRequest | OffsetFetchRequest):
            group = group_of(request)
            return None if group is None else place_of_group(self._image(), group)
        return None

    def _image(self) -> MetadataImage:
        return self.ghost.committed.replayed[-1].image

    def _begin(self, place: Place, promise: Promise, event: CallStarted) -> None:
        told = self._told.setdefault(place, _Told(promise.losses))
        if told.losses != promise.losses:
            told.begin_anew(promise.losses)
        at = self.scene.step.number
        self._begun[event.call_id] = _Begun(place, promise.losses, at)
        if isinstance(event.request, ProduceRequest):
            self._send(told, place, event)

    def _send(self, told: _Told, place: Place, event: CallStarted) -> None:
        """Its records, unless they are sent again. One without a producer id keeps no order, so each of its batches has a client of its own."""
        request = event.request
        assert isinstance(request, ProduceRequest), "a produce is written down"
        data = request.topic_data[0].partition_data[0].records or b""
        for (_, header), records in zip(checked_batches(data), records_in(data), strict=True):
            is_ordered = header.producer_id != _NO_PRODUCER
            client = f"{event.client_id} {header.producer_id} {'' if is_ordered else self._sent}"
            for record in records:
                value = (record.value or b"").decode()
                if value not in told.sends:
                    self._sent += 1
                    told.sends[value] = Send(
                        client=client,
                        number=self._sent,
                        part=Part(*place),
                        value=value,
                        digest=_digest(record),
                        began=self.scene.step.number,
                    )

    def _end(self, told: _Told, begun: _Begun, event: CallEnded) -> None:
        request, response = event.request, event.response
        if isinstance(request, ProduceRequest) and isinstance(response, ProduceResponse):
            self._produced(told, request, response)
        elif isinstance(request, FetchRequest) and isinstance(response, FetchResponse):
            self._fetched(told, begun.place, event.client_id, request, response)
        elif isinstance(request, OffsetCommitRequest):
            self._committed(told, begun, request, None if response is None else code_of(response))
        elif isinstance(request, OffsetFetchRequest) and response is not None:
            self._positions(told, begun, group_of(request) or "", response)

    def _produced(self, told: _Told, request: ProduceRequest, response: ProduceResponse) -> None:
        answer = response.responses[0].partition_responses[0]
        if answer.error_code != ErrorCode.NONE or request.acks != _ALL:
            return
        values = values_of(request.topic_data[0].partition_data[0].records)
        for offset, value in enumerate(values, answer.base_offset):
            send = told.sends[value.decode()]
            told.sends[send.value] = replace(
                send, outcome=Outcome.OK, offset=offset, ended=float(self.scene.step.number)
            )

    def _fetched(self, told: _Told, place: Place, client: int, request: FetchRequest, response: FetchResponse) -> None:
        if response.error_code or not response.responses:
            return
        answer = response.responses[0].partitions[0]
        asked = request.topics[0].partitions[0].fetch_offset
        if answer.error_code != ErrorCode.NONE or not answer.records:
            return
        if self._follows.get(client) != (place, asked):
            told.sights.append(Assigned(client=str(client), at=self.scene.step.number, positions={Part(*place): asked}))
        seen = [
            SeenRecord(Part(*place), record.offset, (record.value or b"").decode(), _digest(record))
            for records in records_in(answer.records)
            for record in records
            if record.offset >= asked
        ]
        told.sights.append(Poll(client=str(client), at=self.scene.step.number, records=tuple(seen)))
        self._follows[client] = (place, seen[-1].offset + 1 if seen else asked)

    def _committed(self, told: _Told, begun: _Begun, request: OffsetCommitRequest, code: ErrorCode | None) -> None:
        is_ok = code is ErrorCode.NONE
        for topic in request.topics:
            for each in topic.partitions:
                told.commits.append(
                    Commit(
                        client=request.member_id,
                        group=request.group_id,
                        part=Part(topic.name, each.partition_index),
                        offset=each.committed_offset,
                        began=begun.at,
                        ended=float(self.scene.step.number) if is_ok else NEVER,
                        outcome=Outcome.OK if is_ok else Outcome.UNKNOWN,
                    )
                )

    def _positions(self, told: _Told, begun: _Begun, group: str, response: object) -> None:
        now = self.scene.step.number
        for topic, partition, offset in named_positions(response):
            told.positions.append(
                PositionRead(
                    client=group, group=group, part=Part(topic, partition), offset=offset, began=begun.at, ended=now
                )
            )

    def over(self, cluster: ClusterView) -> None:
        """Everything is read once more, and the history judged."""
        history = History()
        at = float(self.scene.step.number)
        for place, told in self._told.items():
            promise = self.scene.promises[place]
            if promise.is_void or promise.losses != told.losses:
                continue
            read = list(self._read(cluster, place))
            history.sends += told.sends.values() if read else ()
            history.commits += told.commits
            history.positions += told.positions
            if is_copied(place[0]) and read:
                history.assigned += [each for each in told.sights if isinstance(each, Assigned)]
                history.polls += [each for each in told.sights if isinstance(each, Poll)]
                part = Part(*place)
                history.assigned.append(Assigned(client=f"{_READER} {place}", at=at, positions={part: read[0].offset}))
                history.polls.append(Poll(client=f"{_READER} {place}", at=at + 1, records=tuple(read)))
                self.hit("history judged")
        history.sends.sort(key=lambda each: (each.client, each.number))
        found = judge(history)
        if self.scene.may_have_forgotten_producers(cluster.nodes):
            found = [each for each in found if each.code != _STORED_TWICE]
        if found:
            raise self.broken(found[0].code, found[0].told)

    def _read(self, cluster: ClusterView, place: Place) -> Iterator[SeenRecord]:
        """All that the leader shows, if it runs; and what it will show, where too few are in sync for its high watermark to move (KIP-966)."""
        image = self._image()
        partition = registered_at(image, place)
        if partition is None or partition.leader < 0 or not is_copied(place[0]):
            return
        topic_id = topic_id_at(image, place)
        hosted = hosted_at(cluster, partition.leader, place, topic_id)
        stands_still = len(partition.isr) < needed_in_sync(image, place[0], partition)
        if hosted is not None and hosted.leader is not None and not hosted.leader.has_enough_replicas:
            stands_still = True  # it may not have been told yet that there are enough again
        for log, record in records_of(cluster, place, partition.leader, topic_id):
            if stands_still or record.offset < log.high_watermark:
                yield SeenRecord(Part(*place), record.offset, (record.value or b"").decode(), _digest(record))


def named_positions(response: Any) -> Iterable[tuple[str, int, int]]:
    """Topic, partition and offset of each position that is read."""
    topics = [topic for each in (response.groups or (response,)) for topic in each.topics]
    told = {(partition, offset) for partition, offset, _ in positions_of(response)}
    return [
        (topic.name, partition.partition_index, partition.committed_offset)
        for topic in topics
        for partition in topic.partitions
        if (partition.partition_index, partition.committed_offset) in told and not partition.error_code
    ]


def _digest(record: Any) -> str:
    """What else a record is: key, headers and time."""
    return f"{record.key} {record.timestamp} {record.headers}"
