"""The registration of this node's controller with the active one (KIP-919, B-C19).

Every controller registers, active or not, once the metadata.version has the record and whenever the registered incarnation or addresses
are not this process's.
"""

from __future__ import annotations

from headrace.broker.ports import ControllerChannel
from headrace.core.ids import Uuid
from headrace.core.ports import Rng
from headrace.metadata.image import EndPoint, MetadataImage
from headrace.metadata.versions import SUPPORTED_FEATURES, has_controller_registration
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import AnyReply
from headrace.wire.messages.controller_registration import ControllerRegistrationRequest, Feature, Listener

_CONTROLLER_REGISTRATION = 70
_TIMEOUT_MS = 5_000
RETRY_MS = 1_000
"""How long it waits for its record to show up before it asks again."""


class ControllerRegistrar:
    """Registers one controller. Driven by `node.machine`: `published` with each new image, `tick`."""

    def __init__(
        self,
        *,
        node_id: int,
        incarnation_id: Uuid,
        end_points: tuple[EndPoint, ...],
        controller: ControllerChannel,
        rng: Rng,
    ) -> None:
        self.incarnation_id = incarnation_id
        self._node_id = node_id
        self._end_points = end_points
        self._controller = controller
        self._rng = rng
        self._is_asking = False
        self._again_at_ms: int | None = None
        self._is_stopped = False

    def published(self, image: MetadataImage, now_ms: int) -> None:
        """Metadata was committed: register if it does not know this process yet."""
        if self._is_known(image) or self._is_stopped:
            self._again_at_ms = None
        elif self._again_at_ms is None and not self._is_asking:
            self._register(now_ms)

    def tick(self, image: MetadataImage, now_ms: int) -> None:
        """Ask again when that is due."""
        if self._again_at_ms is not None and now_ms >= self._again_at_ms:
            self._again_at_ms = None
            self.published(image, now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do."""
        return self._again_at_ms

    def stop(self) -> None:
        """The process ends: no more registrations."""
        self._is_stopped = True
        self._again_at_ms = None

    def _is_known(self, image: MetadataImage) -> bool:
        """Whether the metadata has this process, or cannot have it yet."""
        level = image.features.metadata_version
        if level is None or not has_controller_registration(level):
            return True
        known = image.cluster.controllers.get(self._node_id)
        return known is not None and known.incarnation_id == self.incarnation_id

    def _register(self, now_ms: int) -> None:
        self._is_asking = True
        request = ControllerRegistrationRequest(
            controller_id=self._node_id,
            incarnation_id=self.incarnation_id,
            zk_migration_ready=False,
            listeners=tuple(
                Listener(name=one.name, host=one.host, port=one.port, security_protocol=one.security_protocol)
                for one in self._end_points
            ),
            features=tuple(
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in sorted(SUPPORTED_FEATURES.items())
            ),
        )
        context = RequestContext(api_key=_CONTROLLER_REGISTRATION, api_version=0, now_ms=now_ms, is_internal=True)
        asked = self._controller.send(request, context, deadline_ms=now_ms + _TIMEOUT_MS)
        self._again_at_ms = now_ms + _TIMEOUT_MS + RETRY_MS
        asked.when_done(lambda reply: self._answered(now_ms, reply))

    def _answered(self, asked_at_ms: int, _reply: AnyReply) -> None:
        """Refused or not: what counts is the record, looked for after a while (at its commit, `published` sees it)."""
        self._is_asking = False
        jitter_ms = self._rng.randrange(0, RETRY_MS // 10)
        self._again_at_ms = asked_at_ms + RETRY_MS + jitter_ms if self._again_at_ms is not None else None
