"""The front door of either listener: a connection's requests in, replies out in their order, and who waits."""
