"""Metrics of requests: how many, how long each stage takes, how large, which errors; and of the sockets and the loop that serve them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from headrace.core.error_code import ErrorCode
from headrace.server.metrics.families import COUNTER, Family, Sample, exported_name, gauge, labelled, summary

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.core.histogram import Histogram
    from headrace.rpc.metering import RequestMeter
    from headrace.server.listeners import SocketFacts
    from headrace.server.metrics.window import Window

REQUESTS: Final = "kafka.network:RequestMetrics"
SHOWN: Final = (
    ("TotalTimeMs", "total", "Milliseconds from reading a request until its answer had left."),
    ("RequestQueueTimeMs", "queued", "Milliseconds behind other requests that came in the same read."),
    ("LocalTimeMs", "local", "Milliseconds that the node worked on a request."),
    ("RemoteTimeMs", "remote", "Milliseconds that an answer waited for replicas, records, a commit or a disk."),
    ("ResponseQueueTimeMs", "response_queue", "Milliseconds that an answer that was ready waited to be sent."),
    ("ResponseSendTimeMs", "sending", "Milliseconds until the socket had taken an answer."),
    ("RequestBytes", "bytes", "Bytes of a request."),
)


def request_families(meter: RequestMeter, broker: Broker | None, window: Window) -> Iterator[Family]:
    """`kafka.network:type=RequestMetrics`, of the requests that came to this node's listeners. Cost: the APIs and versions that were asked for."""
    name = exported_name(REQUESTS, "Requests")
    counted = [
        Sample("_total", {"request": each.request, "version": str(each.version)}, each.count)
        for _, each in sorted(meter.counts.items())
    ]
    yield Family(name, COUNTER, "Requests that came.", counted)
    errors = dict(meter.errors)
    if broker is not None:
        errors |= broker.errors.by_request
    told = [
        Sample("_total", {"request": request, "error": ErrorCode(code).name}, count)
        for (request, code), count in sorted(errors.items())
    ]
    about = "Errors that requests, or what they name, were answered with."
    yield Family(exported_name(REQUESTS, "Errors"), COUNTER, about, told)
    times = meter.shown_times()
    for attribute, stage, about in SHOWN:
        parts = []
        for request, of in times.items():
            histogram: Histogram = getattr(of, stage)
            quantiles = window.quantiles(_key(request, stage), histogram)
            parts.append(({"request": request}, quantiles, (histogram.count, histogram.total)))
        yield summary(exported_name(REQUESTS, attribute), parts, about)


def request_histograms(meter: RequestMeter) -> dict[str, Histogram]:
    """What the window remembers."""
    times = meter.shown_times()
    return {_key(request, stage): getattr(of, stage) for request, of in times.items() for _, stage, _ in SHOWN}


def _key(request: str, stage: str) -> str:
    return f"request:{request}:{stage}"


def loop_families(idle: float) -> Iterator[Family]:
    """One event loop is the node's network processor and its request handler: all of Kafka's idle percents are the part of its time that its thread does not work."""
    about = "The part of its time, 0 to 1, that the event loop does not work."
    yield gauge("kafka.network:SocketServer", "NetworkProcessorAvgIdlePercent", idle, about)
    yield labelled("kafka.network:Processor", "IdlePercent", "networkProcessor", [("0", idle)], about=about)
    yield gauge("kafka.server:KafkaRequestHandlerPool", "RequestHandlerAvgIdle_percent", idle, about)


def socket_families(sockets: Callable[[], SocketFacts]) -> Iterator[Family]:
    """`kafka.network:type=SocketServer`: memory of requests (`queued.max.request.bytes`), connections that were idle for too long."""
    facts = sockets()
    bean = "kafka.network:SocketServer"
    available = float(2**63 - 1) if facts.memory_limit < 0 else max(0, facts.memory_limit - facts.memory_used)
    yield gauge(bean, "MemoryPoolAvailable", available, "Bytes that requests may take more.")
    yield gauge(bean, "MemoryPoolUsed", facts.memory_used, "Bytes that unfinished and waiting requests take.")
    about = "Connections that were closed because nothing came on them for connections.max.idle.ms."
    yield gauge(bean, "ExpiredConnectionsKilledCount", facts.expired_connections, about)
