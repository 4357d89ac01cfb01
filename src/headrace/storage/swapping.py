"""The replacement of old segments by cleaned ones, so that a crash at any point leaves each record once. Source: D11.

1. The cleaned segment is written as `.log.cleaned` (and `.txnindex.cleaned`, and its indexes likewise) and synced.
2. It is renamed to `.log.swap`, and the directory is synced: from here on the swap counts as decided.
3. The old segments it replaces are removed, all but the one of the same name; the directory is synced.
4. `.swap` is renamed away, over the old segment of that name; the directory is synced. Then its indexes get their names.

Several cleaned segments of a log, in rising order, take each step together. At start, what is before step 2 is thrown away and what is
behind it is finished. Indexes that did not get their names are built anew. An old
`.txnindex` may outlive its segment's swap: it names transactions whose records are gone, which harms no reader.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from headrace.core.ports import Files
from headrace.storage.layout import (
    CLEANED,
    DELETED,
    INDEX,
    LOG,
    SEGMENT_SUFFIXES,
    SWAP,
    TIME_INDEX,
    TXN_INDEX,
    OffsetFile,
    offset_file,
    parse_offset_file,
)
from headrace.storage.segment_file import Segment


def finish_swaps(files: Files, path: str) -> list[OffsetFile]:
    """Remove what is going or unfinished in a partition's directory and finish decided swaps; what the names left say, in their order."""
    all_found = _offset_files(files, path)
    found = {name: parsed for name, parsed in all_found if parsed.state}
    if not found:
        return [parsed for _, parsed in all_found]
    unfinished = [parsed.offset for parsed in found.values() if parsed.state == CLEANED and parsed.suffix == LOG]
    abandoned_from = min(unfinished, default=None)
    swaps = []
    for name, parsed in found.items():
        if parsed.state == SWAP and parsed.suffix == LOG and (abandoned_from is None or parsed.offset < abandoned_from):
            swaps.append(parsed)
        elif parsed.state in (DELETED, CLEANED) or _has_no_log(parsed, found, abandoned_from):
            files.unlink(f"{path}/{name}")
    if swaps:
        apply_swaps(files, path, {swap.offset: _swap_end(files, path, swap.offset) for swap in swaps})
    return [parsed for _, parsed in _offset_files(files, path)]


def _offset_files(files: Files, path: str) -> list[tuple[str, OffsetFile]]:
    """The names in a partition's directory that say an offset, and what they say."""
    return [(name, parsed) for name in files.listdir(path) if (parsed := parse_offset_file(name)) is not None]


def _has_no_log(parsed: OffsetFile, found: dict[str, OffsetFile], abandoned_from: int | None) -> bool:
    """True for a `.swap` file that belongs to no decided swap."""
    if abandoned_from is not None and parsed.offset >= abandoned_from:
        return True
    return OffsetFile(parsed.offset, LOG, SWAP) not in found.values()


def _swap_end(files: Files, path: str, base_offset: int) -> int:
    """End offset of the batches in a `.log.swap`."""
    file = files.open(offset_file(path, base_offset, LOG, SWAP), read_only=True)
    try:
        end = base_offset
        for _, header in Segment.over(files, path, base_offset, file).batches():
            end = header.next_offset
        return end
    finally:
        file.close()


def apply_swaps(files: Files, path: str, ends: Mapping[int, int]) -> None:
    """Steps 3 and 4 for the segments at the base offsets in `ends`, whose batches end at the values (exclusive)."""
    bases = sorted(ends)
    for name in files.listdir(path):
        parsed = parse_offset_file(name)
        if parsed is None or parsed.state or parsed.suffix not in SEGMENT_SUFFIXES:
            continue
        at = bisect_left(bases, parsed.offset) - 1
        if at >= 0 and parsed.offset not in ends and parsed.offset < ends[bases[at]]:
            files.unlink(f"{path}/{name}")
    for base in bases:
        for suffix in (INDEX, TIME_INDEX):
            files.unlink(offset_file(path, base, suffix))
            files.unlink(offset_file(path, base, suffix, SWAP))
    files.fsync_dir(path)
    for base in bases:
        for suffix in (TXN_INDEX, LOG):
            source = offset_file(path, base, suffix, SWAP)
            if files.exists(source):
                files.rename(source, offset_file(path, base, suffix))
    files.fsync_dir(path)
