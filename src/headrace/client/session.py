"""What a client knows at the moment: its settings, the nodes it has heard of, the topics' leaders, the time."""

from __future__ import annotations

from headrace.client.cluster_view import ClusterView
from headrace.client.settings import ClientSettings
from headrace.core.ports import Rng


class Session:
    """The memory of one client, read and changed by its conversations; the driver sets `now_ms` before each step of one.

    `now_ms` is monotonic and has no meaning between processes; `rng` spreads retries.
    """

    __slots__ = ("cluster", "coordinators", "now_ms", "rng", "settings")

    def __init__(self, *, settings: ClientSettings, rng: Rng, now_ms: int = 0) -> None:
        self.settings = settings
        self.rng = rng
        self.now_ms = now_ms
        self.cluster = ClusterView(bootstrap=settings.bootstrap)
        self.coordinators: dict[str, int] = {}
