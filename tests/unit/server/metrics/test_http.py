"""What is answered to whom, and who is cut? (B79)"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.server.metrics.exposition import wants_openmetrics
from headrace.server.metrics.http import HttpConnection, HttpLimits, HttpServer, Responder

QUICK = HttpLimits(header_bytes=200, connections=3, header_s=0.05, read_s=0.05, idle_s=0.05)
SLOW = HttpLimits(header_bytes=200, connections=3)
GET = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"


class Pipe:
    """A transport that keeps what is written. Once `limit` bytes wait, the writer is told to pause."""

    def __init__(self, protocol: HttpConnection, *, limit: int = 1 << 20) -> None:
        self.protocol = protocol
        self.written = b""
        self.limit = limit
        self.is_reading = True
        self.ending = ""
        protocol.connection_made(cast("asyncio.Transport", self))

    def write(self, data: bytes) -> None:
        """As asyncio's."""
        self.written += data
        if len(self.written) > self.limit:
            self.protocol.pause_writing()

    def pause_reading(self) -> None:
        """As asyncio's."""
        self.is_reading = False

    def resume_reading(self) -> None:
        """As asyncio's."""
        self.is_reading = True

    def is_closing(self) -> bool:
        """As asyncio's."""
        return bool(self.ending)

    def close(self) -> None:
        """As asyncio's; everything is read at once."""
        self._end("closed")

    def abort(self) -> None:
        """As asyncio's."""
        self._end("cut")

    def _end(self, how: str) -> None:
        if not self.ending:
            self.ending = how
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)


def served(limits: HttpLimits = SLOW, render: Callable[[str], tuple[bytes, str]] | None = None) -> HttpServer:
    """A server without a socket."""
    loop = asyncio.get_running_loop()

    def prepare() -> asyncio.Future[None]:
        future = loop.create_future()
        loop.call_soon(future.set_result, None)
        return future

    return HttpServer(Responder("/metrics", render or (lambda _: (b"x 1\n", "text/plain"))), prepare, limits=limits)


def connected(server: HttpServer, **settings: Any) -> Pipe:
    """One more connection."""
    return Pipe(HttpConnection(server), **settings)


async def rounds(count: int = 10) -> None:
    """Let the loop turn."""
    for _ in range(count):
        await asyncio.sleep(0)


async def told(data: bytes, limits: HttpLimits = SLOW) -> tuple[list[str], str]:
    """The status lines of the answers to what is sent in one go, and how the connection ended."""
    pipe = connected(served(limits))
    pipe.protocol.data_received(data)
    await rounds()
    return re.findall(r"HTTP/1\.1 (\d.*)\r\n", pipe.written.decode()), pipe.ending


@pytest.mark.parametrize(
    ("data", "answers", "ending"),
    [
        (GET, ["200 OK"], ""),
        (b"HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n", ["200 OK"], ""),
        (b"GET /metrics?name[]=a HTTP/1.1\r\nHost: a\r\n\r\n", ["200 OK"], ""),
        (b"GET http://a:1/metrics HTTP/1.1\r\nHost: a\r\n\r\n", ["200 OK"], ""),
        (b"GET /metrics HTTP/1.0\r\n\r\n", ["200 OK"], "closed"),
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", ["200 OK"], "closed"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", ["404 Not Found"], ""),
        (b"GET /metrics/../../etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n", ["404 Not Found"], ""),
        (b"DELETE /secrets HTTP/1.1\r\nHost: a\r\n\r\n", ["404 Not Found"], ""),
        (b"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", ["405 Method Not Allowed"], "closed"),
        (b"PUT /metrics HTTP/1.1\r\nHost: a\r\n\r\n", ["405 Method Not Allowed"], ""),
        (b"TRACE /metrics HTTP/1.1\r\nHost: a\r\n\r\n", ["405 Method Not Allowed"], ""),
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ["200 OK"], "closed"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ["505 HTTP Version Not Supported"], "closed"),
        (b"GET /metrics\r\n\r\n", ["400 Bad Request"], "closed"),
        (b"\r\n\r\n", ["400 Bad Request"], "closed"),
        (b"GET  /metrics HTTP/1.1\r\nHost: a\r\n\r\n", ["400 Bad Request"], "closed"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", ["400 Bad Request"], "closed"),
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n", ["400 Bad Request"], "closed"),
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\nA : b\r\n\r\n", ["400 Bad Request"], "closed"),
        (b"\x00\x00\x00\x0e\x00\x12\x00\x04\x00\x00\x00\x01\x00\x01a", ["400 Bad Request"], "closed"),
        (b"GET /metrics HTTP/1.1\r\n\r\n", ["400 Bad Request"], "closed"),
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", ["400 Bad Request"], "closed"),
        (b"GET /metrics HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", ["200 OK"], "closed"),
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", ["501 Not Implemented"], "closed"),
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: " + b"9" * 100 + b"\r\n\r\n", ["400 Bad Request"], "closed"),
        (b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", ["404 Not Found"], ""),
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\n\r\n" + GET, ["200 OK", "200 OK"], ""),
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n", ["200 OK"], ""),
        (b"G", [], ""),
        (GET + b"\x16\x03\x01", ["200 OK", "400 Bad Request"], "closed"),
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\nA: " + b"x" * 200, ["431 Request Header Fields Too Large"], "closed"),
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\nA: " + b"x" * 200 + b"\r\n\r\n", ["431 Request Header Fields Too Large"], "closed"),
        (GET * 3 + b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", ["200 OK"] * 3 + ["404 Not Found"], ""),
    ],
)  # fmt: skip
def test_every_request_has_its_answer(data: bytes, answers: list[str], ending: str) -> None:
    """input:B79: any path and method, bodies, other protocols, a header without end, several requests at once: 404, 405, or cut; never anything else."""
    assert asyncio.run(told(data)) == (answers, ending)


@pytest.mark.parametrize("control", [b"\x00", b"\x0b", b"\x0c", b"\x7f", b"\rb"])
def test_a_header_with_control_characters_is_refused_before_it_is_read(control: bytes) -> None:
    """input:B79, inv:M2, RFC 9110 5.5: behind many blanks one takes the library's patterns the square of their number to refuse; here it need not be complete."""
    data = b"GET /metrics HTTP/1.1\r\nHost: a\r\nA:" + b" " * 100 + control
    assert asyncio.run(told(data)) == (["400 Bad Request"], "closed")


def test_methods_that_are_known_are_told() -> None:
    """input:B79: RFC 9110: a 405 names them; a HEAD has the length of the body and no body."""

    async def ask() -> tuple[bytes, bytes]:
        server = served()
        other, head = connected(server), connected(server)
        other.protocol.data_received(b"PUT /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
        head.protocol.data_received(b"HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
        await rounds()
        return other.written, head.written

    other, head = asyncio.run(ask())
    assert b"\r\nAllow: GET, HEAD\r\n" in other
    assert b"\r\nContent-Length: 4\r\n" in head
    assert head.endswith(b"\r\n\r\n")


def test_who_is_slow_is_cut() -> None:
    """input:B79: a connection that says nothing, one whose header never ends byte by byte, one that stays silent after an answer, one that does not read."""

    async def ask() -> list[str]:
        server = served(QUICK._replace(connections=10))
        silent, dribbling, idle, deaf = (connected(server, limit=10 if each == 3 else 1 << 20) for each in range(4))
        idle.protocol.data_received(GET)
        deaf.protocol.data_received(GET)
        pipes = (silent, dribbling, idle, deaf)
        for _ in range(1_000):
            if not dribbling.ending:
                dribbling.protocol.data_received(b"x" if len(dribbling.protocol._requests) < 150 else b"")
            await asyncio.sleep(0.001)
            if all(pipe.ending for pipe in pipes):
                break
        assert idle.written.startswith(b"HTTP/1.1 200 OK")
        assert deaf.written.startswith(b"HTTP/1.1 200 OK")
        return [pipe.ending for pipe in pipes]

    assert asyncio.run(ask()) == ["cut"] * 4


def test_nothing_is_answered_while_an_answer_is_not_read() -> None:
    """input:B79, inv:M1: thousands of requests in one go cost one answer until that is read; then they go on."""

    async def ask() -> tuple[int, int, int]:
        pipe = connected(served(SLOW._replace(header_bytes=100_000)), limit=10)
        pipe.protocol.data_received(GET * 1_000)
        await rounds(50)
        first = pipe.written.count(b"HTTP/1.1 200 OK")
        pipe.limit = 1 << 20
        pipe.protocol.resume_writing()
        await rounds(50)
        second = pipe.written.count(b"HTTP/1.1 200 OK")
        await rounds(3_000)
        return first, second, pipe.written.count(b"HTTP/1.1 200 OK")

    first, second, third = asyncio.run(ask())
    assert (first, third) == (1, 1_000)
    assert 1 < second < 1_000, "one a round: others have their turn"


def test_connections_without_end_push_out_the_silent_ones() -> None:
    """input:B79, inv:M5: whoever connects is let in, and the connection that was silent for longest goes."""

    async def ask() -> list[str]:
        server = served()
        scraper = connected(server)
        crowd = [connected(server) for _ in range(2)]
        scraper.protocol.data_received(GET)
        await rounds()
        crowd += [connected(server) for _ in range(2)]
        await rounds()
        return [pipe.ending for pipe in (scraper, *crowd)]

    assert asyncio.run(ask()) == ["", "cut", "cut", "", ""]


def test_a_half_closed_connection_is_answered_still() -> None:
    """input:B79: `printf ... | nc`; one that asked nothing is closed."""

    async def ask() -> tuple[bytes, str, bool, bool]:
        server = served()
        asking, mute = connected(server), connected(server)
        asking.protocol.data_received(GET)
        stays = asking.protocol.eof_received()
        goes = mute.protocol.eof_received()
        await rounds()
        return asking.written, asking.ending, stays, goes

    written, ending, stays, goes = asyncio.run(ask())
    assert written.startswith(b"HTTP/1.1 200 OK")
    assert (ending, stays, goes) == ("closed", True, False)


def test_a_metric_that_fails_does_not_stop_anything(caplog: pytest.LogCaptureFixture) -> None:
    """input:B79, inv:A7: 500 without a word of what went wrong; the log has it."""

    def fail(_: str) -> tuple[bytes, str]:
        raise RuntimeError("secret")

    async def ask() -> bytes:
        pipe = connected(served(render=fail))
        pipe.protocol.data_received(GET * 2)
        await rounds()
        return pipe.written

    written = asyncio.run(ask())
    assert written.count(b"HTTP/1.1 500 Internal Server Error") == 2
    assert b"secret" not in written
    assert "metrics cannot be shown" in caplog.text


def test_what_is_wanted_is_read_as_http_has_it() -> None:
    """input:B79: names in any case, values without blanks around, bytes that are no ASCII, fields that come twice."""
    asked: list[str] = []

    def render(accept: str) -> tuple[bytes, str]:
        asked.append(accept)
        return b"", "text/plain"

    async def ask() -> None:
        pipe = connected(served(render=render))
        pipe.protocol.data_received(
            b"GET /metrics?b#c HTTP/1.1\r\nHost: a\r\nACCEPT:  text/plain \r\naccept: \xff\xfe\r\n\r\n"
        )
        pipe.protocol.data_received(GET)
        await rounds()

    asyncio.run(ask())
    assert asked == ["text/plain,\xff\xfe", ""]


def test_reading_goes_on_when_a_long_pipeline_is_answered() -> None:
    """input:B79: what was held back because more came than a header may have is read again, whether or not the answers waited for their reader."""

    async def ask() -> tuple[bool, bool]:
        pipe = connected(served(), limit=10)
        pipe.protocol.data_received(GET * 10)
        held = pipe.is_reading
        for _ in range(20):
            await rounds(3)
            pipe.protocol.resume_writing()
        return held, pipe.is_reading

    assert asyncio.run(ask()) == (False, True)


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain;version=0.0.4", False),
        (
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,*/*;q=0.1",
            True,
        ),
        ("text/plain, Application/OpenMetrics-Text", True),
        ("application/openmetrics-text; q=0.0", False),
        ("application/openmetrics-text; version=abc\x00; escaping=\xff", True),
        ("application/openmetrics-textual", False),
        ("," * 5_000, False),
    ],
)
def test_openmetrics_is_for_who_asks_for_it(accept: str, wanted: bool) -> None:
    """input:B79: whatever stands in the header, it decides between two texts and is in no answer."""
    assert wants_openmetrics(accept) is wanted


@given(
    st.lists(
        st.one_of(st.binary(max_size=120), st.sampled_from([GET, b"\r\n\r\n", b"GET ", b" HTTP/1.1\r\n"])), max_size=6
    )
)
def test_any_bytes_are_answered_or_cut(chunks: list[bytes]) -> None:
    """input:B79: whatever comes, in whatever pieces: answers of HTTP, or none; never an exception, never metrics for what is no GET."""

    async def ask() -> bytes:
        pipe = connected(served())
        for chunk in chunks:
            if not pipe.ending:
                pipe.protocol.data_received(chunk)
            await rounds(3)
        await rounds()
        return pipe.written

    written = asyncio.run(ask())
    statuses = re.findall(rb"HTTP/1\.1 (\d+) ", written)
    assert set(statuses) <= {b"200", b"400", b"404", b"405", b"431", b"501", b"505"}
    assert statuses.count(b"200") <= b"".join(chunks).count(b"/metrics")


def test_an_answer_waits_for_what_it_needs_and_no_longer() -> None:
    """B-M09: what must be made anew is made once for all who ask meanwhile, and is enough for them however old it is when their turn comes."""

    async def story() -> tuple[int, list[int]]:
        loop = asyncio.get_running_loop()
        made: list[asyncio.Future[None]] = []

        def prepare() -> asyncio.Future[None]:
            made.append(loop.create_future())
            return made[-1]

        responder = Responder("/metrics", lambda _: (b"x 1\n", "text/plain"))
        server = HttpServer(responder, prepare, limits=SLOW, is_ready=lambda: False)
        pipes = [connected(server), connected(server)]
        answers: list[int] = []
        for _ in range(2):
            for pipe in pipes:
                pipe.protocol.data_received(GET)
            await rounds()
            answers.append(sum(pipe.written.count(b"200 OK") for pipe in pipes))
            made[-1].set_result(None)
            await rounds()
            answers.append(sum(pipe.written.count(b"200 OK") for pipe in pipes))
        return len(made), answers

    assert asyncio.run(story()) == (2, [0, 2, 2, 4])
