"""Long responses, encoded while others have their turns, and how long they may be."""

from __future__ import annotations

from typing import Any, Final

from headrace.core.errors import EncodeError
from headrace.rpc.long_work import Steps
from headrace.rpc.reply import AnyReply, CloseConnection, EncodedReply
from headrace.rpc.unread import MOST_ANSWER_BYTES, LongAnswer
from headrace.wire.codec import encode_in_steps

_PIECE_BYTES: Final = 1 << 20


def encoded_in_steps(name: str, message: Any, version: int, out: LongAnswer) -> Steps[AnyReply]:
    """An answer, written into `out`. One that is longer than MOST_ANSWER_BYTES, or cannot be written, closes its connection."""
    try:
        for _ in encode_in_steps(message, version, out):
            out.has_grown()
            if len(out) > MOST_ANSWER_BYTES:
                return CloseConnection(f"the answer to {name} has more than {MOST_ANSWER_BYTES} bytes")
            yield None
    except EncodeError as error:
        return unwritable(name, version, error)
    out.has_grown()
    view = memoryview(out)
    return EncodedReply(tuple(view[at : at + _PIECE_BYTES] for at in range(0, len(out), _PIECE_BYTES)))


def unwritable(name: str, version: int, error: EncodeError) -> CloseConnection:
    """A message that its version cannot say is its connection's trouble only."""
    return CloseConnection(f"the answer to {name} version {version} cannot be written: {error}")
