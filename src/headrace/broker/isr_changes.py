"""A leader's proposals of another ISR on their way to the controller, and its responses."""

from __future__ import annotations

from collections.abc import Callable

from headrace.broker.partitions import HostedPartition, PartitionTable
from headrace.broker.ports import ControllerChannel
from headrace.core.error_code import ErrorCode
from headrace.core.ids import Uuid
from headrace.replication.leader import LeaderTerms, PartitionLeader, ProposeIsr
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import AnyReply, Reply
from headrace.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)

_ALTER_PARTITION = 56
_TIMEOUT_MS = 10_000
"""A response that is lost is waited for so long. Meanwhile no other proposal of its partitions leaves, so it is less than the 30 s of Kafka's brokers; to
ask twice is safe, for a proposal names the partition epoch that it changes.
"""
_RETRY_MS = 50


class IsrChanges:
    """Sends proposals as AlterPartition, one request at a time with all that wait (KIP-497).

    A proposal whose request failed is sent again with the next `tick`; what the controller refused goes back to its leader.
    """

    def __init__(
        self,
        *,
        broker_id: int,
        controller: ControllerChannel,
        partitions: PartitionTable,
        partition_changed: Callable[[HostedPartition], None],
        now_ms: Callable[[], int],
        keeps_elr: Callable[[], bool],
    ) -> None:
        """`keeps_elr`: the cluster has eligible leader replicas (KIP-966)."""
        self.broker_epoch = -1
        self.expands = 0
        """IsrExpandsPerSec: proposals that the controller took and that added a replica."""
        self.shrinks = 0
        """IsrShrinksPerSec."""
        self.failed = 0
        """FailedIsrUpdatesPerSec: proposals that the controller refused."""
        self.awaiting: dict[HostedPartition, None] = {}
        """Partitions that may have followers that are awaited; see `replication.leader`."""
        self._broker_id = broker_id
        self._controller = controller
        self._partitions = partitions
        self._partition_changed = partition_changed
        self._now_ms = now_ms
        self._keeps_elr = keeps_elr
        self._waiting: dict[HostedPartition, ProposeIsr] = {}
        self._sent: dict[HostedPartition, ProposeIsr] = {}
        self._retry_at_ms: int | None = None

    def propose(self, hosted: HostedPartition, proposal: ProposeIsr) -> None:
        """Have the controller decide about this one; a newer proposal for the partition takes the place of an older."""
        self._waiting[hosted] = proposal
        if not self._sent and self._retry_at_ms is None:
            self._send()

    def tick(self, now_ms: int) -> None:
        """Send again what failed."""
        if self._retry_at_ms is not None and now_ms >= self._retry_at_ms:
            self._retry_at_ms = None
            if self._waiting and not self._sent:
                self._send()

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do."""
        return self._retry_at_ms

    def _send(self) -> None:
        self._sent, self._waiting = self._waiting, {}
        topics: dict[Uuid, list[RequestPartitionData]] = {}
        for hosted, proposal in self._sent.items():
            topics.setdefault(hosted.topic_id, []).append(
                RequestPartitionData(
                    partition_index=hosted.partition,
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=tuple(
                        BrokerState(
                            broker_id=broker,
                            broker_epoch=self.broker_epoch if broker == self._broker_id else epoch,
                        )
                        for broker, epoch in proposal.isr
                    ),
                    leader_recovery_state=proposal.leader_recovery_state,
                    partition_epoch=proposal.partition_epoch,
                )
            )
        request = AlterPartitionRequest(
            broker_id=self._broker_id,
            broker_epoch=self.broker_epoch,
            topics=tuple(
                RequestTopicData(topic_id=topic_id, partitions=tuple(each)) for topic_id, each in topics.items()
            ),
        )
        context = RequestContext(api_key=_ALTER_PARTITION, api_version=3, is_internal=True)
        self._controller.send(request, context, deadline_ms=self._now_ms() + _TIMEOUT_MS).when_done(self._answered)

    def _answered(self, reply: AnyReply) -> None:
        sent, self._sent = self._sent, {}
        assert isinstance(reply, Reply), "the controller answers with a message"
        response = reply.message
        assert isinstance(response, AlterPartitionResponse), "the api's own response"
        answers: dict[tuple[bytes, int], ResponsePartitionData] = {
            (topic.topic_id, partition.partition_index): partition
            for topic in response.topics
            for partition in topic.partitions
        }
        for hosted, proposal in sent.items():
            answer = answers.get((hosted.topic_id, hosted.partition))
            if response.error_code != ErrorCode.NONE or answer is None:
                self._waiting.setdefault(hosted, proposal)
                self._retry_at_ms = self._now_ms() + _RETRY_MS
            else:
                self._settle(hosted, proposal, answer)
        if self._waiting and self._retry_at_ms is None:
            self._send()

    def _settle(self, hosted: HostedPartition, proposal: ProposeIsr, answer: ResponsePartitionData) -> None:
        leader = hosted.leader
        if leader is None:
            return
        terms = None
        if answer.error_code != ErrorCode.NONE:
            self.failed += 1
        else:
            self.expands += proposal.growth > 0
            self.shrinks += proposal.growth < 0
            if self._keeps_elr() and _has_left(leader, answer):
                return
            terms = LeaderTerms(
                leader_epoch=answer.leader_epoch,
                partition_epoch=answer.partition_epoch,
                replicas=leader.replicas,
                isr=answer.isr,
                leader_recovery_state=answer.leader_recovery_state,
            )
        again = leader.isr_answered(proposal, ErrorCode.known(answer.error_code), terms, now_ms=self._now_ms())
        if again is not None:
            self._waiting.setdefault(hosted, again)
            self._retry_at_ms = self._now_ms() + _RETRY_MS
        self._partition_changed(hosted)


def _has_left(leader: PartitionLeader, answer: ResponsePartitionData) -> bool:
    """Somebody leaves the ISR by this, and perhaps joins the ELR: nothing more may be committed without them than `min.insync.replicas` allows.

    The controller counts by the setting as it is there. It may have been raised in metadata that this broker has not read, so the smaller ISR
    counts when metadata tell of it, behind that; until then all of the larger one do (P5).
    """
    return answer.partition_epoch > leader.partition_epoch and not set(leader.isr) <= set(answer.isr)
