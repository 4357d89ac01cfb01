"""What comes of names and values that fill their fields to the last byte?"""

from __future__ import annotations

import pytest

from headrace.testing.node import Node
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.raw import RawConnection

ASK = ApiVersionsRequest(client_software_name="tests", client_software_version="1")


@pytest.mark.parametrize("listener", ["broker", "controller"])
def test_a_refusal_that_quotes_a_long_name_is_told_and_the_node_goes_on(shared_node: Node, listener: str) -> None:
    """input:B26, input:B24: the answer leaves with the commit of the good topic beside it, in the middle of the quorum's work."""
    port = shared_node.port if listener == "broker" else shared_node.controller_port
    names = [f"beside-{listener}", "x" * 32_767, "\u00e4" * 16_383]
    topics = tuple(CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names)
    with RawConnection(port) as client:
        answer = client.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7)
        found = {each.name: each.error_code for each in answer.topics}
        assert [found[name] for name in names] == [0, 17, 17]
        assert client.ask(ASK, 4).error_code == 0
