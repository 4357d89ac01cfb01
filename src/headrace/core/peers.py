"""Another node that is asked, and the ways in which asking it fails."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Destination(NamedTuple):
    """Where a request to another node goes. `node_id` is -1 for a bootstrap server, whose id nobody knows yet."""

    node_id: int
    host: str
    port: int


class SendFailure(Enum):
    """Why a request to another node has no answer.

    REFUSED: its host lives and takes no connection there, so no process of that node listens; DISCONNECTED: the connection went away
    or could not be made for another reason; TIMED_OUT: silence; UNSUPPORTED_VERSION: both sides speak no common version, nothing was sent.
    """

    REFUSED = "refused"
    TIMED_OUT = "timed out"
    DISCONNECTED = "disconnected"
    UNSUPPORTED_VERSION = "no common version"
