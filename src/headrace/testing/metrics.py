"""The metrics that a node shows, `GET /metrics`, as numbers for a test."""

from __future__ import annotations

import urllib.request


def scrape(host: str, port: int, *, timeout_s: float = 10.0) -> dict[str, float]:
    """The samples by name, with labels as they are written: `name` or `name{label="value"}`. Raises OSError."""
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=timeout_s) as answer:
        return parse_samples(answer.read().decode())


def parse_samples(text: str) -> dict[str, float]:
    """The samples of Prometheus' text format."""
    lines = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}
