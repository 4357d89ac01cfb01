"""Can the time of one change of metadata be told part by part?"""

from __future__ import annotations

import pytest

from tests.integration.quorum.conftest import IS_KAFKA, NewCluster
from tests.support.write_trace import PARTS, keep_journals, trace_changes

CLOCK_MS = 3
"""Each mark is cut to whole milliseconds."""


@pytest.mark.skipif(IS_KAFKA, reason="Kafka keeps no journal")
def test_the_parts_of_a_change_add_up(new_cluster: NewCluster) -> None:
    """S4-63: every part of its way is found, none is missing between them, and the broker has it after the commit."""
    cluster = new_cluster(controllers=3, brokers=1)
    keep_journals(cluster)
    traces = trace_changes(cluster.start(), 5)
    assert len(traces) == 5
    for trace in traces:
        assert len(trace.parts) == len(PARTS)
        assert all(part >= -CLOCK_MS for part in trace.parts)
        assert abs(sum(trace.parts) - trace.end_to_end_ms) <= 0.1 * trace.end_to_end_ms + CLOCK_MS
        assert trace.applied_ms >= -CLOCK_MS
