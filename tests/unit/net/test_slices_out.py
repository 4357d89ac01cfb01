"""Slices of files between bytes, on each of the ways that they may take to a socket: what arrives is what was given, in its order."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.core.holds import Hold
from headrace.net.file_slices import Piece
from headrace.net.output import Output
from headrace.storage.os_files import OsFile, OsFiles
from tests.unit.net.test_output import connected, received

CONTENT = bytes(range(251)) * 9_000
KIB = 1 << 10
SIZES = (1, 100, 4 * KIB, 24 * KIB - 1, 24 * KIB, 60_846, 64 * KIB, 64 * KIB + 1, 256 * KIB - 20, 256 * KIB, 700_000)


@dataclass
class Slice:
    """A part of a file, as logs give it."""

    file: OsFile
    position: int
    size: int

    @property
    def data(self) -> bytes:
        return CONTENT[self.position : self.position + self.size]


@pytest.fixture
def file(tmp_path: Path) -> Iterator[OsFile]:
    """An open file with CONTENT."""
    opened = OsFiles().open(str(tmp_path / "log"), create=True)
    opened.pwrite(CONTENT, 0)
    yield opened
    opened.close()


class Protocol(asyncio.Protocol):
    """What an output calls back."""

    def __init__(self) -> None:
        self.holds: set[Hold] = set()
        self.broken = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        loop = asyncio.get_running_loop()
        self.output = Output(transport, self.holds, now=loop.time, drained=lambda: None, broken=self._broken)

    def _broken(self) -> None:
        self.broken += 1
        self.output.drop()


def sent(answers: list[list[Piece]], size: int, *, send_buffer: int = 0) -> tuple[bytes, int]:
    """What arrives of answers that are sent one after the other, up to so many bytes or until one breaks, and how often one broke."""

    async def main() -> tuple[bytes, int]:
        loop = asyncio.get_running_loop()
        with connected() as (ours, theirs):
            theirs.setblocking(False)
            if send_buffer:
                ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
            transport, protocol = await loop.create_connection(Protocol, sock=ours)
            for pieces in answers:
                protocol.output.send(list(pieces))
            found = b"" if protocol.broken else await received(theirs, size)
            transport.abort()
            await asyncio.sleep(0)
            return found, protocol.broken

    return asyncio.run(asyncio.wait_for(main(), 60))


def whole(pieces: list[Piece]) -> bytes:
    return b"".join(piece.data if isinstance(piece, Slice) else bytes(piece) for piece in pieces)  # type: ignore[arg-type]


def shapes(file: OsFile) -> dict[str, Callable[[int, int], list[Piece]]]:
    """Answers as the handlers make them: of versions that end with the records, of those that do not, and two in one turn."""
    return {
        "ends with the records": lambda at, size: [b"head", Slice(file, at, size)],
        "tags behind them": lambda at, size: [b"head", Slice(file, at, size), b"\0\0\0"],
        "two of them": lambda at, size: [b"one", Slice(file, at, size), b"\0two", Slice(file, at + 1, size), b"\0"],
        "records alone": lambda at, size: [Slice(file, at, size)],
    }


@pytest.mark.parametrize("send_buffer", [0, 4 * KIB])
@pytest.mark.parametrize("shape", list(shapes(OsFile(-1, ""))))
def test_slices_of_all_sizes_arrive_as_they_are(file: OsFile, shape: str, send_buffer: int) -> None:
    """B-W07: at the start, across and at the end of pages; also when the kernel takes a part at a time."""
    make = shapes(file)[shape]
    answers = [make(at, size) for size in SIZES for at in (0, 1, 4095)]
    expected = b"".join(whole(pieces) for pieces in answers)
    assert sent(answers, len(expected), send_buffer=send_buffer) == (expected, 0)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shape", list(shapes(OsFile(-1, ""))))
def test_bytes_that_are_gone_are_not_made_up(file: OsFile, shape: str, size: int) -> None:
    """D10: the file ends before the slice does; nothing of an earlier answer is sent in its place."""
    make = shapes(file)[shape]
    earlier = make(0, size)
    file.truncate(len(CONTENT) - 1)
    gone: list[Piece] = [b"head", Slice(file, len(CONTENT) - size, size), b"\0"]
    if shape == "ends with the records":
        gone.pop()
    _, broken = sent([earlier, gone], 0)
    assert broken == 1


def test_small_answers_are_one_call_and_larger_ones_are_not_read(file: OsFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """What costs least: copied together, one packet by `sendfile`, copied again, and then `sendfile` for as much as it takes."""
    calls: list[int] = []
    real = os.sendfile

    def watched(target: int, source: int, offset: int, count: int) -> int:
        calls.append(count)
        return real(target, source, offset, count)

    monkeypatch.setattr(os, "sendfile", watched)
    by_size = {}
    for size in (1_000, 24 * KIB, 60_000, 65 * KIB, 200 * KIB, 300 * KIB):
        calls.clear()
        pieces: list[Piece] = [b"head", Slice(file, 0, size)]
        assert sent([pieces], size + 4)[0] == whole(pieces)
        by_size[size] = bool(calls)
    assert list(by_size.values()) == [False, True, True, False, False, True]
