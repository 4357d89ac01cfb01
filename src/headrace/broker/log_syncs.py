"""Logs that must be synced before what was appended to them may be acknowledged (`flush.messages`)."""

from __future__ import annotations

from collections.abc import Callable

from headrace.broker.partitions import HostedPartition, PartitionTable
from headrace.core.errors import StorageFault
from headrace.log.ports import FlushJob, PartitionLogPort


class LogSync:
    """One sync that acknowledgements wait for: `prepare`, then `run` in a thread, then `finish` or `failed`.

    Everything that is appended before `prepare` shares it.
    """

    __slots__ = ("_job", "_log", "_syncs")

    def __init__(self, syncs: LogSyncs, log: PartitionLogPort) -> None:
        self._syncs = syncs
        self._log = log
        self._job: FlushJob | None = None

    def __repr__(self) -> str:
        return f"LogSync({self._log.topic_partition})"

    def prepare(self) -> None:
        """Settle what is synced. Raises StorageFault when a sync of this log failed before."""
        self._job = self._log.prepare_flush()

    def run(self) -> None:
        """Sync; blocks. Raises StorageFault."""
        if self._job is not None:
            self._job.run()

    def finish(self) -> None:
        """It went well: acknowledge."""
        self._syncs.ended(self._log)
        if self._job is not None:
            self._syncs.flushed(self._log, self._job)
        else:  # another flush was quicker; what was appended since then waits for this one
            self._syncs.want_rest(self._log)

    def failed(self, fault: StorageFault) -> None:
        """The bytes count as lost, and nobody is told that they were written: the log's directory goes offline."""
        self._syncs.ended(self._log)
        self._syncs.on_fault(fault)


class LogSyncs:
    """The syncs under way, one a log: whoever comes meanwhile shares the next. Driven by appends and by ended flushes of any kind.

    `begin` has a `LogSync` done; `on_fault` is told of one that failed.
    """

    def __init__(self, *, partitions: PartitionTable) -> None:
        self._partitions = partitions
        self._running: set[PartitionLogPort] = set()
        self._held: set[PartitionLogPort] = set()
        self.begin: Callable[[LogSync], None] = _in_place
        self.on_follower_synced: Callable[[HostedPartition], None] = _nobody_waits
        """Told a followed partition of which more is synced."""
        self.on_fault: Callable[[StorageFault], None] = _unhandled

    def want(self, log: PartitionLogPort) -> None:
        """Some of the log waits for a sync."""
        if log not in self._running and log not in self._held:
            self._running.add(log)
            self.begin(LogSync(self, log))

    def hold(self, log: PartitionLogPort) -> None:
        """No sync of the log begins until `release`: it is about to go on in other files. One that runs goes on."""
        self._held.add(log)
        log.hold_flushes(held=True)

    def release(self, log: PartitionLogPort) -> None:
        """Syncs may begin, and what waits for one gets it."""
        if log in self._held:
            self._held.discard(log)
            log.hold_flushes(held=False)
            self.want_rest(log)

    def is_syncing(self, log: PartitionLogPort) -> bool:
        """A sync or another flush of the log is under way."""
        return log in self._running or log.is_flushing

    def ended(self, log: PartitionLogPort) -> None:
        """Its sync is over, well or not."""
        self._running.discard(log)

    def flushed(self, log: PartitionLogPort, job: FlushJob) -> None:
        """A flush of any kind ended well: acknowledge what it made durable, and sync what came meanwhile."""
        before = log.acknowledged_end_offset
        log.flushed(job.upto)
        hosted = self._partitions.get(*log.topic_partition)
        if hosted is None or hosted.log is not log:
            return
        if log.acknowledged_end_offset != before:
            self._acknowledge(hosted)
        if job.upto:  # else it made nothing durable, and the next one would not either
            self.want_rest(log)

    def want_rest(self, log: PartitionLogPort) -> None:
        """What came while a sync was under way wants one of its own, unless the log has gone."""
        hosted = self._partitions.get(*log.topic_partition)
        if hosted is not None and hosted.log is log and log.acknowledged_end_offset < log.log_end_offset:
            self.want(log)

    def _acknowledge(self, hosted: HostedPartition) -> None:
        if hosted.leader is not None:
            hosted.leader.synced()
        else:
            self.on_follower_synced(hosted)


def _nobody_waits(hosted: HostedPartition) -> None:
    """Nobody fetches for it."""


def _in_place(sync: LogSync) -> None:
    """Without a driver there is no other thread."""
    sync.prepare()
    try:
        sync.run()
    except StorageFault as fault:
        sync.failed(fault)
    else:
        sync.finish()


def _unhandled(fault: StorageFault) -> None:
    raise fault
