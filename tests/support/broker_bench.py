"""A broker on files in memory, with a controller that only notes what it is asked, and metadata that the test writes."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from immutables import Map

from headrace.broker.broker import Broker
from headrace.broker.publishers.partitions import PartitionPublisher
from headrace.broker.served_apis import BROKER_APIS
from headrace.config.node_config import NodeConfig
from headrace.core.holds import Hold
from headrace.core.ids import Uuid
from headrace.log.config import LogConfig
from headrace.metadata.compare import compare_images
from headrace.metadata.image import (
    RESOURCE_TOPIC,
    BrokerRegistration,
    ClusterImage,
    ConfigResource,
    ConfigsImage,
    EndPoint,
    FeaturesImage,
    MetadataImage,
    PartitionRegistration,
    TopicImage,
    TopicsImage,
)
from headrace.rpc.apis import ApiRow
from headrace.rpc.connection import Connection
from headrace.rpc.context import RequestContext
from headrace.rpc.listener_service import ListenerService
from headrace.rpc.long_work import LongWork
from headrace.rpc.output import SendWatcher
from headrace.rpc.reply import Deferred, Reply
from headrace.sim.disk import LossyFiles
from headrace.storage.log_store import LogStore
from headrace.wire.codec import decode
from headrace.wire.headers import framed_request, parse_response_header
from headrace.wire.versions import response_class

DIRECTORY_ID = Uuid(b"directory-number")


class ManualClock:
    """Time that the test moves."""

    def __init__(self) -> None:
        self.now = 4_102_444_800_000  # in 2100: no batch of a test is from the future

    def now_ms(self) -> int:
        """As the port's."""
        return self.now

    def wall_ms(self) -> int:
        """As the port's."""
        return self.now


class NotingController:
    """The port to the controller: keeps requests until the test answers them."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, RequestContext, Deferred]] = []
        self.last_deadline_ms = -1

    def send(self, request: object, context: RequestContext, *, deadline_ms: int) -> Deferred:
        """As the port's."""
        self.last_deadline_ms = deadline_ms
        deferred = Deferred()
        self.asked.append((request, context, deferred))
        return deferred

    def answer(self, message: object) -> Any:
        """Answer the oldest question; gives it."""
        request, _, deferred = self.asked.pop(0)
        deferred.complete(Reply(message))
        return request


class Outbox:
    """The socket side of a connection: what was sent, and whether it was closed."""

    def __init__(self) -> None:
        self.holds: set[Hold] = set()
        self.pieces: list[Any] = []
        self.closed_because: str | None = None
        self.resumed = 0
        self.kept_frames = 0
        self.stopwatch: Callable[[], float] | None = None
        self.turn_began = 0.0

    def flush(self) -> None:
        """As the port's."""

    def flush_soon(self) -> None:
        """As the port's."""

    def when_sent(self, watcher: SendWatcher) -> None:
        """All is taken at once."""
        watcher.sending()
        watcher.sent()

    def abort(self, reason: str) -> None:
        """The same."""
        self.close(reason)

    def keep_frame(self) -> None:
        """As the port's."""
        self.kept_frames += 1

    def hold(self, reason: Hold) -> None:
        """As the port's."""
        self.holds.add(reason)

    def release(self, reason: Hold) -> None:
        """As the port's."""
        self.holds.discard(reason)
        self.resumed += 1

    def close(self, reason: str) -> None:
        """As the port's."""
        self.closed_because = reason

    def frames(self) -> list[bytes]:
        """What was sent, as whole frames without their lengths."""
        data = b"".join(
            bytes(piece) if isinstance(piece, bytes | bytearray | memoryview) else piece.read() for piece in self.pieces
        )
        found, at = [], 0
        while at < len(data):
            (size,) = struct.unpack_from(">i", data, at)
            found.append(data[at + 4 : at + 4 + size])
            at += 4 + size
        self.pieces.clear()
        return found


class BrokerBench:
    """Broker 1 of a cluster of three, all reached on PLAINTEXT at ports 9001 to 9003."""

    def __init__(self, *, disk: LossyFiles | None = None, **settings: Any) -> None:
        self.clock = ManualClock()
        self.controller = NotingController()
        files = disk or LossyFiles()
        files.mkdir("/data")
        self.logs = LogStore(files, {"/data": DIRECTORY_ID})
        self.logs.load(lambda topic: LogConfig(), now_ms=self.clock.now)
        self.broker = Broker(
            config=NodeConfig(node_id=1, log_dirs=("/data",), **settings),
            cluster_id="cluster",
            logs=self.logs,
            controller=self.controller,
            clock=self.clock,
            rng=random.Random(5),
        )
        self.publisher = PartitionPublisher(self.broker)
        self.publishes_in_turns = False
        """Whether long deltas are done by `publisher.tick`, as a node's, in place of at once."""
        self._topics: dict[str, TopicImage] = {}
        self._configs: dict[ConfigResource, Map[str, str]] = {}
        self.features: dict[str, int] = {}
        """Their finalized levels; with the next delta."""
        self._brokers = {
            node: BrokerRegistration(
                broker_id=node,
                broker_epoch=10 + node,
                incarnation_id=Uuid(bytes([node]) * 16),
                end_points=(EndPoint("PLAINTEXT", f"host-{node}", 9000 + node, 0),),
                fenced=False,
            )
            for node in (1, 2, 3)
        }
        self.publish()

    def publish(self) -> None:
        """Give the broker the metadata as it is now."""
        image = MetadataImage(
            cluster=ClusterImage(brokers=Map(self._brokers)),
            topics=TopicsImage(
                by_name=Map(self._topics), by_id=Map({topic.id: topic for topic in self._topics.values()})
            ),
            configs=ConfigsImage(by_resource=Map(self._configs)),
            features=FeaturesImage(levels=Map(self.features)),
        )
        delta = compare_images(self.broker.image, image)
        self.broker.image = image
        if self.publishes_in_turns:
            self.publisher.publish(delta)
        else:
            self.publisher.publish_at_once(delta)

    def topic(
        self,
        name: str,
        *,
        leader: int = 1,
        replicas: tuple[int, ...] = (1,),
        isr: tuple[int, ...] | None = None,
        leader_epoch: int = 0,
        partition_epoch: int = 0,
        partitions: int = 1,
        is_published: bool = True,
        is_another: bool = False,
    ) -> Uuid:
        """Make or change a topic; its id, which is not that of `another` topic of that name. What is not published comes with the next delta."""
        topic_id = Uuid(name.encode().ljust(16, b"+" if is_another else b"-")[:16])
        partition = PartitionRegistration(
            replicas=replicas,
            directories=(DIRECTORY_ID,) * len(replicas),
            isr=replicas if isr is None else isr,
            leader=leader,
            leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
        )
        self._topics[name] = TopicImage(
            name=name, id=topic_id, partitions=Map({index: partition for index in range(partitions)})
        )
        if is_published:
            self.publish()
        return topic_id

    def configure(self, topic: str, **settings: str) -> None:
        """Give a topic these settings and no others."""
        changed = {key.replace("_", "."): value for key, value in settings.items()}
        self._configs[ConfigResource(RESOURCE_TOPIC, topic)] = Map(changed)
        self.publish()

    def register(self, node: int, **changes: Any) -> None:
        """Change what the cluster knows of a broker: `fenced`, `log_dirs` ..."""
        self._brokers[node] = replace(self._brokers[node], **changes)
        self.publish()

    def unregister(self, node: int) -> None:
        """The cluster does not know of the broker any more."""
        del self._brokers[node]
        self.publish()

    def delete(self, name: str) -> None:
        """The topic is gone."""
        del self._topics[name]
        self.publish()

    def advance(self, ms: int) -> None:
        """Time passes."""
        self.clock.now += ms
        self.broker.tick(self.clock.now)


class Turns:
    """An event loop of which the test gives each turn, with a clock that goes on by a millisecond at each look, or so much."""

    def __init__(self, *, look_s: float = 0.001) -> None:
        self.now_s = 0.0
        self._look_s = look_s
        self.due: list[Callable[[], None]] = []
        self.work = LongWork(soon=self.due.append, clock=self._clock)

    def _clock(self) -> float:
        self.now_s += self._look_s
        return self.now_s

    def turn(self) -> None:
        """What is due now."""
        due, self.due[:] = list(self.due), []
        for each in due:
            each()

    def run(self) -> None:
        """Turns until nothing is due."""
        while self.due:
            self.turn()


class HasBroker(Protocol):
    """What a client connects to."""

    broker: Broker
    clock: ManualClock


class Client:
    """A client of the bench: requests in, decoded answers out."""

    def __init__(
        self,
        bench: HasBroker,
        *,
        max_in_flight: int = 1000,
        rows: tuple[ApiRow, ...] = BROKER_APIS,
        turns: Turns | None = None,
    ) -> None:
        service = ListenerService(
            listener="PLAINTEXT",
            rows={row.key: row for row in rows},
            target=bench.broker,
            now_ms=bench.clock.now_ms,
            refuses={},
            max_in_flight=max_in_flight,
            long_work=LongWork(soon=None, clock=lambda: 0.0) if turns is None else turns.work,
        )
        self.outbox = Outbox()
        self.connection = Connection(service, self.outbox, client_host="10.0.0.9", connection_id=1)
        self._asked: list[tuple[Any, int, int]] = []

    def send(self, request: Any, version: int) -> None:
        """Hand over one request, as the listener would."""
        number = len(self._asked) + 1
        self._asked.append((request, version, number))
        self.connection.frame(
            memoryview(bytearray(framed_request(request, version, correlation_id=number, client_id="raw")[4:]))
        )

    def answers(self) -> list[Any]:
        """What has been answered since the last call; order and correlation ids are checked."""
        found = []
        for data in self.outbox.frames():
            request, version, number = self._asked.pop(0)
            assert struct.unpack_from(">i", data)[0] == number
            key = request.SCHEMA.api_key
            _, start = parse_response_header(data, api_key=key, api_version=version)
            found.append(decode(response_class(key), data[start:], version))
        return found

    def ask(self, request: Any, version: int) -> Any:
        """One request that is answered at once."""
        self.send(request, version)
        (answer,) = self.answers()
        return answer
