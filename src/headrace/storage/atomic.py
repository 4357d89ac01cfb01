"""The replacement of a small file, so that a crash leaves the old one or the new one.

Write a temporary file, sync it, rename it, sync the directory (D6, K30, K32).
"""

from __future__ import annotations

from headrace.core.ports import BytesLike, Files


def replace_file(files: Files, directory: str, name: str, data: BytesLike) -> None:
    """Replace `directory/name` durably. Raises StorageFault; the old file is then still whole."""
    temporary = f"{directory}/{name}.tmp"
    target = f"{directory}/{name}"
    file = files.open(temporary, create=True, truncate=True)
    try:
        file.pwrite(data, 0)
        file.fsync()
    finally:
        file.close()
    files.rename(temporary, target)
    files.fsync_dir(directory)
