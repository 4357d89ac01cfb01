"""The counters of a running node as what a scraper reads.

`MetricsService` is made only where `headrace.metrics.listener` is set. Before the node starts it has counters kept that nobody else needs
(`watch`); then it answers `GET /metrics` on the node's own event loop. A scrape takes no lock, waits for nobody and is no event of the
controller: between two events it reads plain numbers (B-M09).
"""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from headrace.config.checks import parse_listen_address
from headrace.controller.event_names import REQUEST_EVENTS
from headrace.core.errors import OperatorError
from headrace.core.histogram import BOUNDS_FINE_MS, Histogram
from headrace.core.listener import HostPort
from headrace.node.partition_counts import BrokerCounts, ClusterCounts
from headrace.node.quorum_statistics import QuorumStatistics
from headrace.rpc.metering import RequestMeter
from headrace.server.listeners import SocketFacts
from headrace.server.metrics import broker as of_broker
from headrace.server.metrics import controller as of_controller
from headrace.server.metrics import groups as of_groups
from headrace.server.metrics import quorum as of_quorum
from headrace.server.metrics import requests as of_requests
from headrace.server.metrics import state_changes as of_changes
from headrace.server.metrics.exposition import Exposition, load_exposition, wants_openmetrics
from headrace.server.metrics.families import Family
from headrace.server.metrics.http import HttpServer, Responder
from headrace.server.metrics.partitions import PartitionPage
from headrace.server.metrics.window import SAMPLE_S, Window
from headrace.server.state_change_file import followed

if TYPE_CHECKING:
    from headrace.config.node_config import NodeConfig
    from headrace.node.compose import ComposedNode

PATH: Final = "/metrics"
LOOK_S: Final = 0.1
_END_OF_FILE: Final = b"# EOF\n"
FRESH_S: Final = 0.05
"""A text that is not older is given again: whoever asks without end costs the node no more than so many scrapes."""


class MetricsService:
    """The metrics of one node. Driven by `server.node_server`: `open`, `watch`, `close`."""

    def __init__(self, config: NodeConfig, *, stopwatch: Callable[[], float] = time.perf_counter) -> None:
        self._config = config
        self._stopwatch = stopwatch
        self._node: ComposedNode | None = None
        self._statistics: QuorumStatistics | None = None
        self._cluster = ClusterCounts()
        self._broker: BrokerCounts | None = None
        self._forwarded: dict[str, Histogram] = {}
        self._flushes = Histogram(BOUNDS_FINE_MS)
        self._window = Window(stopwatch())
        self._lags = Histogram(BOUNDS_FINE_MS)
        self._timer: asyncio.TimerHandle | None = None
        self._lag_timer: asyncio.TimerHandle | None = None
        self._exposition: Exposition | None = None
        self._page: PartitionPage | None = None
        self.requests = RequestMeter(time.perf_counter)
        self._loop_cpu = time.thread_time
        self.connections: Callable[[], list[tuple[str, int, int]]] = list
        """Of each listener its name, its connections now, and how many it took."""
        self.sockets: Callable[[], SocketFacts] = SocketFacts
        self._page_at_s = 0.0
        self._texts: dict[bool, tuple[float, tuple[bytes, str]]] = {}
        self._http = HttpServer(Responder(PATH, self.render), self._prepare, is_ready=self._is_prepared)

    # --- life ---

    async def open(self) -> HostPort:
        """Listen, so that a node without a quorum can be looked at too; where. Raises OperatorError."""
        text = self._config.headrace_metrics_listener
        wanted = parse_listen_address(text)
        try:
            port = await self._http.open(wanted.host, wanted.port)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            is_taken = getattr(error, "errno", 0) == errno.EADDRINUSE
            advice = ": stop what listens there, or give it another port" if is_taken else ""
            raise OperatorError(f"headrace.metrics.listener: cannot listen on {text}: {reason}{advice}") from error
        self._sample()
        self._look_at_loop(asyncio.get_running_loop().time())
        return wanted._replace(port=port)

    def watch(self, node: ComposedNode) -> None:
        """Look at this node, which is composed and has not started."""
        machine, plane = node.machine, node.plane
        self._statistics = plane.statistics = QuorumStatistics(plane.raft, self._stopwatch)
        if plane.controller is not None:
            machine.on_metadata = self._cluster.follow
        broker = machine.broker
        if broker is not None:
            counts = BrokerCounts(self._config.node_id, lambda topic: broker.topic_config(topic).min_insync_replicas)
            self._broker, machine.on_broker_metadata = counts, counts.follow
        self._page = PartitionPage(machine, node.disk.metadata.log, most=self._config.headrace_metrics_partitions_max)
        machine.controller_channel.on_answered = self._answered
        followed(node)
        self._node = node

    async def close(self) -> None:
        """Answer no more."""
        for timer in (self._timer, self._lag_timer):
            if timer is not None:
                timer.cancel()
        await self._http.close()

    # --- what is counted here ---

    def _answered(self, request: str, took_ms: int) -> None:
        """The active controller answered this node."""
        name = REQUEST_EVENTS.get(request)
        if name is not None:
            known = self._forwarded.get(name)
            if known is None:
                known = self._forwarded[name] = Histogram()
            known.add(took_ms)

    def timed(self, sync: Callable[[], None]) -> Callable[[], None]:
        """The sync of a log, which a thread does; how long it takes is counted on the event loop."""
        loop = asyncio.get_running_loop()

        def run() -> None:
            began = self._stopwatch()
            sync()
            took_ms = (self._stopwatch() - began) * 1_000
            loop.call_soon_threadsafe(self._flushes.add, took_ms)

        return run

    def _look_at_loop(self, due_s: float) -> None:
        """How late the event loop comes to what is due: so long does a request wait in its socket (S2-33)."""
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        self._lags.add(max(0.0, now_s - due_s) * 1_000)
        self._lag_timer = loop.call_at(now_s + LOOK_S, self._look_at_loop, now_s + LOOK_S)

    def _sample(self) -> None:
        """Remember how the counters stand, every half minute."""
        self._timer = asyncio.get_running_loop().call_later(SAMPLE_S, self._sample)
        statistics, node = self._statistics, self._node
        if statistics is None or node is None:
            return
        histograms: dict[str, Histogram] = dict(statistics.latencies)
        histograms["MetadataBatchProcessingTimeUs"] = statistics.batch_times_us
        histograms["MetadataBatchSizes"] = statistics.batch_records
        histograms |= {"log-flush": self._flushes, "loop-lag": self._lags}
        counters: dict[str, float] = {
            "appended": statistics.appended,
            "fetched": statistics.fetched,
            "busy_s": statistics.busy_s,
            "apply_busy_s": statistics.apply_busy_s,
        }
        histograms |= {f"kafka.server:{name}": each for name, each in self._forwarded.items()}
        controller = node.plane.controller
        if controller is not None:
            totals = of_controller.event_histograms(controller)
            histograms |= totals
            histograms |= {f"kafka.controller:{name}": each for name, each in controller.statistics.latencies.items()}
            counters["controller_busy_s"] = totals["processed"].total / 1_000
        histograms |= of_requests.request_histograms(self.requests)
        counters["loop_busy_s"] = self._loop_cpu()
        broker = node.machine.broker
        if broker is not None:
            service = broker.groups if broker.has_groups else None
            counters |= of_groups.window_counters(service)
            if service is not None:
                histograms[of_groups.LOADS] = service.loads
                service.loads.turn()
        if node.machine.state_changes is not None:
            histograms |= of_changes.histograms(node.machine.state_changes)
        self._window.take(self._stopwatch(), histograms, counters)
        statistics.turn()

    # --- what is shown ---

    def families(self) -> Iterator[Family]:
        """Everything that this node shows but for single partitions (`partition_page`). Cost: the metrics, the brokers of the cluster; not its partitions, nor records."""
        node, statistics = self._node, self._statistics
        if node is None or statistics is None:
            return
        window, now_s, now_ms = self._window, self._stopwatch(), node.clock.now_ms()
        machine, plane = node.machine, node.plane
        ignored = int(self._config.has_static_voters and plane.raft.kraft_version > 0)
        yield from of_quorum.raft_families(plane, statistics, window, now_s, now_ms)
        yield from of_quorum.loader_families(machine, statistics, window, now_s)
        yield from of_quorum.feature_families()
        yield from of_quorum.emitter_families(node.disk.metadata, now_ms)
        if plane.controller is not None:
            controller, high_watermark = plane.controller, plane.raft.high_watermark
            yield from of_controller.cluster_families(machine, self._cluster)
            yield from of_controller.controller_families(
                machine, controller, high_watermark=high_watermark, now_ms=now_ms, ignored_voters=ignored
            )
            totals = of_controller.event_histograms(controller)
            yield from of_controller.event_families(controller, totals, window, now_s)
            yield of_changes.backlog_family(plane, now_ms)
        if machine.broker is not None and self._broker is not None:
            yield from of_quorum.metadata_families(machine, statistics, window, ignored_voters=ignored)
            yield from of_broker.replica_families(machine, machine.broker, self._broker)
            yield from of_broker.follower_families(machine.broker)
            yield from of_broker.traffic_families(machine.broker, self._config.headrace_metrics_topics_max)
            yield from of_broker.throttle_families(machine.broker)
            yield from of_broker.directory_families(machine.broker)
            yield from of_broker.life_families(machine, machine.broker)
            yield from of_broker.waiting_families(machine.broker)
            yield from of_groups.group_families(machine.broker, window, now_s)
            yield of_controller.latency_family("kafka.server", self._forwarded, window)
        if machine.state_changes is not None:
            yield from of_changes.state_change_families(machine.state_changes, window)
        yield from of_requests.request_families(self.requests, machine.broker, window)
        yield from of_requests.loop_families(window.idle_ratio("loop_busy_s", self._loop_cpu(), now_s))
        yield from of_requests.socket_families(self.sockets)
        yield from of_broker.connection_families(self.connections())
        yield of_broker.flush_family(self._flushes, window)
        yield of_broker.lag_family(self._lags, window)

    def render(self, accept: str) -> tuple[bytes, str]:
        """The text for a scraper and its content type; one that was just made is given again."""
        assert self._exposition is not None, "prepared before the first answer"
        now_s = self._stopwatch()
        is_openmetrics = wants_openmetrics(accept)
        made = self._texts.get(is_openmetrics)
        if made is not None and now_s - made[0] <= FRESH_S:
            return made[1]
        body, content_type = self._exposition(tuple(self.families()), is_openmetrics=is_openmetrics)
        if self._page is not None and self._page.text:
            body = body.removesuffix(_END_OF_FILE) + self._page.text + (_END_OF_FILE if is_openmetrics else b"")
        self._texts[is_openmetrics] = (now_s, (body, content_type))
        return body, content_type

    @property
    def partition_page(self) -> PartitionPage | None:
        """What is shown of single partitions; None before there is a node."""
        return self._page

    # --- what takes longer than a turn, before an answer ---

    def _is_prepared(self) -> bool:
        page = self._page
        is_new = page is None or not page.is_wanted or self._stopwatch() - self._page_at_s <= FRESH_S
        return self._exposition is not None and is_new

    def _prepare(self) -> asyncio.Future[None]:
        return asyncio.ensure_future(self._make_ready())

    async def _make_ready(self) -> None:
        if self._exposition is None:
            self._exposition = await asyncio.get_running_loop().run_in_executor(None, load_exposition)
        if self._page is not None and self._page.is_wanted:
            for _ in self._page.turns():
                await asyncio.sleep(0)
            self._page_at_s = self._stopwatch()
            self._texts.clear()
