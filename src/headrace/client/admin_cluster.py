"""Conversations about the cluster: its id, its nodes, what they speak, its features, how full its disks are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from headrace.client.cluster_view import NodeView
from headrace.client.connection import serves_controllers
from headrace.client.error_text import wrong_listener
from headrace.client.retry import Attempts, error_of
from headrace.client.routing import ask_any, ask_controller, ask_node, refresh
from headrace.client.session import Session
from headrace.client.talk import Address, Answered, Call, Conversation, Unsupported, Versions
from headrace.core.error_code import ErrorCode
from headrace.core.errors import OperatorError, PeerError
from headrace.wire.messages.describe_cluster import DescribeClusterRequest
from headrace.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest
from headrace.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

BROKERS, CONTROLLERS = 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class EndPoint:
    """A node as DescribeCluster lists it; `is_fenced` is None where the cluster does not tell."""

    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """The answer of DescribeCluster."""

    cluster_id: str
    controller_id: int
    end_points: tuple[EndPoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevels:
    """What a cluster says of one feature: levels supported, and the level in force (0 and -1 when there is none)."""

    name: str
    min_supported: int
    max_supported: int
    finalized: int
    epoch: int


class UpgradeType(IntEnum):
    """How far a feature may be moved (KIP-584, KIP-778)."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaInfo:
    """One replica in a log directory. Sizes in bytes."""

    topic: str
    partition: int
    size: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirInfo:
    """One log directory of a broker."""

    path: str
    error: PeerError | None
    replicas: tuple[ReplicaInfo, ...]
    total_bytes: int
    usable_bytes: int


def describe_cluster(session: Session, *, is_with_fenced: bool = False) -> Conversation[ClusterDescription]:
    """Cluster id, controller and nodes: brokers, or controllers when bootstrapped from those. Raises PeerError."""
    kind = CONTROLLERS if session.settings.is_controller else BROKERS

    def build(version: int) -> DescribeClusterRequest:
        return DescribeClusterRequest(
            endpoint_type=kind if version >= 1 else BROKERS, include_fenced_brokers=is_with_fenced
        )

    at_least = 2 if is_with_fenced else 1 if kind == CONTROLLERS else 0
    outcome = yield from ask_any(session, Call(api=DescribeClusterRequest, build=build, at_least=at_least))
    response = outcome.response
    error = error_of(response.error_code, response.error_message)
    if error is not None:
        raise error
    return ClusterDescription(
        cluster_id=response.cluster_id,
        controller_id=response.controller_id,
        end_points=tuple(
            EndPoint(
                node_id=each.broker_id,
                host=each.host,
                port=each.port,
                rack=each.rack,
                is_fenced=each.is_fenced if outcome.version >= 2 else None,
            )
            for each in response.brokers
        ),
    )


def unregister_broker(
    session: Session, broker_id: int, *, is_decommission: bool = False, is_forced: bool = False
) -> Conversation[dict[str, tuple[int, ...]]]:
    """Take a broker out of the cluster's register; with `is_decommission` out of all assignments too (S1-66).

    The partitions, by topic, that lost their only replica in sync by that (S1-71). Raises PeerError.
    """
    request = UnregisterBrokerRequest(broker_id=broker_id, remove_from_assignments=is_decommission, force=is_forced)
    response = yield from ask_controller(
        session, request, verdict=lambda answer: error_of(answer.error_code, answer.error_message)
    )
    return {each.name: tuple(each.partitions) for each in response.emptied_topics}


def nodes(session: Session) -> Conversation[list[NodeView]]:
    """Every node that the cluster's metadata lists, by rising id."""
    yield from refresh(session)
    return sorted(session.cluster.nodes.values(), key=lambda node: node.node_id)


def api_versions(session: Session) -> Conversation[list[tuple[NodeView, Any | OperatorError]]]:
    """What each node speaks: its ApiVersionsResponse, or why it cannot be asked."""
    every = yield from nodes(session)
    found: list[tuple[NodeView, Any | OperatorError]] = []
    for node in every:
        outcome = yield Versions(address=node.address, timeout_ms=session.settings.request_timeout_ms)
        found.append((node, outcome.response if isinstance(outcome, Answered) else OperatorError(outcome.reason)))
    return found


def _features(session: Session, attempts: Attempts, node_id: int | None) -> Conversation[Any]:
    """One node's ApiVersionsResponse: that of `node_id`, or of any."""
    only: Address | None = None
    if node_id is not None:
        yield from refresh(session, attempts=attempts)
        only = session.cluster.address_of(node_id)
        if only is None:
            raise PeerError(ErrorCode.BROKER_NOT_AVAILABLE, f"the cluster has no node {node_id}")
    while True:
        why = None
        for address in session.cluster.candidates() if only is None else [only]:
            outcome = yield Versions(address=address, timeout_ms=attempts.request_ms)
            if isinstance(outcome, Answered):
                is_controller = serves_controllers({each.api_key for each in outcome.response.api_keys})
                if is_controller is (not session.settings.is_controller):
                    raise OperatorError(wrong_listener(address, is_controller_wanted=session.settings.is_controller))
                return outcome.response
            if isinstance(outcome, Unsupported):
                continue
            why = outcome
            attempts.lost(address, outcome)
        if why is None:
            raise OperatorError("no node of the cluster tells its features")
        yield from attempts.again(why)


def describe_features(session: Session, *, node_id: int | None = None) -> Conversation[list[FeatureLevels]]:
    """Every feature that a node of the cluster supports, by name; of any node unless `node_id` says which."""
    response = yield from _features(session, Attempts(session), node_id)
    finalized = {each.name: each.max_version_level for each in response.finalized_features}
    supported = {each.name: (each.min_version, each.max_version) for each in response.supported_features}
    return [
        FeatureLevels(
            name=name,
            min_supported=supported[name][0],
            max_supported=supported[name][1],
            finalized=finalized.get(name, 0),
            epoch=response.finalized_features_epoch,
        )
        for name in sorted(supported)
    ]


def update_features(
    session: Session,
    levels: Mapping[str, int],
    *,
    upgrade_type: UpgradeType,
    is_dry_run: bool = False,
    timeout_ms: int = 60_000,
) -> Conversation[dict[str, PeerError | None]]:
    """Set the levels of features; None for each that was (or could be) set."""

    def build(version: int) -> UpdateFeaturesRequest:
        return UpdateFeaturesRequest(
            timeout_ms=timeout_ms,
            feature_updates=tuple(
                FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=int(upgrade_type))
                if version >= 1
                else FeatureUpdateKey(
                    feature=name, max_version_level=level, allow_downgrade=upgrade_type is not UpgradeType.UPGRADE
                )
                for name, level in levels.items()
            ),
            validate_only=is_dry_run,
        )

    at_least = 1 if is_dry_run or upgrade_type is UpgradeType.UNSAFE_DOWNGRADE else 0

    def verdict(answer: Any) -> PeerError | None:
        error = error_of(answer.error_code, answer.error_message)
        return error if error is not None and error.code is ErrorCode.NOT_CONTROLLER else None

    response = yield from ask_controller(
        session, Call(api=UpdateFeaturesRequest, build=build, at_least=at_least), verdict=verdict
    )
    whole = error_of(response.error_code, response.error_message)
    rows = {row.feature: error_of(row.error_code, row.error_message) for row in response.results}
    return {name: whole if whole is not None else rows.get(name) for name in levels}


def describe_log_dirs(
    session: Session, broker_ids: Sequence[int], topics: Iterable[str] | None = None
) -> Conversation[dict[int, list[LogDirInfo] | PeerError]]:
    """The log directories of each broker, with the replicas of `topics` (None: of all); or why it does not tell, as it has left the cluster."""
    wanted = None
    if topics is not None:
        found = yield from refresh(session, list(topics))
        wanted = tuple(
            DescribableLogDirTopic(topic=name, partitions=tuple(part.partition for part in view.partitions))
            for name, view in found.items()
            if not isinstance(view, PeerError)
        )
    infos: dict[int, list[LogDirInfo] | PeerError] = {}
    for broker_id in broker_ids:
        try:
            response = yield from ask_node(session, broker_id, DescribeLogDirsRequest(topics=wanted), is_awaited=False)
        except PeerError as error:
            infos[broker_id] = error
            continue
        except OperatorError as error:
            infos[broker_id] = PeerError(ErrorCode.REQUEST_TIMED_OUT, str(error))
            continue
        infos[broker_id] = error_of(response.error_code) or [_log_dir(each) for each in response.results]
    return infos


def _log_dir(each: Any) -> LogDirInfo:
    return LogDirInfo(
        path=each.log_dir,
        error=error_of(each.error_code),
        replicas=tuple(
            ReplicaInfo(
                topic=topic.name,
                partition=part.partition_index,
                size=part.partition_size,
                offset_lag=part.offset_lag,
                is_future=part.is_future_key,
            )
            for topic in each.topics
            for part in topic.partitions
        ),
        total_bytes=each.total_bytes,
        usable_bytes=each.usable_bytes,
    )
