"""What happens to a simulated node, beside the requests and answers that reach it? The events of its steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.core.peers import SendFailure
    from headrace.node.machine import NodeEffect


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskDone:
    """Work for the disk is done, or failed: the event of a step."""

    effect: NodeEffect


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePassed:
    """A deadline of the node has come: the event of a step."""

    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
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
