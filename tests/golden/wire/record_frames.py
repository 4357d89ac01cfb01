"""What do real clients, tools and nodes of Apache Kafka 4.3.1 send to each other?

    python tests/golden/wire/record_frames.py

Starts a controller and a broker of Apache Kafka with a recording proxy before each, runs Kafka's own tools,
confluent-kafka (librdkafka), aiokafka and kafka-python through them, and writes `frames.tsv.xz`: direction, api key,
api version, frame (base64, without its length). A few frames of each api and version are kept.
"""

from __future__ import annotations

import asyncio
import lzma
import sys
import tempfile
import threading
from base64 import b64encode
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.golden.wire import client_scenarios  # noqa: E402
from tests.peers import kafka  # noqa: E402
from tests.peers.recording_proxy import Frame, RecordingProxy  # noqa: E402

HERE = Path(__file__).parent
KEPT_OF_EACH = 4
LARGEST_KEPT = 6_000


class Kept:
    """A few different frames of each api, version and direction."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.frames: dict[tuple[str, int, int], list[bytes]] = {}

    def add(self, frame: Frame) -> None:
        """Keep a frame if it differs in size from those of its kind that are kept already."""
        with self._lock:
            kept = self.frames.setdefault((frame.direction, frame.api_key, frame.api_version), [])
            is_new = len(frame.body) not in {len(body) for body in kept}
            if is_new and len(kept) < KEPT_OF_EACH and (len(frame.body) < LARGEST_KEPT or not kept):
                kept.append(frame.body)


def write(kept: Kept) -> None:
    """Write what was kept, sorted, compressed."""
    lines = [
        f"{direction}\t{key}\t{version}\t{b64encode(body).decode()}"
        for (direction, key, version), bodies in sorted(kept.frames.items(), key=lambda item: (item[0][1:], item[0][0]))
        for body in sorted(bodies, key=len)
    ]
    (HERE / "frames.tsv.xz").write_bytes(lzma.compress("\n".join(lines).encode() + b"\n", preset=9))


def main() -> None:
    """Record everything."""
    kept = Kept()
    controller, controller_proxy, broker, broker_proxy = kafka.free_ports(4)
    common = {
        "controller.quorum.voters": f"100@127.0.0.1:{controller_proxy}",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "group.share.enable": "true",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
    }
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        quorum = kafka.Kafka(
            directory / "controller",
            port=controller,
            properties={
                **common,
                "process.roles": "controller",
                "node.id": "100",
                "listeners": f"CONTROLLER://127.0.0.1:{controller}",
                "advertised.listeners": f"CONTROLLER://127.0.0.1:{controller_proxy}",
            },
        )
        node = kafka.Kafka(
            directory / "broker",
            port=broker,
            properties={
                **common,
                "process.roles": "broker",
                "node.id": "1",
                "listeners": f"PLAINTEXT://127.0.0.1:{broker}",
                "advertised.listeners": f"PLAINTEXT://127.0.0.1:{broker_proxy}",
                "log.dirs": f"{directory}/broker/data,{directory}/broker/data2",
            },
        )
        with (
            RecordingProxy(port=controller_proxy, target=controller, keep=kept.add),
            RecordingProxy(port=broker_proxy, target=broker, keep=kept.add),
            quorum,
            node,
        ):
            bootstrap = f"127.0.0.1:{broker_proxy}"
            client_scenarios.confluent(bootstrap)
            asyncio.run(client_scenarios.aio(bootstrap))
            client_scenarios.kafka_python(bootstrap)
            client_scenarios.java_tools(bootstrap, f"127.0.0.1:{controller_proxy}", directory)
    write(kept)


if __name__ == "__main__":
    main()
