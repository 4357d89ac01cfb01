"""The text in which a scraper gets the metrics, and what it asks for.

The text is prometheus-client's work: Prometheus' own format, or OpenMetrics when the `Accept` header asks for it. The library is imported by the
first scrape, in a thread: it takes longer than a node's start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from headrace.server.metrics.families import Family

OPENMETRICS: Final = "application/openmetrics-text"
_CHOICES: Final = {True: f"{OPENMETRICS}; version=1.0.0", False: ""}


class Exposition(Protocol):
    """Makes the text: the bytes and their content type."""

    def __call__(self, families: Sequence[Family], *, is_openmetrics: bool) -> tuple[bytes, str]: ...


def wants_openmetrics(accept: str) -> bool:
    """Whether the `Accept` header names OpenMetrics as something that its sender takes."""
    for each in accept.split(","):
        kind, *settings = (part.strip().lower() for part in each.split(";"))
        if kind == OPENMETRICS and not any(part.startswith("q=") and not part[2:].strip("0.") for part in settings):
            return True
    return False


def load_exposition() -> Exposition:
    """Import what it takes. For a thread: it is slow."""
    from prometheus_client.exposition import choose_encoder
    from prometheus_client.metrics_core import Metric

    def metrics(families: Iterable[Family]) -> Iterator[Metric]:
        for family in families:
            metric = Metric(family.name, family.about, family.kind)
            for suffix, labels, value in family.samples:
                metric.add_sample(family.name + suffix, dict(labels), value)
            yield metric

    class Once:
        """The families as prometheus-client collects them."""

        def __init__(self, families: Sequence[Family]) -> None:
            self._families = families

        def collect(self) -> Iterable[Metric]:
            return metrics(self._families)

    def expose(families: Sequence[Family], *, is_openmetrics: bool) -> tuple[bytes, str]:
        encode, content_type = choose_encoder(_CHOICES[is_openmetrics])
        return encode(Once(families)), content_type

    return expose
