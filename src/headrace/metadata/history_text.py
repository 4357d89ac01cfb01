"""The sentences in which a history is told: what happened, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.config.rules import keys_of
from headrace.metadata.cause import ANONYMOUS, CauseKind
from headrace.metadata.history import QUORUM_LEADER
from headrace.metadata.image import LEADER_RECOVERING, NO_LEADER, RESOURCE_BROKER
from headrace.wire.versions import APIS, ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.metadata.cause import Cause
    from headrace.metadata.history import Happened
    from headrace.metadata.image import PartitionRegistration

NOT_TOLD: Final = "nobody wrote why"
_ELECTIONS: Final = {0: "preferred", 1: "unclean"}


def sentence(event: Happened) -> str:
    """The event in one line: what changed, and because of what."""
    what = _what(event)
    if event.what == QUORUM_LEADER:
        return what
    cause = event.cause
    if cause is not None and cause.broker_id == event.broker:
        kind = cause.kind
        if kind in (CauseKind.REGISTERED, CauseKind.CONTROLLER_REGISTERED) and event.what.endswith("-registered"):
            return f"{what} because {_PROCESSES[event.is_new_process]}"
        if (event.what, kind) in _OWN_REASONS:
            return f"{what} because {_OWN_REASONS[event.what, kind]}"
    return f"{what} {because(cause)}"


def because(cause: Cause | None) -> str:
    """Why, as the end of a sentence."""
    if cause is None:
        return f"({NOT_TOLD})"
    try:
        kind = CauseKind(cause.kind)
    except ValueError:
        return f"because of something that this version does not know (kind {cause.kind})"
    if kind is CauseKind.REQUEST:
        return f"because {_request(cause)}"
    return f"because {_REASONS[kind].format(broker=cause.broker_id)}"


_REASONS: Final[dict[CauseKind, str]] = {
    CauseKind.SESSION_EXPIRED: "broker {broker} was fenced: it sent no heartbeat for its session timeout",
    CauseKind.CONNECTION_REFUSED: "broker {broker} was fenced: its connections were refused",
    CauseKind.OWN_WISH: "broker {broker} asked to be fenced",
    CauseKind.CONTROLLED_SHUTDOWN: "broker {broker} is shutting down and moves its leaderships away",
    CauseKind.SHUT_DOWN: "broker {broker} has shut down",
    CauseKind.UNFENCED: "broker {broker} was unfenced: it has caught up",
    CauseKind.REGISTERED: "broker {broker} registered",
    CauseKind.ISR_CHANGE: "broker {broker} leads the partition and asked for it",
    CauseKind.DIRECTORY_FAILED: "a log directory of broker {broker} failed",
    CauseKind.DIRECTORIES_ASSIGNED: "broker {broker} said in which directories its replicas are",
    CauseKind.DIRECTORIES_CORDONED: "broker {broker} said which directories take no new replicas",
    CauseKind.BALANCING: "it was time to bring leaders back to their preferred replicas",
    CauseKind.UNCLEAN_TIMER: "it was time to find leaders for partitions without one",
    CauseKind.ACTIVATION: "a controller became active",
    CauseKind.CONTROLLER_REGISTERED: "controller {broker} registered",
    CauseKind.PRODUCER_IDS: "broker {broker} asked for producer ids",
}


_OWN_REASONS: Final[dict[tuple[str, int], str]] = {
    ("broker-fenced", CauseKind.SESSION_EXPIRED): "it sent no heartbeat for its session timeout",
    ("broker-fenced", CauseKind.CONNECTION_REFUSED): "its connections were refused",
    ("broker-fenced", CauseKind.OWN_WISH): "it asked for that",
    ("broker-fenced", CauseKind.SHUT_DOWN): "it has shut down",
    ("broker-unfenced", CauseKind.UNFENCED): "it has caught up",
    ("broker-stopping", CauseKind.CONTROLLED_SHUTDOWN): "it said so; its leaderships move away first",
    ("broker-directories", CauseKind.DIRECTORY_FAILED): "it said that they failed",
    ("broker-directories", CauseKind.DIRECTORIES_CORDONED): "it said so",
    ("producer-ids", CauseKind.PRODUCER_IDS): "it asked for them",
}
"""Where a cause is about the very broker that the event is about, and its whole sentence would say the event again."""
_PROCESSES: Final = {
    True: "it was started",
    False: "its process registered again",
    None: "its process asked for it",
}


def api_name(api_key: int) -> str:
    """The name of a request."""
    return APIS[api_key].name if api_key in APIS else f"request {api_key}"


def _request(cause: Cause) -> str:
    who = "a client" if cause.principal == ANONYMOUS else cause.principal
    what = api_name(cause.api_key)
    if cause.api_key == ApiKey.ELECT_LEADERS:
        what = f"a{'n' if cause.election == 1 else ''} {_ELECTIONS.get(cause.election, 'unknown')} election"
    elif cause.api_key == ApiKey.UNREGISTER_BROKER:
        what = f"broker {cause.broker_id} to be unregistered"
    facts = [f"client id {cause.client_id}"] if cause.client_id else []
    facts += [f"from {cause.client_host}"] if cause.client_host else []
    facts += [f"through broker {cause.through}"] if cause.through >= 0 else []
    return f"{who} asked for {what}" + (f" ({', '.join(facts)})" if facts else "")


def _what(event: Happened) -> str:
    if event.partition >= 0:
        return _of_partition(event, *event.partitions())
    tell = _TELLERS.get(event.what)
    return event.what if tell is None else tell(event)


def _of_partition(event: Happened, before: PartitionRegistration | None, after: PartitionRegistration | None) -> str:
    name = f"{event.topic}-{event.partition}"
    assert after is not None, "a partition is never taken away alone"
    if before is None:
        return f"{name} created: leader {_leader(after)}, replicas {_ids(after.replicas)}, ISR {_ids(after.isr)}"
    parts = []
    if before.leader != after.leader:
        unclean = after.leader_recovery_state == LEADER_RECOVERING and after.leader not in before.isr
        epochs = f"leader epoch {before.leader_epoch} -> {after.leader_epoch}"
        if unclean and after.leader not in before.eligible_leader_replicas:
            epochs += ", unclean: records may be lost"
        parts.append(f"leader of {name}: {_leader(before)} -> {_leader(after)} ({epochs})")
    parts += _reassignment(name, before, after)
    if set(before.isr) != set(after.isr):
        parts.append(f"ISR of {name}: {_ids(before.isr) or 'none'} -> {_ids(after.isr) or 'none'}")
    if before.leader_recovery_state == LEADER_RECOVERING != after.leader_recovery_state:
        parts.append(f"{name} has recovered from its unclean election")
    if before.directories != after.directories and before.replicas == after.replicas:
        parts.append(f"directories of {name} were noted")
    if set(before.eligible_leader_replicas) != set(after.eligible_leader_replicas):
        was, now = (_ids(each.eligible_leader_replicas) or "none" for each in (before, after))
        parts.append(f"eligible leader replicas of {name}: {was} -> {now}")
    return "; ".join(parts) or f"{name} changed"


def _reassignment(name: str, before: PartitionRegistration, after: PartitionRegistration) -> list[str]:
    was = (before.adding_replicas, before.removing_replicas)
    now = (after.adding_replicas, after.removing_replicas)
    moves = f"replicas {_ids(before.replicas)} -> {_ids(after.replicas)}"
    if was == now:
        return [] if before.replicas == after.replicas else [f"replicas of {name}: {moves.removeprefix('replicas ')}"]
    target = f"adding {_ids(now[0]) or 'none'}, removing {_ids(now[1]) or 'none'}"
    if not any(was):
        return [f"reassignment of {name} begins: {target}"]
    if any(now):
        return [f"reassignment of {name} gets another target: {target}"]
    wanted = {each for each in before.replicas if each not in before.removing_replicas}
    is_done = set(after.replicas) == wanted
    return [f"reassignment of {name} {'is complete' if is_done else 'is cancelled'}: {moves}"]


def _topic(event: Happened) -> str:
    return f"topic {event.topic} {'created' if event.what == 'topic-created' else 'deleted'}"


def _config(event: Happened) -> str:
    record: Any = event.record
    kinds = {2: "topic", 4: "broker", 8: "logger of broker", 16: "client metrics", 32: "group"}
    whose = f"{kinds.get(record.resource_type, 'resource')} {record.resource_name}".strip()
    if record.resource_type == 4 and not record.resource_name:
        whose = "all brokers"
    settings = event.before.configs.of(record.resource_type, record.resource_name)
    before, after = (
        "not set" if value is None else hidden(record.resource_type, record.name, value)
        for value in (settings.get(record.name), record.value)
    )
    return f"setting {record.name} of {whose}: {before} -> {after}"


def hidden(resource_type: int, name: str, value: str) -> str:
    """The value of a setting, unless it may be a secret."""
    if resource_type != RESOURCE_BROKER:
        return value
    key = keys_of(RESOURCE_BROKER).get(name)
    return "[hidden]" if key is None or key.is_sensitive else value


def _registered(event: Happened) -> str:
    record: Any = event.record
    before = event.before.cluster.brokers.get(event.broker)
    again = ""
    if before is not None and event.is_new_process:
        again = ", in place of its former process" + ("" if before.fenced else ", not fenced yet")
    return f"broker {event.broker} registered (broker epoch {record.broker_epoch}{again})"


def _directories(event: Happened) -> str:
    was, now = (each.cluster.brokers.get(event.broker) for each in (event.before, event.after))
    gone = set() if was is None or now is None else set(was.log_dirs) - set(now.log_dirs)
    if gone:
        return f"broker {event.broker} lost {len(gone)} of its log directories"
    before, after = (() if each is None else each.cordoned_log_dirs or () for each in (was, now))
    if before != after:
        return f"log directories of broker {event.broker} that take no new replicas: {len(before)} -> {len(after)}"
    return f"log directories of broker {event.broker} changed"


def _feature(event: Happened) -> str:
    record: Any = event.record
    return f"feature {record.name}: level {event.before.features.level(record.name)} -> {record.feature_level}"


_TELLERS: Final[dict[str, Callable[[Happened], str]]] = {
    QUORUM_LEADER: lambda event: f"node {event.broker} leads the metadata quorum in epoch {event.epoch}",
    "topic-created": _topic,
    "topic-deleted": _topic,
    "config": _config,
    "broker-registered": _registered,
    "broker-unregistered": lambda event: f"broker {event.broker} is not registered any more",
    "broker-fenced": lambda event: f"broker {event.broker} is fenced",
    "broker-unfenced": lambda event: f"broker {event.broker} is unfenced",
    "broker-stopping": lambda event: f"broker {event.broker} is about to stop",
    "broker-directories": _directories,
    "controller-registered": lambda event: f"controller {event.broker} registered",
    "feature": _feature,
    "producer-ids": lambda event: f"broker {event.broker} got a block of producer ids",
    "transaction-aborted": lambda event: "a metadata transaction was taken back",
}


def _leader(partition: PartitionRegistration) -> str:
    return "none" if partition.leader == NO_LEADER else str(partition.leader)


def _ids(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids))
