"""Names and shapes of metrics.

Kafka's metrics are attributes of beans: `kafka.controller:type=KafkaController,name=ActiveControllerCount`. Dashboards for Prometheus know them by
the names that the JMX exporter makes of these with its published rules for KRaft; the functions here do the same:

    gauge     kafka_controller_kafkacontroller_activecontrollercount
    meter     kafka_server_replicamanager_isrshrinks_total            (without its PerSec)
    summary   kafka_controller_controllereventmanager_eventqueuetimems{quantile="0.50"}, ..._count, and ..._sum, which the exporter lacks
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

GAUGE: Final = "gauge"
COUNTER: Final = "counter"
SUMMARY: Final = "summary"
INFO: Final = "info"

NOTHING: Final[Mapping[str, str]] = {}
_UNFIT = re.compile(r"[^a-z0-9_]")


class Sample(NamedTuple):
    """One line: what follows the family's name, the labels, the value."""

    suffix: str
    labels: Mapping[str, str]
    value: float


class Family(NamedTuple):
    """All samples of one name. `kind` as in OpenMetrics; a counter's name is without `_total`, an info's without `_info`."""

    name: str
    kind: str
    about: str
    samples: Sequence[Sample]


@lru_cache(maxsize=1_024)
def exported_name(bean: str, attribute: str) -> str:
    """The name for an attribute of `domain:type`, as the exporter makes it: lower case, `_` for what a name may not hold."""
    return _UNFIT.sub("_", f"{bean}_{attribute}".lower())


def gauge(bean: str, attribute: str, value: float, about: str) -> Family:
    """A value that goes up and down, or that Kafka shows as if it did."""
    return Family(exported_name(bean, attribute), GAUGE, about, (Sample("", NOTHING, value),))


def labelled(bean: str, attribute: str, label: str, values: Iterable[tuple[str, float]], *, about: str) -> Family:
    """One gauge for each value of a label."""
    return Family(
        exported_name(bean, attribute), GAUGE, about, tuple(Sample("", {label: name}, value) for name, value in values)
    )


def info(bean: str, attribute: str, label: str, value: str, *, about: str) -> Family:
    """A text: it is the label of a sample that is always 1."""
    return Family(exported_name(bean, attribute), INFO, about, (Sample("_info", {label: value}, 1),))


def meter(bean: str, attribute: str, count: int, about: str) -> Family:
    """How often something happened, of which Kafka shows the rate too; `attribute` ends in PerSec."""
    name = exported_name(bean, attribute.removesuffix("PerSec"))
    return Family(name, COUNTER, about, (Sample("_total", NOTHING, count),))


def summary(
    name: str,
    parts: Iterable[tuple[Mapping[str, str], Mapping[str, float], tuple[int, float]]],
    about: str,
) -> Family:
    """Quantiles of the last minutes, and count and sum of all time, for each set of labels."""
    samples: list[Sample] = []
    for labels, quantiles, (count, total) in parts:
        samples += [Sample("", {**labels, "quantile": each}, value) for each, value in quantiles.items()]
        samples += [Sample("_count", labels, count), Sample("_sum", labels, total)]
    return Family(name, SUMMARY, about, samples)
