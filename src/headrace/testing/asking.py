"""The response of one node of a cluster to one request, on a plain connection that is closed again."""

from __future__ import annotations

import socket
from typing import Any, Final

from headrace.wire.codec import decode
from headrace.wire.framing import LENGTH_BYTES, SMALLEST_RESPONSE, frame_length
from headrace.wire.headers import framed_request, parse_response_header
from headrace.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from headrace.wire.schema import Message
from headrace.wire.versions import response_class

METADATA_TOPIC: Final = "__cluster_metadata"
_LARGEST_RESPONSE: Final = 100 << 20


def ask(host: str, port: int, request: Message, version: int, *, timeout_s: float = 10.0) -> Any:
    """The decoded answer of the node at `host:port`. Raises OSError: unreachable, silent for `timeout_s`, or it hung up."""
    key = type(request).SCHEMA.api_key
    with socket.create_connection((host, port), timeout_s) as connection:
        connection.sendall(framed_request(request, version, correlation_id=1, client_id="headrace-testing"))
        length = frame_length(_exactly(connection, LENGTH_BYTES), smallest=SMALLEST_RESPONSE, largest=_LARGEST_RESPONSE)
        frame = _exactly(connection, length)
    _, start = parse_response_header(frame, api_key=key, api_version=version)
    return decode(response_class(key), frame[start:], version)


def describe_quorum(host: str, port: int, *, timeout_s: float = 5.0) -> Any:
    """The quorum as the node at `host:port` sees it: the DescribeQuorum answer of the metadata partition (its `error_code`
    is 6 on a node that does not lead). Raises OSError: unreachable.
    """
    answer = ask_quorum(host, port, timeout_s=timeout_s)
    if not answer.topics:
        raise ConnectionError(f"{host}:{port} answers DescribeQuorum with error {answer.error_code}")
    return answer.topics[0].partitions[0]


def ask_quorum(host: str, port: int, *, timeout_s: float = 5.0) -> Any:
    """The whole DescribeQuorum answer, with `nodes` and their end points. Raises OSError: unreachable."""
    partitions = (RequestPartitionData(partition_index=0),)
    request = DescribeQuorumRequest(topics=(RequestTopicData(topic_name=METADATA_TOPIC, partitions=partitions),))
    return ask(host, port, request, 2, timeout_s=timeout_s)


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError("the node closed the connection")
        data += part
    return bytes(data)
