"""The brokers as the active controller sees them: what the metadata say, and what only it knows of their sessions.

The numbers of a broker's state are 0 not registered, 1 fenced, 2 serving, 3 in controlled shutdown (KIP-343; S0-28).
"""

from __future__ import annotations

from headrace.controller.heartbeats import Heartbeats
from headrace.metadata.image import MetadataImage
from headrace.wire.messages.describe_quorum import BrokerView

FENCED, UNFENCED, CONTROLLED_SHUTDOWN = 1, 2, 3


def broker_views(image: MetadataImage, heartbeats: Heartbeats, now_ms: int) -> tuple[BrokerView, ...]:
    """One view for each registered broker, by id. `image` is what is committed."""
    silences = heartbeats.silences_ms(now_ms)
    views = []
    for broker_id in sorted(image.cluster.brokers):
        broker = image.cluster.brokers[broker_id]
        state = FENCED if broker.fenced else CONTROLLED_SHUTDOWN if broker.in_controlled_shutdown else UNFENCED
        views.append(
            BrokerView(
                broker_id=broker_id,
                state=state,
                broker_epoch=broker.broker_epoch,
                incarnation_id=broker.incarnation_id,
                is_fenced=broker.fenced,
                in_controlled_shutdown=broker.in_controlled_shutdown,
                silence_ms=silences.get(broker_id, -1),
                metadata_offset=heartbeats.metadata_offset(broker_id),
                waits_for_brokers=tuple(heartbeats.awaited_by(broker_id)),
            )
        )
    return tuple(views)
