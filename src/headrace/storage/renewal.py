"""What a process finds after an unclean start that may be in the page cache only, and how it makes sure of that.

A process that was killed leaves what it wrote in the page cache; the next one reads it there. A sync now need not write it: after a sync
that failed the kernel holds the pages for written though they are not (S58), and the name of a segment may not be on disk either. So the
part that is not known to be synced is written again, over itself, and the names count as changed: the first flush makes all of it durable.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from headrace.storage.segment_file import Segment

_CHUNK_BYTES: Final = 1 << 20


def unsynced_bytes(segments: Sequence[Segment], durable_end: int) -> int:
    """How many bytes the segments hold of records above `durable_end`."""
    reaching = _reaching_above(segments, durable_end)
    return sum(each.size for each in reaching) - reaching[0].position_of(durable_end)


def renew_unsynced(segments: Sequence[Segment], *, durable_end: int, max_bytes: int) -> int:
    """Write the last `max_bytes` of the segments that reach above `durable_end` again, over themselves; the number of bytes written.

    More than `max_bytes` are never unsynced (see `LoadHints.max_unsynced_bytes`). Raises StorageFault.
    """
    left = max_bytes
    for segment in reversed(_reaching_above(segments, durable_end)):
        segment.names_changed = True
        position = max(segment.size - left, 0)
        left -= segment.size - position
        while position < segment.size:
            data = segment.log.pread(min(_CHUNK_BYTES, segment.size - position), position)
            if not data:
                break
            segment.log.pwrite(data, position)
            position += len(data)
    return max_bytes - left


def _reaching_above(segments: Sequence[Segment], durable_end: int) -> Sequence[Segment]:
    """The segment that holds `durable_end`, and those behind it."""
    first = max(bisect_right([each.base_offset for each in segments], durable_end) - 1, 0)
    return segments[first:]
