"""Consumer groups: who is in one, what each member owns, and how far the group has read.

The coordinator of the groups in one partition of `__consumer_offsets` (`machine.py`), on the runtime of coordinators. What records say lies in an immutable `GroupsImage` (`image.py`);
members, their waiting requests and sessions live beside it, as nothing of them is in the log.
"""
