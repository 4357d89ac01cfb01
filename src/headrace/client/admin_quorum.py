"""Conversations about the metadata quorum: who votes, how far each voter and observer is, changes of the voters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headrace.client.retry import error_of
from headrace.client.routing import ask_controller
from headrace.client.session import Session
from headrace.client.talk import Call, Conversation
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ids import Uuid
from headrace.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from headrace.wire.messages.describe_quorum import (
    BrokerView,
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from headrace.wire.messages.remove_raft_voter import RemoveRaftVoterRequest

METADATA_TOPIC = "__cluster_metadata"
METADATA_QUORUM = (RequestTopicData(topic_name=METADATA_TOPIC, partitions=(RequestPartitionData(partition_index=0),)),)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterEndPoint:
    """Where a voter listens, under one listener name."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """One voter or observer as the leader knows it; None = the leader does not know (S4-53). Times are ms since 1970."""

    replica_id: int
    directory_id: Uuid
    log_end_offset: int | None
    last_fetch_timestamp: int | None
    last_caught_up_timestamp: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumInfo:
    """The quorum as its leader describes it (KIP-595, KIP-836, KIP-853; S4-52).

    `voters` and `observers` stand in the order of the answer. `target_voters` are the ids of a voter set that is in the log but not
    committed yet, else those of `voters`; only a Headrace leader tells the difference. `high_watermark` is -1 while it is unknown,
    `leader_id` None while nobody leads.
    """

    leader_id: int | None
    leader_epoch: int
    high_watermark: int
    voters: tuple[ReplicaState, ...]
    observers: tuple[ReplicaState, ...]
    target_voters: frozenset[int]
    end_points: dict[int, tuple[VoterEndPoint, ...]]

    @property
    def leader(self) -> ReplicaState | None:
        """The leader's own row."""
        return next((each for each in self.voters if each.replica_id == self.leader_id), None)


def describe_quorum(session: Session) -> Conversation[QuorumInfo]:
    """Ask the quorum's leader, through a broker or itself. Raises PeerError, OperatorError when none answers in time."""
    request = DescribeQuorumRequest(topics=METADATA_QUORUM, wants_node_view=True)
    response = yield from ask_controller(session, request, verdict=quorum_error)
    return quorum_info(response)


def describe_brokers(session: Session) -> Conversation[tuple[QuorumInfo, tuple[BrokerView, ...]]]:
    """The quorum, and what its leader knows of each broker; nothing of brokers where a controller of Kafka leads. Raises as `describe_quorum`."""
    request = DescribeQuorumRequest(topics=METADATA_QUORUM, wants_broker_views=True)
    response = yield from ask_controller(session, request, verdict=quorum_error)
    return quorum_info(response), response.broker_views


def quorum_error(response: Any) -> PeerError | None:
    """What is wrong with an answer of DescribeQuorum: the whole, its topics, or the one partition."""
    error = error_of(response.error_code, response.error_message)
    if error is not None:
        return error
    parts = [part for topic in response.topics for part in topic.partitions]
    if len(parts) != 1 or response.topics[0].topic_name != METADATA_TOPIC or parts[0].partition_index != 0:
        return PeerError(ErrorCode.UNKNOWN_SERVER_ERROR, "DescribeQuorum was answered for something else than asked")
    return error_of(parts[0].error_code, parts[0].error_message)


def quorum_info(response: Any) -> QuorumInfo:
    """A good answer of DescribeQuorum as a value; -1 becomes None."""
    part = response.topics[0].partitions[0]
    voters = tuple(_replica(each) for each in part.current_voters)
    target = frozenset(each.replica_id for each in voters)
    for view in response.node_views:
        if view.node_id == part.leader_id and view.voter_set_offset >= max(part.high_watermark, 0) and view.voters:
            target = frozenset(voter.voter_id for voter in view.voters)
    return QuorumInfo(
        leader_id=_known(part.leader_id),
        leader_epoch=part.leader_epoch,
        high_watermark=part.high_watermark,
        voters=voters,
        observers=tuple(_replica(each) for each in part.observers),
        target_voters=target,
        end_points={
            node.node_id: tuple(
                VoterEndPoint(name=each.name, host=each.host, port=each.port) for each in node.listeners
            )
            for node in response.nodes
        },
    )


def _replica(each: Any) -> ReplicaState:
    return ReplicaState(
        replica_id=each.replica_id,
        directory_id=each.replica_directory_id,
        log_end_offset=_known(each.log_end_offset),
        last_fetch_timestamp=_known(each.last_fetch_timestamp),
        last_caught_up_timestamp=_known(each.last_caught_up_timestamp),
    )


def _known(value: int) -> int | None:
    return None if value < 0 else value


def add_raft_voter(
    session: Session,
    voter_id: int,
    directory_id: Uuid,
    end_points: Iterable[VoterEndPoint],
    *,
    cluster_id: str | None = None,
) -> Conversation[None]:
    """Make a caught-up observer a voter (KIP-853); returns when the new voter set is committed. Raises PeerError."""
    listeners = tuple(Listener(name=each.name, host=each.host, port=each.port) for each in end_points)

    def build(version: int) -> AddRaftVoterRequest:
        return AddRaftVoterRequest(
            cluster_id=cluster_id,
            timeout_ms=session.settings.request_timeout_ms,
            voter_id=voter_id,
            voter_directory_id=directory_id,
            listeners=listeners,
        )

    yield from ask_controller(session, Call(api=AddRaftVoterRequest, build=build), verdict=_change_error)


def remove_raft_voter(
    session: Session, voter_id: int, directory_id: Uuid, *, cluster_id: str | None = None
) -> Conversation[None]:
    """Make a voter an observer (KIP-853); returns when the new voter set is committed. Raises PeerError."""
    request = RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=directory_id)
    yield from ask_controller(session, request, verdict=_change_error)


def _change_error(response: Any) -> PeerError | None:
    return error_of(response.error_code, response.error_message)
