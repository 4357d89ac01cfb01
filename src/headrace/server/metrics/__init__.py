"""Metrics of this node, for those who watch it (docs/decisions/0020)."""
