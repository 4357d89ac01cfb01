"""The runtime of a replicated coordinator, whatever it coordinates.

A `Shard` (`shard.py`) is one partition of the coordinator's topic: its state, what is written and not committed yet, deadlines. The `Runtime`
(`machine.py`) steps it. What a coordinator has to bring is in `contract.py`.
"""
