"""Requests on one connection as handler calls, and their replies as frames in the same order.

This is a hot file: Produce and Fetch run through it once a request.
"""

from __future__ import annotations

from collections import deque
from struct import Struct
from typing import Any

from headrace.core.errors import DecodeError, EncodeError
from headrace.core.holds import Hold
from headrace.rpc.apis import ApiRow, handler_of, request_class_of
from headrace.rpc.context import ANONYMOUS, RequestContext
from headrace.rpc.listener_service import ListenerService
from headrace.rpc.long_answers import encoded_in_steps, unwritable
from headrace.rpc.long_work import HUGE_BYTES, Job, Steps
from headrace.rpc.metering import Timing, VersionCount
from headrace.rpc.output import Output
from headrace.rpc.raw_crowds import LARGER_BYTES
from headrace.rpc.reply import (
    AnyReply,
    CloseConnection,
    Deferred,
    EncodedReply,
    HandlerResult,
    HotResult,
    InSteps,
    NoReply,
    Pieces,
    Reply,
    begun,
)
from headrace.rpc.slots import HotHeader, Slot
from headrace.rpc.splitting import SPLITS, answer_in_parts, answer_later, asks_for_all, has_many_things
from headrace.rpc.unread import LongAnswer
from headrace.wire.api_facts import ApiKey
from headrace.wire.codec import decode, decode_in_steps, encode_in_steps
from headrace.wire.varint import skip_tags

_HEAD = Struct(">iih").unpack_from  # api key and version in one number, correlation id, length of the client id
_API = Struct(">hh").unpack_from
_FRAME_HEAD = Struct(">ii").pack
_FRAME_HEAD_FLEXIBLE = Struct(">iib").pack
_API_VERSIONS = 18
_FIRST_WITH_SOFTWARE = 3
_LONG_BYTES = 16 << 10
"""Bodies above this size are decoded in steps; they may name a thousand things."""
_MOST_BYTES = 32 << 20
"""Requests that name things are smaller: a million names of 30 bytes. To receive the 100 MB that a frame may have, and to copy it, takes longer than one turn may."""
_KEPT_HEADER_BYTES = 1_024
"""Longer headers are read anew each time: client ids and tagged fields may be as long as a frame, and would stay as long as their connection."""
_SHOWN = 60
_BYTES = (bytes, bytearray, memoryview)
_STEPS_AT_ONCE = 4
"""So many steps of an answer are encoded at once, 32 KiB of it; what is longer is encoded in later turns."""


class Connection:
    """One connection's requests and replies. Driven by `net.connection_core` (`frame`, `closed`) and by deferred replies.

    Requests are handled in order and one at a time, as Kafka does, but for Produce and Envelope: a produce that waits for its replicas, or
    a client's request that waits for its commit, does not hold back the next request. Replies always leave in the order of the requests (B-W07).
    """

    def __init__(self, service: ListenerService, out: Output, *, client_host: str, connection_id: int) -> None:
        self._service = service
        self._rows = service.rows
        self._out = out
        self._host = client_host
        self._id = connection_id
        self._slots: deque[Slot] = deque()
        self._hot: dict[int, HotHeader] = {}
        self._client_ids: dict[bytes, str] = {}
        self._closed = False
        self._timing: Timing | None = None
        if service.meter is not None:
            out.stopwatch = service.meter.clock
        self.principal = ANONYMOUS
        self.software_name = "unknown"
        self.software_version = "unknown"

    # --- from the socket ---

    def frame(self, view: memoryview) -> bool:  # noqa: C901 - hot path
        """One request. Bad ones close the connection (B4-B9). True for one that may have cost much: others have their turn before the next (M4, M6)."""
        if (size := len(view)) < 10:
            self._out.close(f"a request of {size} bytes is shorter than a header")
            return True
        api, correlation_id, id_length = _HEAD(view)
        hot = self._hot.get(api)
        if hot is None or view[8 : hot.end].tobytes() != hot.header:
            return self._unknown_frame(view, api, correlation_id, id_length)
        counts = hot.counts
        if counts is not None:
            counts.count += 1
            if counts.count >= counts.due:
                return self._timed_frame(view, counts)
        service = self._service
        if service.is_shut is not None and self._turns_away(hot.row):
            return False
        handle = hot.handle if size < LARGER_BYTES else hot.handle_larger
        try:
            result = handle(view[hot.end :], hot.context, service.target)
        except DecodeError as refused:
            self._out.close(f"{hot.row.name} version {hot.context.api_version}: {refused}")
            return False
        if self._slots:
            self._begin(hot.row, hot.context.api_version, correlation_id, result, flexible=hot.flexible)
        elif type(result) is bytes:
            if hot.flexible:
                self._out.pieces.append(_FRAME_HEAD_FLEXIBLE(len(result) + 5, correlation_id, 0) + result)
            else:
                self._out.pieces.append(_FRAME_HEAD(len(result) + 4, correlation_id) + result)
        elif type(result) is tuple:
            self._write_around(result, correlation_id, hot.flexible)
        else:
            self._begin(hot.row, hot.context.api_version, correlation_id, result, flexible=hot.flexible)
        return False

    def begins(self, head: memoryview, size: int) -> None:
        """Only requests that are read where they came may be of any size; others are refused before their bytes are received."""
        if size <= _MOST_BYTES:
            return
        api_key, version = _API(head)
        row = self._rows.get(api_key)
        if row is None or not row.reads_raw:
            name = f"api key {api_key}" if row is None else row.name
            self._out.close(
                f"{name} version {version}: {size} bytes; only a Produce request may have more than {_MOST_BYTES}"
            )

    def _timed_frame(self, view: memoryview, counts: VersionCount) -> bool:
        """One request whose time is taken. It is counted already."""
        timing, last = self._begin_timing(counts, len(view)), self._slots[-1] if self._slots else None
        counts.count -= 1
        is_long = self.frame(view)
        self._handled(timing, last)
        return is_long

    def _begin_timing(self, counts: VersionCount, size: int) -> Timing:
        meter = self._service.meter
        assert meter is not None, "only where requests are counted"
        self._timing = timing = meter.begin(counts, size, self._out.turn_began)
        return timing

    def _handled(self, timing: Timing, last: Slot | None) -> None:
        """The request was handled: its answer is written, or waits in the newest slot."""
        timing.handled()
        self._timing = None
        newest = self._slots[-1] if self._slots else None
        if newest is not None and newest is not last:
            newest.timing = timing
        else:
            self._out.when_sent(timing)

    def _write_around(self, body: Pieces, correlation_id: int, flexible: bool) -> None:  # noqa: FBT001 - hot path
        """A body of bytes around a slice of a file."""
        first, part = body[0], body[1]
        size = len(first) + part.size
        if len(body) == 3:
            size += len(body[2])
        head = _FRAME_HEAD_FLEXIBLE(size + 5, correlation_id, 0) if flexible else _FRAME_HEAD(size + 4, correlation_id)
        self._out.pieces += (head + first, *body[1:])

    def _unknown_frame(self, view: memoryview, api: int, correlation_id: int, id_length: int) -> bool:
        """A request whose header was not seen on this connection, or is of no Produce or Fetch."""
        api_key, version = api >> 16, api & 0xFFFF
        if version & 0x8000:
            version -= 0x10000
        row = self._row(api_key, version, correlation_id)
        if row is not None:
            work, last = self._service.long_work, self._slots[-1] if self._slots else None
            if not row.reads_raw:
                self._counted(row, version, len(view))
            began_s = work.clock()
            try:
                self._begin_request(row, view, version, correlation_id, id_length)
            except DecodeError as refused:
                self._out.close(f"{row.name} version {version}: {refused}")
            work.spent(work.clock() - began_s)
            if self._timing is not None:
                self._handled(self._timing, last)
        return row is None or not row.reads_raw

    def _counted(self, row: ApiRow, version: int, size: int, body: memoryview | None = None) -> VersionCount | None:
        """Count a request, where anybody wants to know, and begin to time it if it is to be timed."""
        meter = self._service.meter
        if meter is None:
            return None
        counts = meter.counts_of(row.key, version, body)
        counts.count += 1
        if counts.count >= counts.due:
            self._begin_timing(counts, size)
        return counts

    def _row(self, api_key: int, version: int, correlation_id: int) -> ApiRow | None:
        """The API asked for; None when it was answered or refused here."""
        row = self._rows.get(api_key) or self._service.refuses.get(api_key)
        if row is None:
            asked = f" ({ApiKey(api_key).name})" if api_key in ApiKey.__members__.values() else ""
            self._out.close(f"api key {api_key}{asked} is not served on listener {self._service.listener}{self._who()}")
            return None
        if row.min_version <= version <= row.max_version:
            return row
        if api_key == _API_VERSIONS:
            self._begin(row, 0, correlation_id, self._unsupported_api_versions(correlation_id), flexible=False)
        else:
            served = f"{row.min_version} to {row.max_version}"
            self._out.close(f"version {version} of {row.name} is not served ({served} are){self._who()}")
        return None

    def _begin_request(self, row: ApiRow, view: memoryview, version: int, correlation_id: int, id_length: int) -> None:
        """Read header and body, ask the handler. Raises DecodeError."""
        if self._service.is_shut is not None and self._turns_away(row):
            return
        flexible = version >= row.flexible_from
        client_id, at = self._client_id(view, id_length)
        if flexible:
            at = _behind_tags(view, at)
        context = self._context(row, version, correlation_id, client_id)
        if row.reads_raw:
            counts, handle_raw = self._counted(row, version, len(view), view[at:]), self._service.raw_handler(row)
            if at <= _KEPT_HEADER_BYTES:
                hot = HotHeader(row, handle_raw, context, bytes(view[8:at]), at, flexible=flexible)
                hot.counts, self._hot[row.key << 16 | version] = counts, hot
            result = handle_raw(view[at:], context, self._service.target)
        elif len(view) - at > _LONG_BYTES:
            is_huge = len(view) - at > HUGE_BYTES
            body = view[at:] if is_huge else bytes(view[at:])
            result = InSteps(self._long(row, body, context), size=len(body), keeps_frame=is_huge)
        else:
            request = decode(request_class_of(row), view[at:], version, allow_trailing=row.allows_trailing)
            if row.key == _API_VERSIONS and version >= _FIRST_WITH_SOFTWARE:
                self._note_software(request)
            handle, target = handler_of(row), self._service.target
            if row.key in SPLITS and has_many_things(row.key, request):
                result = InSteps(self._answered(row, request, context), size=len(view) - at)
            elif self._service.long_work.is_crowded:  # with `holds_back`, else a later one might overtake it
                result = InSteps(answer_later(handle, request, context, target), holds_back=row.is_pipelined)
            else:
                result = begun(handle(request, context, target))
            if isinstance(result, InSteps):
                result.asks_for_all = asks_for_all(request)
        self._begin(row, version, correlation_id, result, flexible=flexible and row.key != _API_VERSIONS)

    def _context(self, row: ApiRow, version: int, correlation_id: int, client_id: str | None) -> RequestContext:
        service = self._service
        return RequestContext(
            api_key=row.key,
            api_version=version,
            correlation_id=correlation_id,
            client_id=client_id,
            principal=self.principal,
            client_host=self._host,
            listener=service.listener,
            connection_id=self._id,
            now_ms=service.now_ms(),
            is_controller_listener=service.is_controller_listener,
            client_software_name=self.software_name,
            client_software_version=self.software_version,
        )

    def _turns_away(self, row: ApiRow) -> bool:
        """Close the connection when clients are not served at present."""
        is_shut = self._service.is_shut
        if is_shut is None or row.api.is_replicas or not is_shut():
            return False
        self._out.close("this broker has no contact with the controller (headrace.self.fencing=always)")
        return True

    def closed(self) -> None:
        """The socket is gone: nobody waits for replies any more."""
        self._closed = True
        slots, self._slots = self._slots, deque()
        for slot in slots:
            if slot.deferred is not None:
                slot.deferred.abandon()
        if self._service.on_closed is not None:
            self._service.on_closed(self._id)

    # --- replies ---

    def _begin(self, row: ApiRow, version: int, correlation_id: int, result: HotResult, *, flexible: bool) -> None:
        """Send the reply, or keep its place in the row. Behind one that waits there are only requests that may be many, and not more than allowed (M4)."""
        if isinstance(result, bytes):
            result = EncodedReply((result,))
        elif isinstance(result, tuple):
            result = EncodedReply(result)
        elif isinstance(result, InSteps):
            result = self._in_turns(row, result)
        elif isinstance(result, Reply):
            result = self._encoded(row, version, result)
        if not self._slots and not isinstance(result, Deferred):
            self._write(row, version, correlation_id, result, flexible=flexible)
            return
        slot = Slot(row, version, correlation_id, flexible=flexible)
        self._slots.append(slot)
        if not row.is_pipelined or len(self._slots) >= self._service.max_in_flight:
            self._out.hold(Hold.REPLY)
        if not isinstance(result, Deferred):
            slot.reply = result
            return
        if result.holds_back:
            self._out.hold(Hold.REPLY)
        slot.deferred = result
        result.when_done(lambda reply: self._done(slot, reply))

    def _done(self, slot: Slot, reply: AnyReply) -> None:
        """A deferred reply is there: send it and those that waited behind it."""
        if self._closed:
            return
        if type(reply) is not EncodedReply and isinstance(reply, Reply | InSteps):
            row = slot.row
            made = self._in_turns(row, reply) if isinstance(reply, InSteps) else self._encoded(row, slot.version, reply)
            if isinstance(made, Deferred):
                slot.deferred = made
                made.when_done(lambda whole: self._done(slot, whole))
                return
            reply = made
        slot.reply = reply
        slot.deferred = None
        if slot.timing is not None:
            slot.timing.ready()
        slots = self._slots
        while slots and slots[0].reply is not None:
            first = slots.popleft()
            assert first.reply is not None, "the loop's condition"
            self._write(first.row, first.version, first.correlation_id, first.reply, flexible=first.flexible)
            if first.timing is not None:
                self._out.when_sent(first.timing)
        if slots:  # more of them may be there in a moment: a sync, or a high watermark, ends the waiting of many
            self._out.flush_soon()
        else:
            self._out.flush()
        if not slots and Hold.REPLY in self._out.holds:
            self._out.release(Hold.REPLY)

    def _write(self, row: ApiRow, version: int, correlation_id: int, reply: AnyReply, *, flexible: bool) -> None:
        """Encode one reply into the output."""
        if isinstance(reply, EncodedReply):
            size = 5 if flexible else 4
            for piece in reply.pieces:
                size += len(piece) if isinstance(piece, _BYTES) else piece.size
            head = _FRAME_HEAD_FLEXIBLE(size, correlation_id, 0) if flexible else _FRAME_HEAD(size, correlation_id)
            first = reply.pieces[0]
            if type(first) is bytes:
                self._out.pieces.append(head + first)
                self._out.pieces.extend(reply.pieces[1:])
            else:
                self._out.pieces.append(head)
                self._out.pieces.extend(reply.pieces)
        elif isinstance(reply, CloseConnection):
            self._out.close(reply.reason)
        else:
            assert isinstance(reply, NoReply), "messages are encoded before"

    # --- what takes long ---

    def _long(self, row: ApiRow, body: bytes | memoryview, context: RequestContext) -> Steps[HandlerResult]:
        """A long request: decoded, answered and given back in steps. Raises DecodeError."""
        # of a frame that was kept a copy, in another turn than its last bytes
        cls, body = request_class_of(row), bytes(body)
        request = yield from decode_in_steps(cls, body, context.api_version, allow_trailing=row.allows_trailing)
        del body
        if row.key == _API_VERSIONS and context.api_version >= _FIRST_WITH_SOFTWARE:
            self._note_software(request)
        return (yield from self._answered(row, request, context))

    def _answered(self, row: ApiRow, request: Any, context: RequestContext) -> Steps[HandlerResult]:
        """The answer to what names much, encoded. What is given up in the middle gives its memory back in steps, too."""
        service = self._service
        answers: list[Any] = []
        try:
            result = yield from answer_in_parts(
                row.key, request, context, handler_of(row), service.target, answers=answers
            )
            if not isinstance(result, Reply):
                if not isinstance(result, Deferred):  # else its handler may need the request still
                    service.long_work.release([request])
                return result
            answers[:] = (request, result.message)
            if service.meter is not None:
                service.meter.answered(row.key, result.message)
            return (yield from self._whole(row, context.api_version, result.message))
        finally:
            service.long_work.release(answers)

    def _in_turns(self, row: ApiRow, work: InSteps, *, goes_on: bool = False) -> Deferred | CloseConnection:
        """The answer that the steps make, while others have their turns. What is refused on the way closes the connection."""
        if not self._service.long_work.has_room(work.size):
            work.steps.close()
            return CloseConnection(f"{work.size} bytes, while as large requests of others wait for their turn")
        if work.keeps_frame:
            self._out.keep_frame()
        if self._timing is not None:
            self._timing.is_local = True
        jobs: list[Job] = []
        answer = Deferred(
            on_abandoned=None if work.outlives_asker else lambda: jobs[0].cancel(), holds_back=work.holds_back
        )

        def done(result: HandlerResult) -> None:
            if isinstance(result, Deferred) and answer.is_done:
                result.abandon()  # the asker has gone
            elif isinstance(result, Deferred):
                answer.on_abandoned = result.abandon
                result.when_done(answer.complete)
            else:
                answer.complete(result)

        begin, steps = self._service.long_work.begin, self._guarded(work.steps)
        jobs.append(begin(steps, done, size=work.size, kind=row.key | work.asks_for_all << 16, goes_on=goes_on))
        return answer

    def _guarded(self, steps: Steps[HandlerResult]) -> Steps[HandlerResult]:
        try:
            return (yield from steps)
        except DecodeError as refused:
            return CloseConnection(str(refused))
        except Exception:
            self._out.close("an error inside the node")
            raise

    def _encoded(self, row: ApiRow, version: int, reply: Reply) -> EncodedReply | CloseConnection | Deferred:
        """The reply as bytes; a long one in later turns. One that cannot be written is its connection's trouble only."""
        if self._service.meter is not None:
            self._service.meter.answered(row.key, reply.message)
        out = bytearray()
        steps = encode_in_steps(reply.message, version, out)
        try:
            for _ in range(_STEPS_AT_ONCE):
                next(steps)
        except StopIteration:
            return EncodedReply((bytes(out),))
        except EncodeError as error:
            return unwritable(row.name, version, error)
        return self._in_turns(row, InSteps(self._whole_and_released(row, version, reply.message)), goes_on=True)

    def _whole_and_released(self, row: ApiRow, version: int, message: Any) -> Steps[AnyReply]:
        try:
            return (yield from self._whole(row, version, message))
        finally:
            self._service.long_work.release([message])

    def _whole(self, row: ApiRow, version: int, message: Any) -> Steps[AnyReply]:
        answer = LongAnswer(self._service.long_work.unread, self._no_room)
        return (yield from encoded_in_steps(row.name, message, version, answer))

    def _no_room(self) -> None:
        self._out.abort("its long answer was not read, and as long ones of others need the memory")

    # --- headers ---

    def _client_id(self, view: memoryview, length: int) -> tuple[str | None, int]:
        """The header's client id and where the header goes on."""
        if length < 0:
            if length == -1:
                return None, 10
            raise DecodeError(f"client id of {length} bytes")
        end = 10 + length
        if end > len(view):
            raise DecodeError(f"client id of {length} bytes in a request of {len(view)}")
        raw = bytes(view[10:end])
        known = self._client_ids.get(raw)
        if known is None:
            try:
                known = raw.decode()
            except UnicodeDecodeError:
                raise DecodeError("client id is not UTF-8") from None
            if len(self._client_ids) < 4 and length <= _KEPT_HEADER_BYTES:
                self._client_ids[raw] = known
        return known, end

    def _unsupported_api_versions(self, correlation_id: int) -> HotResult:
        """KIP-511: an ApiVersions version that we do not know is answered in version 0, code 35, with the versions of ApiVersions itself."""
        row = self._rows[_API_VERSIONS]
        context = self._context(row, -1, correlation_id, None)
        return handler_of(row)(request_class_of(row)(), context, self._service.target)

    def _who(self) -> str:
        """Which client asks for what is not there, for the log."""
        if self.software_name == "unknown":
            return ""
        return f"; asked by {self.software_name[:_SHOWN]} {self.software_version[:_SHOWN]}"

    def _note_software(self, request: Any) -> None:
        """KIP-511: who the client says it is."""
        self.software_name = request.client_software_name[:_KEPT_HEADER_BYTES] or "unknown"
        self.software_version = request.client_software_version[:_KEPT_HEADER_BYTES] or "unknown"


def _behind_tags(view: memoryview, at: int) -> int:
    """Where the body begins after a header's tagged fields. Raises DecodeError (B8, B9)."""
    try:
        return skip_tags(view, at)
    except IndexError:
        raise DecodeError("the tagged fields of a request header are cut off") from None
