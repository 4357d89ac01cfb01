"""The file of a node's journal."""

from __future__ import annotations

import logging
import os
import random
from typing import TYPE_CHECKING

from headrace.core.errors import OperatorError
from headrace.node.journal import Journal, JournalStart

if TYPE_CHECKING:
    from headrace.config.node_config import NodeConfig
    from headrace.core.listener import Listener
    from headrace.core.ports import Files, Rng
    from headrace.node.metadata_plane import MetadataPlane

_LOG = logging.getLogger("headrace.server")
_OWNER_ONLY = 0o600


class JournalFile:
    """The journal of one process, or none. It never harms the node: when it cannot be written any more it ends with a warning."""

    def __init__(self, config: NodeConfig) -> None:
        self._config = config
        self._file: int | None = None
        self._journal = Journal(self._write)

    def begin(self, *, bound: tuple[Listener, ...], host_name: str, wall_ms: int, files: Files) -> Rng | None:
        """Write the first line; the chance that the metadata side must be given, None without a journal. Raises OperatorError."""
        path = self._config.headrace_journal_file
        if not path:
            return None
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _OWNER_ONLY)
        except OSError as error:
            raise OperatorError(f"headrace.journal.file: {path}: {error.strerror}") from None
        seed = random.SystemRandom().getrandbits(64)
        start = JournalStart(config=self._config, bound=bound, host_name=host_name, seed=seed, wall_ms=wall_ms)
        self._journal.begin(start, files)
        return random.Random(seed)

    def watch(self, plane: MetadataPlane) -> None:
        """Note what the plane takes from now on."""
        if self._file is not None:
            self._journal.watch(plane)

    def close(self) -> None:
        """No more lines."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _write(self, line: str) -> None:
        if self._file is None:
            return
        try:
            os.write(self._file, line.encode())
        except OSError as error:
            _LOG.warning("the journal %s ends here: %s", self._config.headrace_journal_file, error.strerror)
            self.close()
