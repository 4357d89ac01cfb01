"""The events of a simulated node's steps, beside the requests and responses that reach it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.values import value_class

if TYPE_CHECKING:
    from headrace.core.peers import SendFailure
    from headrace.node.machine import NodeEffect


@value_class
class DiskDone:
    """Work for the disk is done, or failed: the event of a step."""

    effect: NodeEffect


@value_class
class TimePassed:
    """A deadline of the node has come: the event of a step."""

    now_ms: int


@value_class
class Unheard:
    """A request has no answer: the event of a step."""

    correlation: int
    failure: SendFailure


@value_class
class LinkClosed:
    """A connection to this node is gone: the event of a step."""

    number: int


@value_class
class Probed:
    """A connect that was to send nothing ended: the event of a step."""

    correlation: int
    failure: SendFailure | None
