"""The node for a request: any, the controller, a partition's leader, a group's coordinator; also when that one has moved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from headrace.client.cluster_view import NodeView, PartitionView, TopicView
from headrace.client.error_text import wrong_listener
from headrace.client.retry import Attempts, error_of
from headrace.client.session import Session
from headrace.client.talk import Address, Answered, Ask, AskAll, Call, Conversation, Lost, Outcome, Unsupported, bounded
from headrace.core.error_code import ErrorCode
from headrace.core.errors import OperatorError, PeerError
from headrace.core.ids import TopicPartition
from headrace.wire.messages.describe_cluster import DescribeClusterRequest
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

T = TypeVar("T")
GROUP_KEY, TRANSACTION_KEY = 0, 1
CONTROLLERS = 2
MISSING_TRIES = 5
"""How often a topic that the cluster does not know is asked for again: news of a new one may still be on its way."""


def unsupported(outcome: Unsupported, address: Address | None = None) -> PeerError:
    """The error of a call whose API the node (at `address`) does not speak."""
    if outcome.is_controller and address is not None:
        return PeerError(ErrorCode.UNSUPPORTED_VERSION, wrong_listener(address, is_controller_wanted=False))
    return PeerError(ErrorCode.UNSUPPORTED_VERSION, outcome.reason)


def _check_kind(session: Session, address: Address, response: Any) -> None:
    """Raises OperatorError: the node says that its listener is of the other kind (KIP-919)."""
    if getattr(response, "error_code", 0) == ErrorCode.MISMATCHED_ENDPOINT_TYPE:
        raise OperatorError(wrong_listener(address, is_controller_wanted=session.settings.is_controller))


def ask_any(session: Session, request: Any, *, attempts: Attempts | None = None) -> Conversation[Answered]:
    """Ask the nodes in turn until one answers. Raises OperatorError when none does in time, PeerError when none speaks the API."""
    attempts = attempts or Attempts(session)
    while True:
        why = Lost(reason="no node is known")
        for address in session.cluster.candidates():
            outcome = yield Ask(address=address, request=request, timeout_ms=attempts.request_ms)
            if isinstance(outcome, Answered):
                session.cluster.answered(address)
                _check_kind(session, address, outcome.response)
                return outcome
            if isinstance(outcome, Unsupported):
                raise unsupported(outcome, address)
            why = outcome
            attempts.lost(address, why)
            if not attempts.left_ms:
                break
        yield from attempts.again(why)


def refresh(
    session: Session,
    topics: Iterable[str] | None = (),
    *,
    is_auto_created: bool = False,
    attempts: Attempts | None = None,
) -> Conversation[dict[str, TopicView | PeerError]]:
    """Fresh metadata of the nodes and of `topics` (None: all), each a view or the error the cluster gave for it."""
    if session.settings.is_controller:
        yield from _refresh_controllers(session, attempts)
        return {}
    wanted = None if topics is None else tuple(MetadataRequestTopic(name=name) for name in topics)
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=is_auto_created)
    outcome = yield from ask_any(session, bounded(request, at_least=4), attempts=attempts)
    return learn(session, outcome.response)


def learn(session: Session, response: MetadataResponse) -> dict[str, TopicView | PeerError]:
    """Take a metadata answer into the session's view."""
    cluster = session.cluster
    cluster.learn_nodes(
        NodeView(node_id=broker.node_id, address=Address(host=broker.host, port=broker.port), rack=broker.rack)
        for broker in response.brokers
        if broker.host and 0 < broker.port < 65536
    )
    cluster.cluster_id, cluster.controller_id = response.cluster_id, response.controller_id
    found: dict[str, TopicView | PeerError] = {}
    for topic in response.topics:
        name = topic.name or str(topic.topic_id)
        error = error_of(topic.error_code)
        if error is not None:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                cluster.forget_topic(name)
            found[name] = error
            continue
        view = TopicView(
            name=name,
            topic_id=topic.topic_id,
            is_internal=topic.is_internal,
            partitions=_partitions(topic.partitions),
            authorized_operations=topic.topic_authorized_operations,
        )
        cluster.learn_topic(view)
        found[name] = view
    return found


def _partitions(parts: Iterable[Any]) -> tuple[PartitionView, ...]:
    """Each partition once, by number: who reads one that an answer names twice would read its records twice."""
    by_number = {part.partition_index: _partition(part) for part in parts}
    return tuple(by_number[number] for number in sorted(by_number))


def _partition(part: Any) -> PartitionView:
    return PartitionView(
        partition=part.partition_index,
        leader=part.leader_id,
        leader_epoch=part.leader_epoch,
        replicas=tuple(part.replica_nodes),
        isr=tuple(part.isr_nodes),
        offline_replicas=tuple(part.offline_replicas),
        error_code=ErrorCode.known(part.error_code),
    )


def _refresh_controllers(session: Session, attempts: Attempts | None) -> Conversation[None]:
    outcome = yield from ask_any(
        session, bounded(DescribeClusterRequest(endpoint_type=CONTROLLERS), at_least=1), attempts=attempts
    )
    response = outcome.response
    error = error_of(response.error_code, response.error_message)
    if error is not None:
        raise error
    session.cluster.learn_nodes(
        NodeView(node_id=node.broker_id, address=Address(host=node.host, port=node.port), rack=node.rack)
        for node in response.brokers
    )
    session.cluster.cluster_id, session.cluster.controller_id = response.cluster_id, response.controller_id


def ask_until(
    session: Session,
    request: Any,
    *,
    pick: Callable[[Attempts], Conversation[Address | None]],
    verdict: Callable[[Any], PeerError | None],
    moved: Callable[[PeerError | Lost], None] = lambda why: None,
    attempts: Attempts | None = None,
) -> Conversation[Any]:
    """Ask the node that `pick` names until `verdict` finds no retriable error in the answer; the answer's response.

    `moved` is told of each failure, so that it can forget who it believed in. Raises the verdict's error when it is final.
    """
    attempts = attempts or Attempts(session)
    while True:
        why: PeerError | Lost = Lost(reason="no node is known that could answer")
        address = yield from pick(attempts)
        if address is not None:
            outcome: Outcome = yield Ask(address=address, request=request, timeout_ms=attempts.request_ms)
            if isinstance(outcome, Unsupported):
                raise unsupported(outcome, address)
            if isinstance(outcome, Answered):
                session.cluster.answered(address)
                error = verdict(outcome.response)
                if error is None:
                    return outcome.response
                if not error.code.is_retriable:
                    raise error
                why = error
            else:
                attempts.lost(address, outcome)
                why = outcome
        moved(why)
        yield from attempts.again(why)


def ask_controller(
    session: Session, request: Any, *, verdict: Callable[[Any], PeerError | None] = lambda response: None
) -> Conversation[Any]:
    """Ask a broker (which forwards to the controller), or the active controller itself when bootstrapped from controllers."""

    def pick(attempts: Attempts) -> Conversation[Address | None]:
        if session.settings.is_controller:
            yield from _refresh_controllers(session, attempts)
            return session.cluster.address_of(session.cluster.controller_id)
        if not session.cluster.nodes:
            yield from refresh(session, attempts=attempts)
        return session.cluster.candidates()[0]

    return (yield from ask_until(session, request, pick=pick, verdict=verdict))


def ask_node(
    session: Session,
    node_id: int,
    request: Any,
    *,
    verdict: Callable[[Any], PeerError | None] = lambda response: None,
    is_awaited: bool = True,
    attempts: Attempts | None = None,
) -> Conversation[Any]:
    """Ask the node with this id, wherever it is by then. Raises PeerError(BROKER_NOT_AVAILABLE): the cluster never had such a node, or has it no longer and it is not awaited."""
    known: Address | None = None

    def pick(attempts: Attempts) -> Conversation[Address | None]:
        nonlocal known
        known = session.cluster.address_of(node_id) or known
        if known is None or attempts.count:  # it may have come back elsewhere
            yield from refresh(session, attempts=attempts)
            known = session.cluster.address_of(node_id) or (known if is_awaited else None)
        if known is None:
            raise PeerError(ErrorCode.BROKER_NOT_AVAILABLE, f"the cluster has no node {node_id}")
        return known

    return (yield from ask_until(session, request, pick=pick, verdict=verdict, attempts=attempts))


def ask_each_node(
    session: Session, request: Any, *, verdict: Callable[[Any], PeerError | None] = lambda response: None
) -> Conversation[list[Any]]:
    """What every node of the cluster answers, by rising id. When one leaves meanwhile, all that remain are asked anew: they may have taken over what it had.

    Raises PeerError or OperatorError of the first node that stays in the cluster and does not answer in time.
    """
    attempts = Attempts(session)
    while True:
        yield from refresh(session, attempts=attempts)
        responses: list[Any] = []
        for node_id in sorted(session.cluster.nodes):
            try:
                response = yield from ask_node(
                    session,
                    node_id,
                    request,
                    verdict=verdict,
                    is_awaited=False,
                    attempts=Attempts(session, timeout_ms=attempts.left_ms),
                )
                responses.append(response)
            except PeerError as error:
                if error.code is not ErrorCode.BROKER_NOT_AVAILABLE:
                    raise
                yield from attempts.again(error)
                break
        else:
            return responses


def coordinator_of(
    session: Session, key: str, attempts: Attempts, *, kind: int = GROUP_KEY
) -> Conversation[Address | None]:
    """The coordinator of a group or transactional id, from memory or from the cluster; None when it is not there at the moment."""
    slot = key if kind == GROUP_KEY else f"\0{key}"
    known = session.coordinators.get(slot)
    if known is not None and (address := session.cluster.address_of(known)) is not None:
        return address
    if not session.cluster.nodes:
        yield from refresh(session, attempts=attempts)

    def build(version: int) -> FindCoordinatorRequest:
        if version >= 4:
            return FindCoordinatorRequest(key_type=kind, coordinator_keys=(key,))
        return FindCoordinatorRequest(key=key, key_type=kind)

    outcome = yield from ask_any(session, Call(api=FindCoordinatorRequest, build=build, at_least=1), attempts=attempts)
    response = outcome.response
    found = response.coordinators[0] if outcome.version >= 4 and response.coordinators else response
    error = error_of(found.error_code, found.error_message)
    if error is not None:
        if not error.code.is_retriable:
            raise error
        return None
    session.coordinators[slot] = found.node_id
    address = Address(host=found.host, port=found.port)
    session.cluster.learn_node(NodeView(node_id=found.node_id, address=address))
    return address


def ask_coordinator(
    session: Session,
    group_id: str,
    request: Any,
    *,
    verdict: Callable[[Any], PeerError | None],
    timeout_ms: int | None = None,
) -> Conversation[Any]:
    """Ask the coordinator of a group, following it when it moves."""

    def moved(why: PeerError | Lost) -> None:
        if isinstance(why, Lost) or why.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            session.coordinators.pop(group_id, None)

    return (
        yield from ask_until(
            session,
            request,
            pick=lambda attempts: coordinator_of(session, group_id, attempts),
            verdict=verdict,
            moved=moved,
            attempts=Attempts(session, timeout_ms=timeout_ms),
        )
    )


def leaders_of(
    session: Session, wanted: Iterable[TopicPartition], *, attempts: Attempts
) -> Conversation[tuple[dict[int, list[TopicPartition]], dict[TopicPartition, PeerError]]]:
    """Partitions by leader id, as far as leaders are known after asking; and why not, for the others."""
    every = list(wanted)
    missing = {
        where.topic for where in every if session.cluster.leaders.get(where, (-1, -1))[0] not in session.cluster.nodes
    }
    found: dict[str, TopicView | PeerError] = {}
    if missing:
        found = yield from refresh(session, sorted(missing), attempts=attempts)
    by_leader: dict[int, list[TopicPartition]] = {}
    lost: dict[TopicPartition, PeerError] = {}
    for where in every:
        leader = session.cluster.leaders.get(where, (-1, -1))[0]
        if leader in session.cluster.nodes:
            by_leader.setdefault(leader, []).append(where)
        else:
            lost[where] = no_leader(where, found)
    return by_leader, lost


def no_leader(where: TopicPartition, found: Mapping[str, TopicView | PeerError]) -> PeerError:
    """Why fresh metadata names no leader for a partition."""
    view = found.get(where.topic)
    if isinstance(view, PeerError):
        return view
    if view is not None and any(part.partition == where.partition for part in view.partitions):
        return PeerError(ErrorCode.LEADER_NOT_AVAILABLE, f"{where.topic}-{where.partition} has no leader")
    return PeerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {where.topic}-{where.partition}")


def ask_leaders(
    session: Session,
    wanted: Sequence[TopicPartition],
    *,
    build: Callable[[list[TopicPartition], int], Any],
    read: Callable[[Any], Mapping[TopicPartition, T | PeerError]],
    timeout_ms: int | None = None,
) -> Conversation[dict[TopicPartition, T | PeerError]]:
    """One request to each leader of `wanted`, all at the same time, repeated for the partitions whose error may pass.

    `build(partitions, timeout_ms)` makes a leader's request, `read` takes its answer apart. A partition that stays without an answer
    until the time is up carries its last error.
    """
    attempts = Attempts(session, timeout_ms=timeout_ms)
    done: dict[TopicPartition, T | PeerError] = {}
    left = list(dict.fromkeys(wanted))
    tries = 0
    while left:
        by_leader, failed = yield from leaders_of(session, left, attempts=attempts)
        asks = tuple(
            Ask(
                address=session.cluster.nodes[leader].address,
                request=build(parts, attempts.request_ms),
                timeout_ms=attempts.request_ms,
            )
            for leader, parts in by_leader.items()
        )
        outcomes: list[Outcome] = (yield AskAll(asks=asks)) if asks else []
        for outcome, ask, parts in zip(outcomes, asks, by_leader.values(), strict=True):
            failed |= _take(session, outcome, ask, parts, read, done)
        tries += 1
        left = [where for where, error in failed.items() if _may_pass(error, tries)]
        done |= {where: error for where, error in failed.items() if where not in set(left)}
        for where in left:
            session.cluster.forget_leader(where)
        if left:
            try:
                yield from attempts.again(failed[left[0]])
            except PeerError:
                return done | {where: failed[where] for where in left}
    return done


def _may_pass(error: PeerError, tries: int) -> bool:
    return error.code.is_retriable and (error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or tries < MISSING_TRIES)


def _take(
    session: Session,
    outcome: Outcome,
    ask: Ask,
    parts: list[TopicPartition],
    read: Callable[[Any], Mapping[TopicPartition, T | PeerError]],
    done: dict[TopicPartition, T | PeerError],
) -> dict[TopicPartition, PeerError]:
    """Put a leader's results into `done`; what failed, with why."""
    if isinstance(outcome, Unsupported):
        return {where: unsupported(outcome) for where in parts}
    if isinstance(outcome, Lost):
        session.cluster.failed(ask.address)
        return {where: PeerError(ErrorCode.NETWORK_EXCEPTION, outcome.reason) for where in parts}
    results = read(outcome.response)
    failed: dict[TopicPartition, PeerError] = {}
    for where in parts:
        result = results.get(where)
        if result is None:
            failed[where] = PeerError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"the node's answer leaves out {where.topic}-{where.partition}"
            )
        elif isinstance(result, PeerError):
            failed[where] = result
        else:
            done[where] = result
    return failed
