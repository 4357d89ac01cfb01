"""Reasons why a connection is not read."""

from __future__ import annotations

from enum import StrEnum


class Hold(StrEnum):
    """Why a connection's next request is not taken; while there is any reason its socket is not read.

    MEMORY alone leaves requests that have arrived whole to be handled: that is what makes room again.
    """

    REPLY = "reply"
    """An earlier request is to be answered first."""
    ADMISSION = "admission"
    """There are as many connections as `max.connections` allows (KIP-402), or they come faster than `max.connection.creation.rate` (KIP-612)."""
    QUOTA = "quota"
    """The client is above its quota and must wait (KIP-219)."""
    OUTPUT = "output"
    """The peer does not read its answers as fast as they come."""
    DISK = "disk"
    """An answer's bytes are still to be read from the disk."""
    MEMORY = "memory"
    """Requests that are not finished hold all the memory that they may (`queued.max.request.bytes`)."""
    RECORDS = "records"
    """More TLS records have come than are opened in one turn of the loop."""
    TURN = "turn"
    """Many ask for much at the same time: the rest waits for the loop's next turn."""
