"""The producer ids that are handed out next."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from headrace.broker.ports import ControllerChannel
from headrace.core.error_code import ErrorCode
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import AnyReply, Reply
from headrace.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

_ALLOCATE_PRODUCER_IDS = 67
_TIMEOUT_MS = 15_000


class ProducerIdPool:
    """Ids out of blocks that the controller grants (KIP-730). Asks for a block when it has none.

    States: empty -> asking (somebody waits) -> filled -> empty. An id is handed out once; a block is never asked for twice at a time.
    """

    def __init__(self, *, broker_id: int, controller: ControllerChannel, now_ms: Callable[[], int]) -> None:
        self.broker_epoch = -1
        self._broker_id = broker_id
        self._controller = controller
        self._now_ms = now_ms
        self._next = 0
        self._end = 0
        self._waiting: deque[Callable[[int | ErrorCode], None]] = deque()
        self._is_asking = False

    def take(self, on_id: Callable[[int | ErrorCode], None]) -> None:
        """Hand one id to `on_id`, now or when a block has come; or the error that makes a client try again."""
        if self._next < self._end:
            self._next += 1
            on_id(self._next - 1)
            return
        self._waiting.append(on_id)
        if not self._is_asking:
            self._ask()

    def _ask(self) -> None:
        self._is_asking = True
        request = AllocateProducerIdsRequest(broker_id=self._broker_id, broker_epoch=self.broker_epoch)
        context = RequestContext(api_key=_ALLOCATE_PRODUCER_IDS, api_version=0, is_internal=True)
        deferred = self._controller.send(request, context, deadline_ms=self._now_ms() + _TIMEOUT_MS)
        deferred.when_done(self._answered)

    def _answered(self, reply: AnyReply) -> None:
        self._is_asking = False
        assert isinstance(reply, Reply), "the controller answers with a message"
        response = reply.message
        assert isinstance(response, AllocateProducerIdsResponse), "the api's own response"
        if response.error_code != ErrorCode.NONE:
            waiting, self._waiting = self._waiting, deque()
            for on_id in waiting:
                on_id(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return
        self._next = response.producer_id_start
        self._end = response.producer_id_start + response.producer_id_len
        while self._waiting and self._next < self._end:
            on_id = self._waiting.popleft()
            self._next += 1
            on_id(self._next - 1)
        if self._waiting:
            self._ask()
