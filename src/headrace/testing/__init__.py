"""Real nodes for tests: ``with Node() as node: ...``, or the pytest fixture ``headrace_node``."""

from headrace.testing.cluster import Cluster
from headrace.testing.member import Member, Place
from headrace.testing.node import Node

__all__ = ["Cluster", "Member", "Node", "Place"]
