"""Long responses, encoded while others have their turns, and how long they may be."""

from __future__ import annotations

from typing import Any, Final

from headrace.core.errors import EncodeError
from headrace.rpc.long_work import Steps
from headrace.rpc.reply import AnyReply, CloseConnection, EncodedReply
from headrace.rpc.unread import MOST_ANSWER_BYTES, LongAnswer
from headrace.wire.codec import encode_in_steps

_PIECE_BYTES: Final = 1 << 20


def encoded_in_steps(name: str, message: Any, version: int, answer: LongAnswer) -> Steps[AnyReply]:
    """The pieces of an answer. One that is longer than MOST_ANSWER_BYTES, or cannot be written, closes its connection."""
    written = bytearray()
    pieces: list[memoryview] = []
    try:
        for _ in encode_in_steps(message, version, written):
            if answer.size + len(written) > MOST_ANSWER_BYTES:
                return CloseConnection(f"the answer to {name} has more than {MOST_ANSWER_BYTES} bytes")
            if len(written) >= _PIECE_BYTES:
                pieces.append(answer.piece(written))
            yield None
    except EncodeError as error:
        return unwritable(name, version, error)
    pieces.append(answer.piece(written))
    return EncodedReply(tuple(pieces))


def unwritable(name: str, version: int, error: EncodeError) -> CloseConnection:
    """A message that its version cannot say is its connection's trouble only."""
    return CloseConnection(f"the answer to {name} version {version} cannot be written: {error}")
