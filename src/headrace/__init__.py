"""Headrace: an event-streaming cluster in Python that speaks the Apache Kafka protocol.

Read the packages from the bottom upwards; each imports only what stands below it:

``core`` the words everybody uses; ``config`` settings; ``wire`` bytes and messages; ``records`` record batches; ``log`` what one partition log decides;
``client`` the client side; ``storage`` and ``net`` files and sockets; ``rpc`` requests in, replies out; ``raft`` and ``metadata`` the metadata quorum and what its log says;
``controller``, ``replication`` and ``coordinator`` the decisions; ``broker`` requests; ``node`` one process, still pure;
``server`` the asyncio driver; ``arrow`` and ``spark`` the way into tables; ``testing`` a node inside a test; ``cli`` the command.
"""

__version__ = "0.1.0"
