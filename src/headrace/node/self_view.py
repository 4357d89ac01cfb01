"""What this node says of itself when it is asked about the quorum (docs/decisions/0017; `headrace quorum explain`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from headrace import __version__
from headrace.core.errors import StorageFault
from headrace.core.ids import ZERO_UUID
from headrace.core.values import value_class
from headrace.log.ports import OutOfRange, PartitionLogPort
from headrace.node.witness import NEVER, Link, QuorumWitness
from headrace.raft.roles import Candidate, Prospective
from headrace.records.batch import iter_batches
from headrace.wire.messages import describe_quorum as wire

if TYPE_CHECKING:
    from headrace.broker.ports import Clock
    from headrace.config.node_config import NodeConfig
    from headrace.core.listener import Listener
    from headrace.core.ports import DiskSpace
    from headrace.node.metadata_progress import MetadataProgress
    from headrace.raft.machine import RaftNode
    from headrace.raft.voters import Voter

NEWEST_BATCHES = 256
SAMPLED_OFFSETS = 128
_SAMPLE_BYTES = 512 << 10
_MAX_EPOCHS = 64


@value_class
class SelfView:
    """Puts the view together when it is asked for. `disk_space` may raise StorageFault."""

    config: NodeConfig
    cluster_id: str
    raft: RaftNode
    log: PartitionLogPort
    witness: QuorumWitness
    clock: Clock
    bound: tuple[Listener, ...]
    disk_space: Callable[[], DiskSpace]
    started_ms: int
    progress: MetadataProgress

    def view(self) -> wire.NodeView:
        """Everything this node knows about the quorum now."""
        now_ms = self.clock.now_ms()
        raft, witness, role = self.raft, self.witness, self.raft.role
        change = raft.voter_change
        try:
            space, disk_failure = self.disk_space(), witness.disk_failure
        except StorageFault as fault:
            space, disk_failure = None, str(fault)
        flushes = witness.flushes
        running = max(_age(now_ms, flushes.began_ms), _age(now_ms, witness.state_stores.began_ms))
        return wire.NodeView(
            node_id=self.config.node_id,
            directory_id=raft.config.directory_id,
            cluster_id=self.cluster_id,
            software_version=__version__,
            process_roles=",".join(name for name, is_on in self._roles() if is_on),
            log_directory=self.config.metadata_log_dir,
            role=type(role).__name__,
            epoch=raft.epoch,
            leader_id=raft.leader_id,
            voted_id=getattr(role, "voted_id", -1),
            voted_directory_id=getattr(role, "voted_directory_id", None) or ZERO_UUID,
            votes=self._votes(),
            log_start_offset=self.log.log_start_offset,
            log_end_offset=raft.log_end,
            durable_end_offset=raft.durable_end,
            high_watermark=raft.high_watermark,
            uncommitted_for_ms=_age(now_ms, witness.uncommitted_since_ms) if raft.high_watermark < raft.log_end else 0,
            log_end_epoch=-1 if self.log.latest_epoch is None else self.log.latest_epoch,
            kraft_version=raft.kraft_version,
            voter_set_offset=raft.voters_offset if change is None else change.offset,
            voters=tuple(_voter(each) for each in raft.voters.voters),
            own_end_points=self._own_end_points(),
            links=tuple(_link(each, now_ms) for each in _merged(witness)),
            flush_last_ms=flushes.last_ms,
            flush_average_ms=round(flushes.average_ms),
            flush_max_ms=flushes.max_ms,
            flush_in_flight_ms=running,
            flush_count=flushes.count,
            disk_free_bytes=-1 if space is None else space.usable_bytes,
            disk_total_bytes=-1 if space is None else space.total_bytes,
            disk_failure=disk_failure,
            disk_failure_age_ms=_age(now_ms, witness.disk_failed_ms),
            wall_clock_ms=self.clock.wall_ms(),
            uptime_ms=now_ms - self.started_ms,
            clock_jump_ms=witness.clock_jump_ms,
            clock_jump_age_ms=_age(now_ms, witness.clock_jumped_ms),
            problem=witness.problem,
            epoch_history=tuple(epoch_history(self.log)),
            batches=tuple(batch_digests(self.log, raft.high_watermark)),
            last_applied_offset=self.progress.last_applied_record_offset,
            last_applied_timestamp=self.progress.last_applied_record_timestamp,
            last_applied_lag_ms=self.progress.last_applied_record_lag_ms,
        )

    def _roles(self) -> tuple[tuple[str, bool], ...]:
        return ("broker", self.config.is_broker), ("controller", self.config.is_controller)

    def _votes(self) -> tuple[wire.NodeVote, ...]:
        role = self.raft.role
        if not isinstance(role, Candidate | Prospective):
            return ()
        granted = [wire.NodeVote(voter_id=voter_id, is_granted=True) for voter_id in sorted(role.granted)]
        return (*granted, *(wire.NodeVote(voter_id=voter_id) for voter_id in sorted(role.rejected)))

    def _own_end_points(self) -> tuple[wire.OwnEndPoint, ...]:
        names = self.config.controller_listener_names
        own = [(one.name, one.host, one.port, one.name in names) for one in self.bound]
        own += [(each.name, each.host, each.port, True) for each in self.raft.config.end_points]
        return tuple(
            wire.OwnEndPoint(name=name, host=host, port=port, is_for_controllers=is_for_controllers)
            for name, host, port, is_for_controllers in dict.fromkeys(own)
        )


def _voter(voter: Voter) -> wire.NodeVoter:
    end_points = tuple(wire.NodeEndPoint(name=e.name, host=e.host, port=e.port) for e in voter.end_points)
    return wire.NodeVoter(voter_id=voter.voter_id, directory_id=voter.directory_id, end_points=end_points)


def _age(now_ms: int, moment_ms: int) -> int:
    return NEVER if moment_ms < 0 else max(now_ms - moment_ms, 0)


def _merged(witness: QuorumWitness) -> Iterator[tuple[Link, Link | None]]:
    """Each address that was asked, with what that peer asked of us; and peers that only asked."""
    by_address = [link for link in witness.links.values() if link.host]
    known = {link.peer_id for link in by_address}
    for link in by_address:
        yield link, witness.links.get((link.peer_id, "", -1))
    for link in witness.links.values():
        if not link.host and link.peer_id not in known:
            yield link, link


def _link(pair: tuple[Link, Link | None], now_ms: int) -> wire.NodeLink:
    out, heard = pair
    inbound = heard or Link(peer_id=out.peer_id)
    return wire.NodeLink(
        peer_id=out.peer_id,
        host=out.host,
        port=out.port,
        answered_age_ms=_age(now_ms, out.answered_ms),
        failed_age_ms=_age(now_ms, out.failed_ms),
        failing_for_ms=_age(now_ms, out.failing_since_ms),
        failure=out.failure,
        refused_age_ms=_age(now_ms, out.refused_ms),
        refusal_code=out.refusal_code,
        refused_api=out.refused_api,
        heard_age_ms=_age(now_ms, inbound.heard_ms),
        told_code=inbound.told_code,
        told_api=inbound.told_api,
        told_age_ms=_age(now_ms, inbound.told_ms),
        log_end_offset=inbound.log_end_offset,
        fetch_age_ms=_age(now_ms, inbound.fetched_ms),
        last_words=inbound.last_words,
        last_words_age_ms=_age(now_ms, inbound.last_words_ms),
    )


def epoch_history(log: PartitionLogPort) -> list[wire.EpochStart]:
    """Where the newest epochs of the log began, oldest first."""
    found: list[wire.EpochStart] = []
    epoch = log.latest_epoch
    while epoch is not None and len(found) < _MAX_EPOCHS:
        before = log.end_offset_for_epoch(epoch - 1)
        is_first = before is None or before.offset <= log.log_start_offset
        start = log.log_start_offset if before is None or is_first else before.offset
        found.append(wire.EpochStart(epoch=epoch, start_offset=start))
        epoch = None if before is None or is_first or not 0 <= before.epoch < epoch else before.epoch
    return found[::-1]


def batch_digests(log: PartitionLogPort, high_watermark: int) -> list[wire.BatchDigest]:
    """Checksums of committed batches: the newest, and those at offsets on a grid, which is the same on all nodes."""
    start = log.log_start_offset
    found = {
        each.base_offset: each
        for each in _digests(log, max(start, high_watermark - NEWEST_BATCHES), high_watermark, _SAMPLE_BYTES)
    }
    step = 1
    while step * SAMPLED_OFFSETS < high_watermark - start:
        step *= 2
    for offset in range(-(-start // step) * step, high_watermark, step):
        for each in _digests(log, offset, high_watermark, 1):
            found[each.base_offset] = each
            break
    return [found[offset] for offset in sorted(found)]


def _digests(log: PartitionLogPort, offset: int, high_watermark: int, max_bytes: int) -> Iterator[wire.BatchDigest]:
    if not log.log_start_offset <= offset < high_watermark:
        return
    data = log.read_bytes(offset, max_bytes, upper_offset=high_watermark, min_one_batch=True)
    if isinstance(data, OutOfRange):
        return
    for _, header in iter_batches(data):
        if header.next_offset <= high_watermark:
            yield wire.BatchDigest(
                base_offset=header.base_offset,
                last_offset=header.last_offset,
                epoch=header.leader_epoch,
                crc=header.crc,
            )
