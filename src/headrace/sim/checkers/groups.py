"""Groups against what their members were told: owners, generations, and positions that neither go back nor vanish.  G1 G2 G3 G4 GL1 H14 PR6

A ledger belongs to a group. It begins anew when too many copies of the group's partition of `__consumer_offsets` lost what was not synced: nothing is
promised of what was. A generation counts from its first SyncGroup on, which is answered when it is stored; who joined before that and lost the
coordinator may see the number again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.client.groups import read_assignment
from headrace.coordinator.hashing import partition_for
from headrace.core.error_code import ErrorCode
from headrace.sim.checkers.eligible_replicas import min_isr
from headrace.sim.checkers.group import Group, Scene
from headrace.sim.checkers.promises import Place, Promise, registered_at, topic_id_at
from headrace.sim.group_clients import OFFSETS_TOPIC, code_of, positions_of
from headrace.sim.observation import CallEnded, CallStarted
from headrace.sim.record_clients import PARTITIONS
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.heartbeat import HeartbeatRequest
from headrace.wire.messages.join_group import JoinGroupRequest
from headrace.wire.messages.leave_group import LeaveGroupRequest
from headrace.wire.messages.offset_commit import OffsetCommitRequest
from headrace.wire.messages.offset_fetch import OffsetFetchRequest
from headrace.wire.messages.sync_group import SyncGroupRequest

if TYPE_CHECKING:
    from headrace.metadata.image import MetadataImage
    from headrace.sim.observation import ClusterView

NEVER: Final = 1 << 62
"""When a call ended whose outcome nobody knows."""
_NO_EFFECT: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Answers to a commit after which it is sure that nothing was stored; after another error it may have been."""


class Broken(Exception):
    """A rule and what was seen."""

    def __init__(self, code: str, told: str) -> None:
        super().__init__(f"{code}: {told}")
        self.code = code
        self.told = told


@dataclass(slots=True, eq=False)
class Commit:
    """A position that was set; times are numbers of steps. `is_refused`: it must never show."""

    offset: int
    began: int
    ended: int = NEVER
    is_refused: bool = False


class Sync(NamedTuple):
    """An assignment that was handed out."""

    generation: int
    at: int


class GroupLedger:
    """What one group's members were told, in the order in which it happened. Raises Broken."""

    def __init__(self) -> None:
        self._newest: list[Sync] = []
        """Each generation's first SyncGroup, rising."""
        self._owners: dict[tuple[int, int], str] = {}
        self._commits: dict[int, dict[str, Commit]] = {}
        self._superseded: dict[int, dict[str, Commit]] = {}
        """Commits that can show no more, unless too much is lost."""
        self._done: dict[int, Commit] = {}
        self._instances: dict[str, list[tuple[str, int]]] = {}

    def after_a_loss(self) -> GroupLedger:
        """The ledger that begins once nothing is promised of what was: each position that was ever set may still be there, or come back."""
        ledger = GroupLedger()
        ledger._commits = {
            partition: {
                token: Commit(one.offset, one.began)
                for token, one in (*self._superseded.get(partition, {}).items(), *commits.items())
            }
            for partition, commits in self._commits.items()
        }
        return ledger

    def generation_before(self, at: int) -> int:
        """The newest generation that was handed out before."""
        return next((sync.generation for sync in reversed(self._newest) if sync.at < at), -1)

    def joined(self, generation: int, *, began: int) -> None:
        """A JoinGroup that began then has this generation (G2)."""
        known = self.generation_before(began)
        if generation < known:
            raise Broken("G2", f"generation {generation} begins after {known} was handed out")

    def synced(self, owner: str, generation: int, partitions: tuple[int, ...], *, at: int) -> None:
        """A member owns these in that generation (G1); `owner` is its instance, or its member id."""
        if not self._newest or generation > self._newest[-1].generation:
            self._newest.append(Sync(generation, at))
        for partition in partitions:
            known = self._owners.setdefault((generation, partition), owner)
            if known != owner:
                raise Broken(
                    "G1", f"partition {partition} belongs to {known} and to {owner} in generation {generation}"
                )

    def instance_is(self, instance: str, member_id: str, *, at: int) -> None:
        """A static member has its assignment under this id."""
        known = self._instances.setdefault(instance, [])
        if not known or known[-1][0] != member_id:
            known.append((member_id, at))

    def committing(self, partition: int, token: str, offset: int, *, at: int) -> None:
        """A commit is under way; each has another token."""
        self._commits.setdefault(partition, {})[token] = Commit(offset, at)

    def refused(self, partition: int, token: str) -> None:
        """A commit must not have changed anything."""
        self._commits[partition][token].is_refused = True

    def committed(self, partition: int, token: str, *, at: int, member: tuple[str, str | None, int]) -> None:
        """A commit of a member (id, instance, generation) was acknowledged (G3)."""
        commit = self._commits[partition][token]
        commit.ended = at
        member_id, instance, generation = member
        newer = self.generation_before(commit.began)
        if generation < newer:
            raise Broken("G3", f"{member_id} commits in generation {generation}, after {newer} was handed out")
        known = [one for one in self._instances.get(instance or "", []) if one[1] < commit.began]
        if known and known[-1][0] != member_id and any(each[0] == member_id for each in known):
            raise Broken("G3", f"{member_id} commits as {instance}, which {known[-1][0]} is now")
        latest = self._done.get(partition)
        if latest is None or commit.began > latest.ended:
            self._done[partition] = commit

    def read(self, partition: int, token: str, offset: int, *, began: int) -> None:
        """The position as it is told to a read that began then (G4, H14, PR6, G3)."""
        commits = self._commits.get(partition, {})
        done = [one for one in commits.values() if one.ended < began]
        latest = max(done, key=lambda one: one.began, default=None)
        if offset < 0:
            if latest is not None:
                raise Broken("PR6", f"the position of partition {partition} is gone, {latest.offset} was acknowledged")
            return
        shown = commits.get(token)
        if shown is None or shown.offset != offset:
            raise Broken("G4", f"partition {partition} is at {offset} by {token!r}, which nobody committed so")
        if shown.is_refused:
            raise Broken("G3", f"partition {partition} is at {offset} by {token!r}, which was refused")
        if latest is not None and shown.ended < latest.began:
            code = "H14" if offset < latest.offset else "G4"
            raise Broken(code, f"partition {partition} is at {offset}, {latest.offset} was acknowledged later")
        if len(done) > _MANY:
            for key in [key for key, one in commits.items() if latest is not None and one.ended < latest.began]:
                self._superseded.setdefault(partition, {})[key] = commits.pop(key)


class Attendance:
    """Who of a group's clients is a member, as it was told last. It counts whatever was lost: a group that lives comes to rest again."""

    def __init__(self) -> None:
        self._stands: dict[int, int] = {}
        """Client -> generation; -1 when it is none."""
        self._owned: dict[int, tuple[int, ...]] = {}

    def stands(self, client: int, generation: int) -> None:
        """A client was told that it is a member in this generation, or (-1) that it is none."""
        self._stands[client] = generation

    def owns(self, client: int, partitions: tuple[int, ...]) -> None:
        """A client has its assignment."""
        self._owned[client] = partitions

    def at_rest(self, partitions: int) -> None:
        """Every client is a member in one generation, in which each partition has an owner (GL1). Raises Broken."""
        generations = set(self._stands.values())
        if len(generations) > 1 or -1 in generations:
            raise Broken("GL1", f"clients are in the generations {self._stands}")
        owned = sorted(partition for each in self._owned.values() for partition in each)
        if generations and owned != list(range(partitions)):
            raise Broken("GL1", f"of {partitions} partitions {owned} have owners: {self._owned}")


_MANY: Final = 40
"""Commits that are overtaken are forgotten when there are more."""


class _Begun(NamedTuple):
    """A call that goes on, and what was true when it began."""

    group: str
    losses: int
    at: int


class _Kept:
    """A group's ledger, and how often its partition had lost too much when it was begun."""

    def __init__(self) -> None:
        self.losses = 0
        self.ledger = GroupLedger()
        self.attendance = Attendance()


class Groups(Group):
    """What members of groups were told."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._kept: dict[str, _Kept] = {}
        self._begun: dict[int, _Begun] = {}

    def called(self, event: object) -> None:
        """A group's call begins or has ended."""
        if isinstance(event, CallStarted):
            group = group_of(event.request)
            promise = None if group is None else self._promise(group)
            if group is not None and promise is not None:
                self._begin(group, promise, event)
        elif isinstance(event, CallEnded):
            self._attend(event)
            if event.call_id not in self._begun:
                return
            begun = self._begun.pop(event.call_id)
            kept = self._kept[begun.group]
            if kept.losses == begun.losses:
                try:
                    self._end(kept.ledger, begun, event)
                except Broken as broken:
                    raise self.broken(broken.code, f"{begun.group}: {broken.told}") from None

    def _promise(self, group: str) -> Promise | None:
        """What is promised of the partition in which the group's records are."""
        place = place_of_group(self._image(), group)
        return (
            None if place is None else self.scene.promises.setdefault(place, Promise(topic_id_at(self._image(), place)))
        )

    def _image(self) -> MetadataImage:
        return self.ghost.committed.replayed[-1].image

    def _begin(self, group: str, promise: Promise, event: CallStarted) -> None:
        kept = self._kept.setdefault(group, _Kept())
        if kept.losses != promise.losses:
            kept.losses, kept.ledger = promise.losses, kept.ledger.after_a_loss()
        at = self.scene.step.number
        if not promise.is_void:
            self._begun[event.call_id] = _Begun(group, promise.losses, at)
        if isinstance(event.request, OffsetCommitRequest):
            for each in event.request.topics[0].partitions:
                kept.ledger.committing(
                    each.partition_index, each.committed_metadata or "", each.committed_offset, at=at
                )

    def _attend(self, event: CallEnded) -> None:
        """What the client now is."""
        request = event.request
        response: Any = event.response
        group = group_of(request)
        if group is None:
            return
        attendance = self._kept.setdefault(group, _Kept()).attendance
        code = None if response is None else code_of(response)
        if isinstance(request, JoinGroupRequest | LeaveGroupRequest) or code in _NO_EFFECT:
            attendance.stands(event.client_id, -1)
        elif isinstance(request, HeartbeatRequest | SyncGroupRequest) and code is ErrorCode.NONE:
            attendance.stands(event.client_id, request.generation_id)
            if isinstance(request, SyncGroupRequest):
                owned = read_assignment(bytes(response.assignment))
                attendance.owns(event.client_id, tuple(one.partition for one in owned))

    def _end(self, ledger: GroupLedger, begun: _Begun, event: CallEnded) -> None:
        request, at = event.request, self.scene.step.number
        response: Any = event.response
        code = None if response is None else code_of(response)
        if isinstance(request, OffsetCommitRequest):
            self._committed(ledger, request, code)
        if code is not ErrorCode.NONE:
            return
        if isinstance(request, JoinGroupRequest):
            ledger.joined(response.generation_id, began=begun.at)
        elif isinstance(request, SyncGroupRequest):
            owned = read_assignment(bytes(response.assignment))
            owner = request.group_instance_id or request.member_id
            ledger.synced(owner, request.generation_id, tuple(one.partition for one in owned), at=at)
            if request.group_instance_id is not None:
                ledger.instance_is(request.group_instance_id, request.member_id, at=at)
            self.hit("group assignment handed out")
        elif isinstance(request, OffsetFetchRequest):
            for partition, offset, token in positions_of(response):
                ledger.read(partition, token, offset, began=begun.at)
                self.hit("group position read", offset >= 0)

    def _committed(self, ledger: GroupLedger, request: OffsetCommitRequest, code: ErrorCode | None) -> None:
        who = (request.member_id, request.group_instance_id, request.generation_id_or_member_epoch)
        for each in request.topics[0].partitions:
            token = each.committed_metadata or ""
            if code is ErrorCode.NONE:
                ledger.committed(each.partition_index, token, at=self.scene.step.number, member=who)
                self.hit("group position acknowledged")
            elif code in _NO_EFFECT:
                ledger.refused(each.partition_index, token)
                self.hit("group commit refused")

    def at_end(self, cluster: ClusterView) -> None:
        """Every group has come to rest (GL1), but where too few replicas of its partition live to take a record."""
        for group, kept in self._kept.items():
            place = place_of_group(self._image(), group)
            if place is None or not self._takes_records(cluster, place):
                continue
            try:
                kept.attendance.at_rest(PARTITIONS)
            except Broken as broken:
                raise self.broken(broken.code, f"{group}: {broken.told}") from None
            self.hit("group at rest")

    def _takes_records(self, cluster: ClusterView, place: Place) -> bool:
        image = self._image()
        partition = registered_at(image, place)
        if partition is None:
            return False
        alive = [one for one in partition.isr if cluster.nodes[one].is_up and one not in cluster.left_behind]
        return partition.leader in alive and len(alive) >= min_isr(image, place[0])


def place_of_group(image: MetadataImage, group: str) -> Place | None:
    """The partition in which the group's records are, if it is there."""
    topic = image.topics.by_name.get(OFFSETS_TOPIC)
    return None if topic is None else (OFFSETS_TOPIC, partition_for(group, len(topic.partitions)))


def is_of_group(request: object) -> bool:
    """A call of a group's member."""
    return isinstance(request, FindCoordinatorRequest) or group_of(request) is not None


def group_of(request: Any) -> str | None:
    """The group that a request is about, if it is about one."""
    if isinstance(request, OffsetFetchRequest):
        return request.groups[0].group_id if request.groups else request.group_id
    kinds = JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest | OffsetCommitRequest
    return request.group_id if isinstance(request, kinds) else None
