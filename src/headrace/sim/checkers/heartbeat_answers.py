"""Heartbeats that say where brokers really are, and responses that say what is committed of them.  C26"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.core.error_code import ErrorCode
from headrace.metadata.versions import has_cordoned_log_dirs, has_directory_assignment
from headrace.sim.checkers.controller_steps import Judge, Reign
from headrace.sim.checkers.group import Group
from headrace.sim.observation import RequestSent
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.controller.events import Answer
    from headrace.metadata.image import BrokerRegistration, MetadataImage
    from headrace.sim.checkers.ghost import Life
    from headrace.sim.checkers.group import Handler


class HeartbeatOffsets(Group):
    """A heartbeat says how far the broker's readers are, and no further: the controller waits for them before it lets another broker go."""

    def after_changes(self) -> Mapping[type, Handler]:
        """Heartbeats that leave; one that found no controller may leave later."""
        return {RequestSent: self._sent}

    def _sent(self, life: Life, change: RequestSent) -> None:
        request, machine = change.request, self.scene.step.node.machine
        if not isinstance(request, BrokerHeartbeatRequest) or machine is None:
            return
        most = machine.image.provenance.last_contained_offset
        if request.current_metadata_offset > most:
            raise self.broken(
                "C26",
                f"broker {life.node_id} says that it has the metadata up to {request.current_metadata_offset}, it has them up to {most}",
                life,
            )


class HeartbeatAnswers(Judge):
    """What an answered heartbeat says of a broker is in the metadata that were committed when it left."""

    def answered(self, reign: Reign, request: Any, answer: Answer, now_ms: int) -> None:
        """KIP-631: fenced or not, caught up or not, free to go; KIP-858, KIP-1066: its directories are as it told."""
        response = answer.response
        if not isinstance(request, BrokerHeartbeatRequest) or not isinstance(response, BrokerHeartbeatResponse):
            return
        if response.error_code != ErrorCode.NONE or reign.answering is None:
            return
        images = self.group.ghost.committed.images_from(reign.answering.end)
        faults = [_fault(image, request, response) for image in images]
        if faults and all(faults):
            raise self.group.broken("C26", f"broker {request.broker_id} is told {response}, {faults[0]}", reign.life)
        self._count(request, response)

    def _count(self, request: BrokerHeartbeatRequest, response: BrokerHeartbeatResponse) -> None:
        if request.want_shut_down:
            self.group.hit("broker asked to stop")
        if request.offline_log_dirs:
            self.group.hit("broker lost a log directory")
        if request.cordoned_log_dirs:
            self.group.hit("broker cordoned a log directory")


def _fault(image: MetadataImage, request: BrokerHeartbeatRequest, response: BrokerHeartbeatResponse) -> str:
    """What an image says otherwise; "" when nothing, or when the broker is another incarnation by then."""
    broker = image.cluster.brokers.get(request.broker_id)
    if broker is None or broker.broker_epoch != request.broker_epoch:
        return ""
    if broker.fenced is not response.is_fenced:
        return f"its registration says fenced={broker.fenced}"
    if response.should_shut_down and not broker.fenced:
        return "it is not fenced"
    if response.is_caught_up is not (request.current_metadata_offset >= broker.broker_epoch):
        return f"it has read up to {request.current_metadata_offset} and registered at {broker.broker_epoch}"
    return _directories_fault(image, broker, request)


def _directories_fault(image: MetadataImage, broker: BrokerRegistration, request: BrokerHeartbeatRequest) -> str:
    level = image.features.metadata_version or 0
    lost = sorted(set(broker.log_dirs) & set(request.offline_log_dirs))
    if lost and len(lost) < len(broker.log_dirs) and has_directory_assignment(level):
        return f"the directories {lost} are offline and count as usable"
    cordoned = request.cordoned_log_dirs
    if cordoned is not None and has_cordoned_log_dirs(level) and set(cordoned) != set(broker.cordoned_log_dirs or ()):
        return f"it cordoned {cordoned}, its registration says {broker.cordoned_log_dirs}"
    return ""
