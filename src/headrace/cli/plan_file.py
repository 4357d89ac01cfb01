"""The file of a plan: a reassignment, and all that its forecast depends on, so that it is not applied to a cluster that has changed since.

What counts is not the offset of the metadata log, which moves on all the time, but the state of the partitions that are named (topic id, leader
and partition epoch) and of the brokers that have them or get them (epoch, fenced, stopping).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.cli.reassignment_file import format_reassignment, parse_reassignment
from headrace.core.errors import OperatorError
from headrace.core.ids import TopicPartition
from headrace.metadata.image import MetadataImage

_FORMAT = "headrace-plan-1"


def plan_document(image: MetadataImage, targets: Mapping[TopicPartition, Sequence[int]], cluster_id: str) -> str:
    """The plan as text."""
    document = {
        "format": _FORMAT,
        "clusterId": cluster_id,
        "metadataOffset": image.provenance.last_contained_offset,
        "reassignment": json.loads(format_reassignment(targets)),
        "dependsOn": depends_on(image, targets),
    }
    return json.dumps(document, indent=2) + "\n"


def depends_on(image: MetadataImage, targets: Mapping[TopicPartition, Sequence[int]]) -> dict[str, Any]:
    """The state of the partitions and brokers that a reassignment is about; null for what does not exist."""
    partitions: dict[str, Any] = {}
    brokers: set[int] = set()
    for where, replicas in sorted(targets.items()):
        topic = image.topics.by_name.get(where.topic)
        partition = None if topic is None else topic.partitions.get(where.partition)
        brokers |= set(replicas)
        state = None
        if topic is not None and partition is not None:
            brokers |= set(partition.replicas)
            state = {
                "topicId": str(topic.id),
                "leader": partition.leader,
                "leaderEpoch": partition.leader_epoch,
                "partitionEpoch": partition.partition_epoch,
            }
        partitions[f"{where.topic}-{where.partition}"] = state
    found: dict[str, Any] = {}
    for broker_id in sorted(brokers):
        broker = image.cluster.brokers.get(broker_id)
        found[str(broker_id)] = (
            None
            if broker is None
            else {"epoch": broker.broker_epoch, "fenced": broker.fenced, "stopping": broker.in_controlled_shutdown}
        )
    return {"partitions": partitions, "brokers": found}


def parse_plan(text: str) -> tuple[dict[TopicPartition, tuple[int, ...]], dict[str, Any], str]:
    """(targets, what they depend on, cluster id) of a plan. Raises OperatorError."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise OperatorError(
            "the plan is not valid JSON: make it with `headrace plan --reassignment FILE --save PLAN`"
        ) from None
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise OperatorError(
            f"the file is no plan ({_FORMAT}): make one with `headrace plan --reassignment FILE --save PLAN`"
        )
    targets = dict(parse_reassignment(json.dumps(document.get("reassignment"))).targets)
    depends = document.get("dependsOn")
    if not isinstance(depends, dict):
        raise OperatorError('the plan has no "dependsOn": make it again')
    return targets, depends, str(document.get("clusterId"))


def differences(planned: Mapping[str, Any], present: Mapping[str, Any]) -> Iterator[str]:
    """What has changed since the plan was made, one thing a text."""
    for kind, word in (("partitions", "partition"), ("brokers", "broker")):
        before, now = planned.get(kind), present[kind]
        if not isinstance(before, dict):
            yield f"the plan does not say which {kind} it depends on"
            continue
        for name in sorted({*before, *now}):
            old, new = before.get(name), now.get(name)
            if old != new:
                yield f"{word} {name}: {_said(old)} then, {_said(new)} now"


def _said(state: object) -> str:
    if not isinstance(state, dict):
        return "not there"
    return ", ".join(
        f"{key} {str(value).lower() if isinstance(value, bool) else value}" for key, value in state.items()
    )
