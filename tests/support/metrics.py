"""What would a scraper read from a node in memory?"""

from __future__ import annotations

from headrace.server.metrics.families import Family
from headrace.server.metrics.service import MetricsService
from headrace.testing.metrics import parse_samples
from tests.support.memory_node import MemoryNode


def watched(node: MemoryNode) -> MetricsService:
    """The metrics of a node that has not started, on the node's clock."""
    began_ms = node.clock.now
    service = MetricsService(node.config, stopwatch=lambda: (node.clock.now - began_ms) / 1_000)
    service.watch(node.node)
    return service


def shown(service: MetricsService) -> dict[str, float]:
    """Samples by `name` or `name{label="value"}`, as in Prometheus' text."""
    return {
        f"{family.name}{sample.suffix}{_labels(sample.labels)}": sample.value
        for family in service.families()
        for sample in family.samples
    }


def shown_of_partitions(service: MetricsService) -> dict[str, float]:
    """The samples of single partitions, and those of the metadata log, with labels in the order of the text."""
    page = service.partition_page
    assert page is not None
    for _ in page.turns():
        pass
    return parse_samples(page.text.decode())


def families(service: MetricsService) -> dict[str, Family]:
    """The families by name."""
    return {family.name: family for family in service.families()}


def _labels(labels: object) -> str:
    assert isinstance(labels, dict)
    return "{" + ",".join(f'{name}="{value}"' for name, value in sorted(labels.items())) + "}" if labels else ""
