"""What is said of bytes that are no batch of today's format, whatever their other fields look like?"""

from __future__ import annotations

import pytest

from headrace.core.error_code import ErrorCode
from tests.support.broker_bench import BrokerBench, Client
from tests.support.peer import batch, produce_request

MAGIC, ATTRIBUTES, TRANSACTIONAL = 16, 22, 0x10


@pytest.mark.parametrize(
    ("magic", "code"),
    [
        (0, ErrorCode.INVALID_RECORD),
        (1, ErrorCode.INVALID_RECORD),
        (2, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (3, ErrorCode.CORRUPT_MESSAGE),
        (255, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_only_a_batch_can_be_of_a_transaction(magic: int, code: ErrorCode) -> None:
    """input:B41, input:B45: the format is looked at first; the transactional bit of other bytes means nothing."""
    bench = BrokerBench()
    bench.topic("t")
    data = batch(b"x")
    data[MAGIC] = magic
    data[ATTRIBUTES] |= TRANSACTIONAL
    answer = Client(bench).ask(produce_request("t", data, acks=1), 9)
    assert answer.responses[0].partition_responses[0].error_code == code
    assert bench.broker.log_bounds("t", 0) == (0, 0, 0)
