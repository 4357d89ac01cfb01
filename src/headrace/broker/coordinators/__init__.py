"""Replicated coordinators on this broker: on its partitions, logs and waiting requests.

`service.py` has one `HostedCoordinator` (`hosted.py`) for each partition of a coordinator's topic that this broker leads; `reading.py` reads their logs in turns. `groups.py` is the first service.
"""
