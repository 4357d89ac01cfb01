"""Bytes and messages: what travels, in which version it looks how. Differences between versions end in this package."""
