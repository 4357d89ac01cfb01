"""The client side: how a program talks to a cluster, whoever wrote the cluster.

Read in this order: `settings` (what was asked for), `talk` (the values a conversation exchanges with its driver), `session` (what a client
knows), `connection` (one socket's dialogue), `routing` and `retry` (where to ask, when to ask again), then the subjects: `admin_*`, `offsets`,
`fetcher`, `producer`, `groups`, `membership`. `blocking` and `aio` are the two faces that own sockets and clocks and decide nothing.
"""
