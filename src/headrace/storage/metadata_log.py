"""The log of `__cluster_metadata-0`, which stands alone in its log directory: made if there is none, else every batch is checked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from headrace.core.ids import METADATA_TOPIC_ID, TopicPartition
from headrace.storage.layout import METADATA_TOPIC, partition_directory
from headrace.storage.recovery import LoadHints, load
from headrace.storage.renewal import renew_unsynced
from headrace.storage.stored_log import StoredLog

if TYPE_CHECKING:
    from headrace.core.ports import Files
    from headrace.log.config import LogConfig

MAX_UNSYNCED_BYTES: Final = 16 * 1024 * 1024
_PARTITION: Final = TopicPartition(METADATA_TOPIC, 0)
_Log = TypeVar("_Log", bound=StoredLog)


def open_metadata_log(
    log_class: type[_Log],
    files: Files,
    directory: str,
    config: LogConfig,
    known: LoadHints,
) -> _Log:
    """The log in the log directory `directory`. Of what is `known` of it before it is read, the bound of what may be torn is set here.

    Raises StorageFault; RottenLog if a synced part is damaged.
    """
    path = f"{directory}/{partition_directory(_PARTITION)}"
    if not files.exists(path):
        files.mkdir(path)
        files.fsync_dir(directory)
    hints = replace(known, is_contiguous=True, max_unsynced_bytes=MAX_UNSYNCED_BYTES)
    loaded = load(files, path, config, hints)
    durable_end = loaded.state.durable_end_offset
    if durable_end < loaded.state.log_end_offset:
        renew_unsynced(loaded.segments, durable_end=durable_end, max_bytes=MAX_UNSYNCED_BYTES)
    return log_class(files, _PARTITION, loaded, directory=directory, topic_id=METADATA_TOPIC_ID)
