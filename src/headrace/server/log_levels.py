"""The broker's loggers as resources that an administrator can describe and change (KIP-412)."""

from __future__ import annotations

import logging
from collections.abc import Mapping

ROOT = "root"
_NAMES = {
    logging.DEBUG: "DEBUG",
    logging.INFO: "INFO",
    logging.WARNING: "WARN",
    logging.ERROR: "ERROR",
    logging.CRITICAL: "FATAL",
}
_LEVELS = {**{name: level for level, name in _NAMES.items()}, "TRACE": 5}


class LoggingLevels:
    """The loggers of Python's `logging` under Kafka's level names; WARNING is WARN and CRITICAL is FATAL there."""

    def levels(self) -> Mapping[str, str]:
        """Every logger that was made, and `root`, with the level in force."""
        known = {ROOT: _name(logging.getLogger().level)}
        for name, logger in sorted(logging.Logger.manager.loggerDict.items()):
            if isinstance(logger, logging.Logger):
                known[name] = _name(logger.getEffectiveLevel())
        return known

    def set_level(self, logger: str, level: str | None) -> None:
        """Set a level; None takes the parent's again."""
        chosen = logging.getLogger() if logger == ROOT else logging.getLogger(logger)
        chosen.setLevel(logging.NOTSET if level is None else _LEVELS[level])


def _name(level: int) -> str:
    """The name of the nearest level that is not above."""
    return next((_NAMES[known] for known in sorted(_NAMES, reverse=True) if level >= known), "TRACE")
