"""Requests of a simulated node to other nodes: what a follower asks its leader travels as bytes, all else as messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.node.outbound import Channel, SendRequest
from headrace.sim.network import BytesCall
from headrace.sim.observation import RequestSent

if TYPE_CHECKING:
    from headrace.sim.links import Caller
    from headrace.sim.world import World

_FETCH_VERSIONS: Final = (17, 18)
"""What followers speak, which the handler reads as bytes."""


def send(world: World, caller: Caller, effect: SendRequest) -> None:
    """A request leaves; what is said to the quorum is noted for those who judge it."""
    timeout_us = effect.timeout_ms * 1_000
    if effect.channel is Channel.REPLICATION:
        call = BytesCall(effect.correlation, effect.request, _FETCH_VERSIONS[caller.node_id % 2])
        world.network.send_bytes(caller, effect.to, call, timeout_us=timeout_us, purpose=(effect.channel, effect.lane))
        return
    world.step.changes.append(RequestSent(effect.to.node_id, effect.request, effect.correlation))
    world.network.send(caller, effect.to, effect.channel, effect.correlation, effect.request, timeout_us=timeout_us)
