"""The quorum node, event by event, as text.

Commands: `start`, `stored` (the oldest ordered quorum state is on disk), `flushed`, `offer WORD...`, `time +MS`, `fetch OFFSET EPOCH
[wait=MS] [leader-epoch=N] [known-hw=N]`, `vote EPOCH [pre] [ahead] from=ID`, `snapshot END`, `resign`, `shutdown`, `crash` (unsynced bytes are lost; then start again).
"""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.ids import METADATA_TOPIC_ID
from headrace.core.offsets import OffsetAndEpoch
from headrace.raft.events import (
    AnswerRaftRequest,
    FlushLog,
    HighWatermarkAdvanced,
    LeaderChanged,
    LeadershipClaimed,
    LeadershipLost,
    NodeStarted,
    RaftEffect,
    RaftRequestArrived,
    RecordsOffered,
    ResignRequested,
    ShutdownBegan,
    SnapshotCreated,
    StoreQuorumState,
    TimeAdvanced,
)
from headrace.records.batch import iter_batches
from headrace.wire.messages import fetch, vote
from tests.support.raft import CLUSTER_ID, RaftBench
from tests.transcripts.runner import play, transcripts, words


class RaftTranscript:
    """One node, driven by commands."""

    def __init__(self) -> None:
        self.bench = RaftBench(retention_bytes=1)
        self.ordered: list[StoreQuorumState] = []
        self.tokens = count(1)

    def run(self, command: str) -> list[str]:
        """The effects of one command, then the role."""
        name, plain, options = words(command)
        effects: list[RaftEffect] = getattr(self, f"do_{name}")(
            *plain, **{k.replace("-", "_"): v for k, v in options.items()}
        )
        self.ordered += [effect for effect in effects if isinstance(effect, StoreQuorumState)]
        role = self.bench.node.role
        ends = f"log end {self.bench.log.log_end_offset}, high watermark {self.bench.node.high_watermark}"
        return [
            *(f"  {self.shown(effect)}" for effect in effects),
            f"{type(role).__name__} of epoch {role.epoch}, {ends}",
        ]

    def do_start(self) -> list[RaftEffect]:
        return self.bench.step(NodeStarted(now_ms=self.bench.now_ms))

    def do_stored(self) -> list[RaftEffect]:
        return self.bench.store(self.ordered.pop(0))

    def do_flushed(self) -> list[RaftEffect]:
        return self.bench.flush()

    def do_offer(self, *records: str) -> list[RaftEffect]:
        node = self.bench.node
        event = RecordsOffered(
            records=tuple(record.encode() for record in records),
            base_offset=node.next_offset,
            epoch=node.epoch,
            now_ms=self.bench.now_ms,
        )
        return self.bench.step(event)

    def do_time(self, ms: str) -> list[RaftEffect]:
        self.bench.now_ms += int(ms)
        return self.bench.step(TimeAdvanced(now_ms=self.bench.now_ms))

    def do_fetch(
        self, offset: str, epoch: str, wait: str = "0", leader_epoch: str = "", known_hw: str = ""
    ) -> list[RaftEffect]:
        partition = fetch.FetchPartition(
            fetch_offset=int(offset),
            last_fetched_epoch=int(epoch),
            current_leader_epoch=int(leader_epoch or self.bench.node.epoch),
            partition_max_bytes=10_000,
            high_watermark=int(known_hw or 2**63 - 1),
        )
        request = fetch.FetchRequest(
            cluster_id=CLUSTER_ID,
            max_wait_ms=int(wait),
            replica_state=fetch.ReplicaState(replica_id=7),
            topics=(fetch.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
        )
        return self._ask(request, 18)

    def do_vote(self, epoch: str, *flags: str, **options: str) -> list[RaftEffect]:
        partition = vote.RequestPartitionData(
            replica_epoch=int(epoch),
            replica_id=int(options["from"]),
            last_offset=self.bench.log.log_end_offset + ("ahead" in flags),
            last_offset_epoch=self.bench.log.latest_epoch or 0,
            pre_vote="pre" in flags,
        )
        topic = vote.RequestTopicData(topic_name="__cluster_metadata", partitions=(partition,))
        return self._ask(vote.VoteRequest(cluster_id=CLUSTER_ID, topics=(topic,)), 2)

    def do_snapshot(self, end: str) -> list[RaftEffect]:
        self.bench.snapshots.put(OffsetAndEpoch(int(end), self.bench.node.epoch), b"snapshot")
        return self.bench.step(
            SnapshotCreated(end_offset=int(end), epoch=self.bench.node.epoch, now_ms=self.bench.now_ms)
        )

    def do_resign(self) -> list[RaftEffect]:
        return self.bench.step(ResignRequested(epoch=self.bench.node.epoch, now_ms=self.bench.now_ms))

    def do_shutdown(self) -> list[RaftEffect]:
        return self.bench.step(ShutdownBegan(now_ms=self.bench.now_ms))

    def do_crash(self) -> list[RaftEffect]:
        before = self.bench
        self.bench = RaftBench(
            log=before.log.crash(), state=before.state, snapshots=before.snapshots, retention_bytes=1
        )
        self.bench.now_ms = before.now_ms
        self.ordered.clear()
        return []

    def _ask(self, request: fetch.FetchRequest | vote.VoteRequest, version: int) -> list[RaftEffect]:
        event = RaftRequestArrived(
            token=next(self.tokens), request=request, api_version=version, listener="", now_ms=self.bench.now_ms
        )
        return self.bench.step(event)

    def shown(self, effect: RaftEffect) -> str:
        """One line an effect."""
        match effect:
            case StoreQuorumState(state=state):
                return f"store epoch={state.leader_epoch} leader={state.leader_id} voted={state.voted_id}"
            case FlushLog():
                return "flush"
            case HighWatermarkAdvanced(to=to):
                return f"committed below {to}"
            case LeadershipClaimed(epoch=epoch, next_offset=next_offset):
                return f"leads {epoch}, next offset {next_offset}"
            case LeadershipLost(epoch=epoch):
                return f"leads {epoch} no more"
            case LeaderChanged(leader_id=leader_id, epoch=epoch):
                return f"leader of {epoch} is {leader_id}"
            case AnswerRaftRequest(token=token, response=fetch.FetchResponse() as response):
                return f"answer {token}: {_fetched(response)}"
            case AnswerRaftRequest(token=token, response=vote.VoteResponse() as response):
                [partition] = response.topics[0].partitions
                error = ErrorCode(partition.error_code).name
                return f"answer {token}: {error} granted={partition.vote_granted} leader={partition.leader_id}"
            case other:
                return repr(other)


def _fetched(response: fetch.FetchResponse) -> str:
    [partition] = response.responses[0].partitions
    records = [header.base_offset for _, header in iter_batches(bytes(partition.records or b""))]
    shown = f"{ErrorCode(partition.error_code).name} batches={records} hw={partition.high_watermark}"
    if partition.snapshot_id.end_offset >= 0:
        shown += f" snapshot={partition.snapshot_id.end_offset}-{partition.snapshot_id.epoch}"
    if partition.diverging_epoch.epoch >= 0:
        shown += f" diverging={partition.diverging_epoch.epoch}@{partition.diverging_epoch.end_offset}"
    return shown


@pytest.mark.parametrize("path", transcripts("raft"), ids=lambda path: path.stem)
def test_raft_transcript(path: Path) -> None:
    """The file's first line is the rule; B-R02, B-R03, B-R14 and B-S05 as conversations."""
    play(path, RaftTranscript().run)
