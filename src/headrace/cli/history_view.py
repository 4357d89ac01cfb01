"""The forms in which `headrace history` shows events and objects."""

from __future__ import annotations

from typing import Any

from headrace.cli.moments import iso
from headrace.cli.output import show_json
from headrace.core.errors import OperatorError
from headrace.metadata.cause import Cause, CauseKind
from headrace.metadata.history import Happened
from headrace.metadata.history_text import api_name, hidden, sentence
from headrace.metadata.image import (
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
    BrokerRegistration,
    MetadataImage,
    PartitionRegistration,
    TopicImage,
)
from headrace.metadata.versions import metadata_version_name


def told_line(event: Happened) -> str:
    """The event in one line."""
    return f"{iso(event.time_ms)} offset {event.offset}: {sentence(event)}"


def event_facts(event: Happened) -> dict[str, Any]:
    """The event for a program."""
    facts: dict[str, Any] = {
        "offset": event.offset,
        "time_ms": event.time_ms,
        "epoch": event.epoch,
        "event": event.what,
        "text": sentence(event),
    }
    if event.topic:
        facts["topic"] = event.topic
    if event.partition >= 0:
        before, after = event.partitions()
        facts |= {
            "partition": event.partition,
            "before": None if before is None else _partition_facts(before),
            "after": None if after is None else _partition_facts(after),
        }
    if event.broker >= 0:
        facts["broker"] = event.broker
    facts["cause"] = None if event.cause is None else cause_facts(event.cause)
    return facts


def cause_facts(cause: Cause) -> dict[str, Any]:
    """A cause for a program: what is known of it."""
    known = {int(each): each.name for each in CauseKind}
    facts: dict[str, Any] = {"kind": known.get(cause.kind, cause.kind)}
    if cause.kind == CauseKind.REQUEST:
        facts |= {"api": api_name(cause.api_key), "principal": cause.principal, "correlation_id": cause.correlation_id}
        facts |= {"client_id": cause.client_id, "client_host": cause.client_host, "listener": cause.listener}
    for name, value in (("broker", cause.broker_id), ("through", cause.through), ("election", cause.election)):
        if value >= 0:
            facts[name] = value
    return facts


def _partition_facts(partition: PartitionRegistration) -> dict[str, Any]:
    return {
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "adding": list(partition.adding_replicas),
        "removing": list(partition.removing_replicas),
        "elr": list(partition.eligible_leader_replicas),
        "is_recovering": partition.leader_recovery_state != 0,
    }


def object_at(
    image: MetadataImage,
    topic: str | None,
    partition: int | None,
    broker: int | None,
    *,
    last: Happened | None,
) -> dict[str, Any]:
    """What was asked for as it is in the image, or else the cluster. Raises OperatorError: it is not there."""
    why = "" if last is None else f": {told_line(last)}"
    facts: dict[str, Any] = {}
    if topic is not None:
        found = image.topics.by_name.get(topic)
        if found is None or (partition is not None and partition not in found.partitions):
            name = f"topic {topic}" if partition is None else f"partition {topic}-{partition}"
            raise OperatorError(f"there was no {name}{why}")
        facts |= _topic_facts(image, found, partition)
    if broker is not None:
        registration = image.cluster.brokers.get(broker)
        if registration is None:
            raise OperatorError(f"broker {broker} was not registered{why}")
        facts |= _broker_facts(image, registration)
    return facts or _cluster_facts(image)


def show_object(facts: dict[str, Any], last: Happened | None, *, as_json: bool) -> None:
    """Print an object and what changed it last."""
    if as_json:
        show_json(facts | {"last_change": None if last is None else event_facts(last)})
        return
    for name, value in facts.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            for each in value:
                print("  " + _in_words(each))
        elif isinstance(value, dict):
            print(f"{name.replace('_', ' ')}: {_in_words(value) or 'none'}")
        else:
            print(f"{name.replace('_', ' ')}: {', '.join(value) if isinstance(value, list) else _word(value)}")
    print(f"last change: {'not known' if last is None else told_line(last)}")


def _in_words(facts: dict[str, Any]) -> str:
    return ", ".join(
        f"{'' if value else 'not '}{name.removeprefix('is_')}"
        if isinstance(value, bool)
        else f"{name.replace('_', ' ')} {_word(value)}"
        for name, value in facts.items()
    )


def _word(value: Any) -> str:
    """A value for a person: `none` for what is not there, `-` for an empty list."""
    if isinstance(value, list):
        return ",".join(map(str, value)) or "-"
    return "none" if value is None else str(value)


def _topic_facts(image: MetadataImage, topic: TopicImage, partition: int | None) -> dict[str, Any]:
    numbers = sorted(topic.partitions) if partition is None else [partition]
    return {
        "topic": topic.name,
        "topic_id": str(topic.id),
        "settings": _settings(image, RESOURCE_TOPIC, topic.name),
        "partitions": [{"partition": number, **_partition_facts(topic.partitions[number])} for number in numbers],
    }


def _broker_facts(image: MetadataImage, broker: BrokerRegistration) -> dict[str, Any]:
    state = "fenced" if broker.fenced else "about to stop" if broker.in_controlled_shutdown else "unfenced"
    return {
        "broker": broker.broker_id,
        "state": state,
        "broker_epoch": broker.broker_epoch,
        "incarnation": str(broker.incarnation_id),
        "rack": broker.rack,
        "listeners": [f"{each.name}://{each.host}:{each.port}" for each in broker.end_points],
        "log_dirs": [str(each) for each in broker.log_dirs],
        "broker_settings": _settings(image, RESOURCE_BROKER, str(broker.broker_id)),
    }


def _cluster_facts(image: MetadataImage) -> dict[str, Any]:
    level = image.features.metadata_version
    led = [each for topic in image.topics.by_id.values() for each in topic.partitions.values()]
    return {
        "metadata_version": None if level is None else metadata_version_name(level),
        "features": dict(sorted(image.features.levels.items())),
        "topics": len(image.topics.by_id),
        "partitions": len(led),
        "without_leader": sum(each.leader < 0 for each in led),
        "settings_of_all_brokers": _settings(image, RESOURCE_BROKER, ""),
        "brokers": [
            {
                key: value
                for key, value in _broker_facts(image, image.cluster.brokers[each]).items()
                if key in ("broker", "state", "broker_epoch", "rack")
            }
            for each in sorted(image.cluster.brokers)
        ],
    }


def _settings(image: MetadataImage, resource_type: int, name: str) -> dict[str, str]:
    found = image.configs.of(resource_type, name)
    return {key: hidden(resource_type, key, found[key]) for key in sorted(found)}
