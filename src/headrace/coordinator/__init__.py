"""Who is in a group, what does each member own, and how far has the group read?

One `GroupCoordinator` (`machine.py`) decides for the groups of one partition of `__consumer_offsets`. It takes events, changes its fields
and returns effects (`events.py`); `broker/groups.py` drives it.
"""
