"""Metrics of the changes of replicas' states: how many in which phase, how long they take, and who is behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.broker.state_changes import ACTIONS, PHASES
from headrace.server.metrics.families import COUNTER, Family, Sample, exported_name, gauge, labelled, summary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.broker.state_changes import StateChanges
    from headrace.core.histogram import Histogram
    from headrace.node.metadata_plane import MetadataPlane
    from headrace.server.metrics.window import Window

BEAN: Final = "kafka.server:StateChange"


def state_change_families(changes: StateChanges, window: Window) -> Iterator[Family]:
    """`kafka.server:type=StateChange` (S3-09, B-M08)."""
    for phase in PHASES:
        name = exported_name(BEAN, phase)
        samples = tuple(
            Sample("_total", {"action": action}, float(changes.counts[phase, action])) for action in ACTIONS
        )
        yield Family(name, COUNTER, f"Changes of replicas' states that were {phase}.", samples)
    about = "Milliseconds from the controller's writing a change until a broker looked at it, by the clocks of both."
    for attribute, histogram, text in (
        ("RequestedToReceivedMs", changes.requested_to_received, about),
        ("ReceivedToCompletedMs", changes.received_to_completed, "Milliseconds until the change was in place."),
    ):
        totals = (histogram.count, histogram.total)
        yield summary(exported_name(BEAN, attribute), [({}, window.quantiles(attribute, histogram), totals)], text)
    yield gauge(BEAN, "Pending", changes.pending, "Changes that were received and are not in place.")
    yield gauge(BEAN, "PendingDeletes", changes.pending_deletes, "Replicas that are to go and are still there.")


def histograms(changes: StateChanges) -> dict[str, Histogram]:
    """What the window remembers, by attribute."""
    return {
        "RequestedToReceivedMs": changes.requested_to_received,
        "ReceivedToCompletedMs": changes.received_to_completed,
    }


def backlog_family(plane: MetadataPlane, now_ms: int) -> Family:
    """How far each registered broker is behind the committed metadata, by its fetches; on the active controller (S3-10). Cost: the brokers."""
    raft = plane.raft
    behind: dict[int, int] = {}
    if raft.replicas is not None and plane.is_controller_active:
        ends = {each.replica_id: each.log_end_offset for each in raft.replicas.observers(now_ms)}
        ends |= {each.replica_id: each.log_end_offset for each in raft.replicas.successors()}
        ends[raft.config.node_id] = raft.high_watermark
        for broker_id in sorted(plane.image.cluster.brokers):
            end = ends.get(broker_id)
            behind[broker_id] = raft.high_watermark if end is None else max(0, raft.high_watermark - end)
    values = [(str(broker_id), float(count)) for broker_id, count in behind.items()]
    about = "Committed records of the metadata log that this broker has not fetched."
    return labelled("kafka.server:StateChangeBacklog", "Value", "broker", values, about=about)
