"""The leader of a partition: which records are committed, and who is in sync."""

from __future__ import annotations

from collections.abc import Callable

from headrace.core.error_code import ErrorCode
from headrace.core.values import value_class
from headrace.log.ports import Appended, AppendRefused, CheckedBatch, Opening, Origin, PartitionLogPort
from headrace.replication.isr import Fetcher, FollowerProgress, effective_min_isr, may_join
from headrace.replication.traffic import TopicTraffic
from headrace.replication.waiting import PartitionWaiters


@value_class
class ProposeIsr:
    """Ask the controller for this ISR (AlterPartition): (broker id, broker epoch) each. Answered by `isr_answered`."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    growth: int
    """How many members it has more than the ISR when this was proposed; negative where some leave."""
    leader_recovery_state: int = 0


@value_class
class LeaderTerms:
    """What the controller decided for the partition that this broker leads."""

    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader_recovery_state: int = 0


class PartitionLeader:
    """The leader's side of one partition. Driven by `broker.partitions`; it calls its log directly, and tells `waiters` what an append moved.

    The high watermark is the lowest log end over the *maximal ISR*: the ISR the controller last confirmed together with any that is proposed and
    not answered (KIP-497). It stands still while the ISR is smaller than `min.insync.replicas` (P6), and waits for those that are `awaited`.

    Transitions of the ISR: confirmed -> proposed (`propose_join`, `propose_shrink`) -> confirmed (`update` with a higher partition epoch, or
    `isr_answered`). One proposal at a time (P9).
    """

    def __init__(
        self,
        *,
        broker_id: int,
        log: PartitionLogPort,
        terms: LeaderTerms,
        now_ms: int,
        lag_time_max_ms: int,
        min_insync_replicas: int,
    ) -> None:
        self.broker_id = broker_id
        self.log = log
        self.waiters = PartitionWaiters()
        self.traffic = TopicTraffic()
        self.want_sync: Callable[[PartitionLogPort], None] | None = None
        """Told a log whose records wait for a sync before they may be acknowledged (`flush.messages`)."""
        self.leader_epoch = terms.leader_epoch
        self.partition_epoch = terms.partition_epoch
        self.replicas = terms.replicas
        self.isr = terms.isr
        self.leader_recovery_state = terms.leader_recovery_state
        self.min_insync_replicas = min_insync_replicas
        self.lag_time_max_ms = lag_time_max_ms
        self.followers: dict[int, FollowerProgress] = {}
        self.awaited: dict[int, FollowerProgress] = {}
        """Followers that keep up and may join the ISR. Under steady load the high watermark would run away from them for ever (P8; Kafka behaviour)."""
        self.proposal: ProposeIsr | None = None
        self.epoch_start = log.log_end_offset
        self._set_followers(now_ms)
        log.begin_epoch(terms.leader_epoch)
        self.is_alone = self._is_alone()
        self.advance()

    # --- what the controller decides ---

    def update(self, terms: LeaderTerms, *, now_ms: int) -> bool:
        """Newer terms within this leader epoch. True if the high watermark moved."""
        if terms.partition_epoch < self.partition_epoch:
            return False
        self.partition_epoch = terms.partition_epoch
        self.replicas = terms.replicas
        self.isr = terms.isr
        self.leader_recovery_state = terms.leader_recovery_state
        if self.proposal is not None and self.proposal.partition_epoch < terms.partition_epoch:
            self.proposal = None
        self._set_followers(now_ms)
        self.is_alone = self._is_alone()
        return self.advance()

    def set_min_insync_replicas(self, count: int) -> bool:
        """The topic's setting changed. True if the high watermark moved."""
        self.min_insync_replicas = count
        self.is_alone = self._is_alone()
        return self.advance()

    def isr_answered(
        self, proposal: ProposeIsr, error: ErrorCode, terms: LeaderTerms | None, *, now_ms: int
    ) -> ProposeIsr | None:
        """The controller's answer to `proposal`; what to propose again, if anything.

        Only two refusals say that it was not taken and never will be; they drop it. After every other one it may have been taken, by
        an attempt whose answer was lost or together with a new leader, so its members count until newer terms come (P5, KAFKA-14504).
        An answer to a proposal that is not the present one says nothing about the present one (P9).
        """
        is_present = self.proposal is proposal
        if error is ErrorCode.NONE and terms is not None:
            if terms.leader_epoch == self.leader_epoch and terms.partition_epoch >= self.partition_epoch:
                if is_present:
                    self.proposal = None
                self.update(terms, now_ms=now_ms)
            return None
        if not is_present or error in _LEFT_PENDING:
            return None
        if error in _NOT_TAKEN:
            self.proposal = None
            self.is_alone = self._is_alone()
            self.advance()
            return None
        return proposal

    # --- progress ---

    def append(self, batches: memoryview, *, now_ms: int) -> Appended | AppendRefused | Opening:
        """Write a client's batch at the log's end, move the high watermark, and wake who waits for what moved. Raises StorageFault. Hot path.

        One that must be opened first is not appended: its check comes back, and then goes to `append_checked`.
        """
        is_alone = self.is_alone
        if not is_alone:
            self._before_append()
        done = self.log.append_client(batches, leader_epoch=self.leader_epoch, now_ms=now_ms, commits=is_alone)
        traffic = self.traffic
        traffic.produces += 1
        if type(done) is Appended:
            traffic.messages_in += done[1] - done[0] + 1
            traffic.bytes_in += done[4]
            waiters = self.waiters
            if done[6] or not is_alone or waiters.committed or waiters.readers or waiters.followers:
                self._appended(done, is_alone=is_alone)
        return done

    def append_checked(self, checked: CheckedBatch | AppendRefused, *, now_ms: int) -> Appended | AppendRefused:
        """The same with a batch that was opened and checked. Raises StorageFault."""
        is_alone = self.is_alone
        self._before_append()
        done = self.log.append_checked(checked, leader_epoch=self.leader_epoch, now_ms=now_ms, commits=is_alone)
        if isinstance(done, Appended):
            self._count(done)
            self._appended(done, is_alone=is_alone)
        return done

    def append_own(self, batches: memoryview, *, now_ms: int) -> Appended | AppendRefused:
        """The same with batches of a coordinator of this broker. Raises StorageFault."""
        is_alone = self.is_alone
        self._before_append()
        self.traffic.produces += 1
        done = self.log.append_as_leader(
            batches, leader_epoch=self.leader_epoch, now_ms=now_ms, origin=Origin.COORDINATOR, commits=is_alone
        )
        if isinstance(done, Appended):
            self._count(done)
            self._appended(done, is_alone=is_alone)
        return done

    def _count(self, done: Appended) -> None:
        self.traffic.messages_in += done.last_offset - done.first_offset + 1
        self.traffic.bytes_in += done.size

    def _before_append(self) -> None:
        end = self.log.log_end_offset
        for follower in self.followers.values():
            follower.leader_appends(end_before=end)

    def _appended(self, done: Appended, *, is_alone: bool) -> None:
        """Wake who waits for what moved; the log moved the high watermark itself when nobody else is in the ISR."""
        if done.waits_for_sync and self.want_sync is not None:
            self.want_sync(self.log)
        if is_alone or self.advance():
            self.waiters.high_watermark_moved(self.log.high_watermark)
        else:
            self.waiters.log_end_moved()

    def synced(self) -> None:
        """Records that acknowledgements wait for are durable (`flush.messages`)."""
        waiters = self.waiters
        waiters.acknowledged(self.log.acknowledged_end_offset)
        if self.advance():
            waiters.high_watermark_moved(self.log.high_watermark)

    def advance(self) -> bool:
        """Commit what every member of the maximal ISR holds; never move back. True if the high watermark moved."""
        log = self.log
        lowest = log.acknowledged_end_offset
        if not self.is_alone:
            if len(self.isr) < self.effective_min_isr:
                return False
            for member in self._maximal_isr():
                if member != self.broker_id:
                    lowest = min(lowest, self.followers[member].log_end_offset)
            for follower in self.awaited.values():
                lowest = min(lowest, follower.log_end_offset)
        if lowest <= log.high_watermark:
            return False
        log.advance_high_watermark(lowest)
        return True

    def follower_fetched(
        self,
        broker_id: int,
        *,
        broker_epoch: int,
        fetch_offset: int,
        log_start_offset: int,
        now_ms: int,
        session: Fetcher | None = None,
    ) -> FollowerProgress | None:
        """A follower's fetch arrived, of its fetch session if it has one; None when it is not a replica or an older incarnation of it (P8)."""
        follower = self.followers.get(broker_id)
        if follower is None or (broker_epoch != -1 and broker_epoch < follower.broker_epoch):
            return None
        follower.session = session
        if broker_epoch != follower.broker_epoch:
            follower.broker_epoch = broker_epoch
            follower.has_caught_up = False
        follower.fetched(
            fetch_offset=fetch_offset,
            log_start_offset=log_start_offset,
            leader_end_offset=self.log.log_end_offset,
            now_ms=now_ms,
        )
        return follower

    def wait_for(self, broker_id: int, now_ms: int, *, is_eligible: Callable[[int, int], bool]) -> bool:
        """Whether a follower is `awaited` from now on: not in sync, but it keeps up and would be let in. `is_eligible` is that of `propose_join`."""
        follower = self.followers.get(broker_id)
        is_awaited = (
            follower is not None
            and broker_id not in self.isr
            and follower.log_end_offset >= 0
            and follower.keeps_up(now_ms=now_ms, lag_time_max_ms=self.lag_time_max_ms)
            and is_eligible(broker_id, follower.broker_epoch)
        )
        if is_awaited and follower is not None:
            self.awaited[broker_id] = follower
        else:
            self.awaited.pop(broker_id, None)
        self.is_alone = self._is_alone()
        return is_awaited

    def propose_join(self, broker_id: int, *, is_eligible: Callable[[int, int], bool]) -> ProposeIsr | None:
        """Ask for `broker_id` to be in the ISR when it holds enough (S3-86).

        `is_eligible(broker_id, broker_epoch)` says what only metadata knows: unfenced, not stopping, that epoch (KIP-841, KIP-903).
        """
        follower = self.followers.get(broker_id)
        if follower is None or self.proposal is not None or broker_id in self.isr:
            return None
        start = self.epoch_start
        log = self.log
        if not may_join(
            follower, high_watermark=log.high_watermark, leader_epoch_start=start, log_end_offset=log.log_end_offset
        ):
            return None
        if not is_eligible(broker_id, follower.broker_epoch):
            return None
        return self._propose((*self.isr, broker_id))

    def propose_shrink(self, now_ms: int) -> ProposeIsr | None:
        """Ask for an ISR without those that lag for `replica.lag.time.max.ms`: all of them at once, never the leader (S3-82, S3-83)."""
        if self.proposal is not None:
            return None
        end = self.log.log_end_offset
        staying = tuple(
            member
            for member in self.isr
            if member == self.broker_id
            or self.followers[member].is_caught_up(
                leader_end_offset=end, now_ms=now_ms, lag_time_max_ms=self.lag_time_max_ms
            )
        )
        return self._propose(staying) if len(staying) < len(self.isr) else None

    # --- queries ---

    @property
    def peer_heard_ms(self) -> int | None:
        """When another member of the maximal ISR was last heard, or this epoch began here; None: there is no other one."""
        peers = [peer for member in self._maximal_isr() if (peer := self.followers.get(member)) is not None]
        return max((peer.heard_ms for peer in peers), default=None)

    @property
    def effective_min_isr(self) -> int:
        """How many members the ISR must have for acks=all."""
        return effective_min_isr(min_insync_replicas=self.min_insync_replicas, replication_factor=len(self.replicas))

    @property
    def has_enough_replicas(self) -> bool:
        """Whether acks=all may be accepted (S3-88)."""
        return len(self.isr) >= self.effective_min_isr

    def committed(self, required_offset: int) -> ErrorCode | None:
        """How a write that ends at `required_offset` (exclusive) stands: NONE when done, an error, or None to wait (P10)."""
        if self.log.high_watermark < required_offset:
            return None
        return ErrorCode.NONE if self.has_enough_replicas else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    # --- inside ---

    def _propose(self, members: tuple[int, ...]) -> ProposeIsr:
        epochs = {follower.broker_id: follower.broker_epoch for follower in self.followers.values()}
        self.proposal = ProposeIsr(
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            isr=tuple((member, epochs.get(member, -1)) for member in members),
            leader_recovery_state=0,
            growth=len(members) - len(self.isr),
        )
        self.is_alone = self._is_alone()
        return self.proposal

    def _maximal_isr(self) -> tuple[int, ...]:
        if self.proposal is None:
            return self.isr
        return tuple(dict.fromkeys((*self.isr, *(member for member, _ in self.proposal.isr))))

    def _is_alone(self) -> bool:
        """Only the leader itself counts, and that is enough for `min.insync.replicas`."""
        return self._maximal_isr() == (self.broker_id,) and self.effective_min_isr <= 1 and not self.awaited

    def _set_followers(self, now_ms: int) -> None:
        known = self.followers
        self.followers = {
            replica: known.get(replica, FollowerProgress(broker_id=replica, caught_up_ms=now_ms))
            for replica in dict.fromkeys((*self.replicas, *self.isr))
            if replica != self.broker_id
        }
        self.awaited = {
            replica: each
            for replica, each in self.awaited.items()
            if replica not in self.isr and self.followers.get(replica) is each
        }


_NOT_TAKEN = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""The controller looked at a proposal for the present partition epoch and did not take it."""
_LEFT_PENDING = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""The leader's view is behind: newer terms are on their way, and asking again is of no use."""
