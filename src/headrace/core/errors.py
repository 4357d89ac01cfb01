"""The kinds of error, by who can act: the peer, the operator, or the disk's owner."""

from __future__ import annotations

from headrace.core.error_code import ErrorCode

MAX_ERROR_TEXT = 8_000
"""So many characters of an error's text are kept: names and values in it are a peer's, and an answer's string has 32,767 bytes at most."""


class PeerError(Exception):
    """A peer sent something bad or forbidden: it is answered with `code`, or its connection is closed."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        text = message or code.name
        if len(text) > MAX_ERROR_TEXT:
            text = f"{text[: MAX_ERROR_TEXT - 3]}..."
        super().__init__(text)
        self.code = code
        self.message = text


class DecodeError(PeerError):
    """Bytes from outside that are no message of the expected kind. Source: B20-B23."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> None:
        super().__init__(code, message)


class EncodeError(ValueError):
    """A message that cannot be written in this version: a caller of ours chose a field or a version wrongly."""


class OperatorError(Exception):
    """A setting, a directory or a command line is wrong: the text says what to change, in one line."""


class StorageFault(Exception):
    """A disk failed or holds damaged files: its log directory goes offline.

    `directory` is that log directory, as in `log.dirs`; empty where the fault is none of a log directory's.
    """

    def __init__(self, message: str, *, directory: str) -> None:
        super().__init__(message)
        self.directory = directory
