"""How long is a broker told to wait for its replicas?"""

from __future__ import annotations

import queue
import socket
import struct
import subprocess
import sys
import threading

import pytest

from headrace.wire import codec
from headrace.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from headrace.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

PRODUCE, METADATA, API_VERSIONS = 0, 3, 18
SPOKEN = {PRODUCE: 8, METADATA: 8, API_VERSIONS: 3}
"""Versions whose headers have no tags."""


def serve(listener: socket.socket, produced: queue.Queue[bytes]) -> None:
    """One broker with topic `t`, which puts what is produced into a queue and answers nothing more."""
    port = listener.getsockname()[1]
    part = MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=(1,), isr_nodes=(1,))
    bodies = {
        API_VERSIONS: ApiVersionsResponse(
            api_keys=tuple(ApiVersion(api_key=key, max_version=last) for key, last in SPOKEN.items())
        ),
        METADATA: MetadataResponse(
            brokers=(MetadataResponseBroker(node_id=1, host="127.0.0.1", port=port),),
            topics=(MetadataResponseTopic(name="t", partitions=(part,)),),
        ),
    }
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            while head := connection.recv(4, socket.MSG_WAITALL):
                request = connection.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL)
                (key, version) = struct.unpack_from(">hh", request)
                if key == PRODUCE:
                    produced.put(request)
                    return
                answer = request[4:8] + codec.encode(bodies[key], min(version, SPOKEN[key]))
                connection.sendall(struct.pack(">i", len(answer)) + answer)


@pytest.mark.parametrize(
    "options",
    [["--request-timeout-ms", "43210"], ["--command-property", "request.timeout.ms=43210"]],
    ids=["option", "property"],
)
def test_the_request_timeout_reaches_the_broker(options: list[str]) -> None:
    """B-T12: `--request-timeout-ms` and `request.timeout.ms` are the acknowledgement timeout of what is produced (KIP-91)."""
    produced: queue.Queue[bytes] = queue.Queue()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener, produced), daemon=True).start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        command = [sys.executable, "-m", "headrace", "console-producer", "--bootstrap-server", address, "--topic", "t"]
        with subprocess.Popen(
            [*command, "--request-required-acks", "1", "--timeout", "0", *options],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as producer:
            assert producer.stdin is not None
            producer.stdin.write(b"hello\n")
            producer.stdin.close()
            try:
                request = produced.get(timeout=60)
            finally:
                producer.kill()
    (client_id_size,) = struct.unpack_from(">h", request, 8)
    transactional_id_size, acks, timeout_ms = struct.unpack_from(">hhi", request, 10 + client_id_size)
    assert (transactional_id_size, acks, timeout_ms) == (-1, 1, 43_210)
