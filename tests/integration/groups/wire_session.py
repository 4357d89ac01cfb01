"""One connection that speaks the protocol by hand, and what was said on it as text that two brokers can be compared by."""

from __future__ import annotations

import json
import re
import socket
import struct
import time
from itertools import count
from typing import Any

from headrace.core.ids import Uuid
from headrace.wire.codec import decode
from headrace.wire.headers import framed_request, parse_response_header
from headrace.wire.json_view import to_json
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.describe_groups import DescribeGroupsRequest
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.schema import Message
from headrace.wire.versions import response_class

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Connection:
    """A socket to a broker; requests may be sent ahead of their answers."""

    def __init__(self, host: str, port: int, *, client_id: str | None = "tester") -> None:
        self._socket = socket.create_connection((host, port), 10)
        self._socket.settimeout(20)
        self._client_id = client_id
        self._correlation = count(1)
        self._sent: list[tuple[int, int, int]] = []

    def send(self, request: Message, version: int) -> None:
        """Send a request; its answer is the next that `receive` has not given yet."""
        correlation_id = next(self._correlation)
        self._sent.append((correlation_id, request.SCHEMA.api_key, version))
        self._socket.sendall(framed_request(request, version, correlation_id=correlation_id, client_id=self._client_id))

    def receive(self) -> Any:
        """The answer to the oldest request without one."""
        correlation_id, api_key, version = self._sent.pop(0)
        (size,) = struct.unpack(">i", self._read(4))
        frame = self._read(size)
        got, position = parse_response_header(frame, api_key=api_key, api_version=version)
        assert got == correlation_id, "answers come in the order of the requests"
        return decode(response_class(api_key), frame[position:], version)

    def ask(self, request: Message, version: int) -> Any:
        """Send a request and wait for its answer."""
        self.send(request, version)
        return self.receive()

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("the broker hung up")
            data += piece
        return data


class Transcript:
    """What was asked and answered, with everything that differs from run to run replaced by names."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names: dict[str, str] = {}

    def note(self, title: str, answer: Message, version: int) -> None:
        """Write an answer down as one line."""
        shown = _sorted(to_json(answer, version))
        text = json.dumps(shown, sort_keys=True)
        text = _UUID.sub(lambda found: self._name(found.group()), text)
        for raw, name in self._names.items():
            text = text.replace(raw, name)
        self.lines.append(f"{title} v{version}: {text}")

    def call(self, raw: str, name: str) -> None:
        """Show `raw` as `name` from now on."""
        self._names[raw] = name

    def _name(self, raw: str) -> str:
        return self._names.setdefault(raw, f"<id{sum(name.startswith('<id') for name in self._names.values()) + 1}>")


def _sorted(shown: Any) -> Any:
    """Lists of members, groups and topics in an order of their own: brokers keep them in maps."""
    if isinstance(shown, dict):
        return {key: _sorted(value) for key, value in shown.items() if key not in ("throttleTimeMs", "port", "host")}
    if isinstance(shown, list):
        items = [_sorted(each) for each in shown]
        return sorted(items, key=lambda each: json.dumps(each, sort_keys=True)) if _is_of_maps(items) else items
    return shown


def _is_of_maps(items: list[Any]) -> bool:
    return all(isinstance(each, dict) for each in items)


class World:
    """A broker, a transcript, and connections to it."""

    def __init__(self, host: str, port: int) -> None:
        self.address = (host, port)
        self.transcript = Transcript()
        self.main = Connection(host, port)
        self._open = [self.main]

    def connect(self, client_id: str | None = "tester") -> Connection:
        """Another connection."""
        self._open.append(Connection(*self.address, client_id=client_id))
        return self._open[-1]

    def ask(self, title: str, request: Message, version: int, connection: Connection | None = None) -> Any:
        """Ask, and write the answer down."""
        answer = (connection or self.main).ask(request, version)
        self.transcript.note(title, answer, version)
        return answer

    def close(self) -> None:
        """Hang up everywhere."""
        for each in self._open:
            each.close()

    def topic(self, name: str, partitions: int) -> Uuid:
        """Make a topic if there is none; its id."""
        asked = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        self.main.ask(CreateTopicsRequest(topics=(asked,), timeout_ms=10_000), 7)
        while True:
            answer = self.main.ask(MetadataRequest(topics=(MetadataRequestTopic(name=name),)), 12)
            topic = answer.topics[0]
            if not topic.error_code and all(not p.error_code for p in topic.partitions) and topic.partitions:
                self.transcript.call(str(topic.topic_id), f"<topic {name}>")
                return Uuid(topic.topic_id)
            time.sleep(0.02)

    def wait_for_coordinator(self, *group_ids: str) -> None:
        """Ask until these groups have a coordinator that serves."""
        for _ in range(1000):
            found = self.main.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=group_ids), 4)
            served = self.main.ask(DescribeGroupsRequest(groups=group_ids), 5)
            if not any(each.error_code for each in (*found.coordinators, *served.groups)):
                return
            time.sleep(0.02)
        raise AssertionError("no coordinator in 20 seconds")
