"""Does a large answer arrive whole, however the reader takes it?"""

from __future__ import annotations

import os
import socket
import struct
import time

import pytest

from headrace.records.record import NewRecord, build_batch
from headrace.testing.node import Node
from headrace.wire.messages.fetch import FetchPartition
from tests.support.peer import Peer, fetch_request
from tests.support.raw import request_frame

BATCHES = 12
VALUE_BYTES = 900_000


@pytest.mark.parametrize("pause_s", [0.0, 0.002])
def test_file_bytes_arrive_whole_at_quick_and_slow_readers(pause_s: float) -> None:
    """M4, B-P07: 11 MB go from the file to the socket in as many parts as the reader's buffer makes of them."""
    with Node(in_process=True) as node:
        peer = Peer("headrace", node.port)
        peer.create("large")
        values = [os.urandom(VALUE_BYTES) for _ in range(BATCHES)]
        for value in values:
            data = build_batch([NewRecord(key=None, value=value, timestamp=int(time.time() * 1000))])
            assert peer.produce("large", bytearray(data)).error_code == 0
        with socket.socket() as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
            reader.connect(("127.0.0.1", node.port))
            asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=64 << 20)
            request = fetch_request("large", [asked], max_bytes=64 << 20)
            reader.sendall(request_frame(request, 11, 7) * 2)
            received = bytearray()
            wanted = 2 * (BATCHES * VALUE_BYTES)
            while len(received) < wanted:
                part = reader.recv(256 << 10)
                assert part, "the node closed the connection"
                received += part
                time.sleep(pause_s)
    first_size = struct.unpack_from(">i", received)[0]
    first, second = received[4 : 4 + first_size], received[8 + first_size :]
    for answer in (first, second):
        positions = [answer.find(value) for value in values]
        assert positions == sorted(positions)
        assert min(positions) > 0
