"""The events of a simulated node's steps, beside the requests and responses that reach it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.values import quick_value

if TYPE_CHECKING:
    from headrace.core.peers import SendFailure
    from headrace.node.machine import NodeEffect


@quick_value
class DiskDone:
    """Work for the disk is done, or failed: the event of a step."""

    effect: NodeEffect


@quick_value
class TimePassed:
    """A deadline of the node has come: the event of a step."""

    now_ms: int


@quick_value
class Unheard:
    """A request has no answer: the event of a step."""

    correlation: int
    failure: SendFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkClosed:
    """A connection to this node is gone: the event of a step."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """A connect that was to send nothing ended: the event of a step."""

    correlation: int
    failure: SendFailure | None
