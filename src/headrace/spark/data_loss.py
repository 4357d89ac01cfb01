"""Records that are gone before they were read."""

from __future__ import annotations

import logging
from typing import Final

from headrace.core.errors import OperatorError
from headrace.spark.options import ReadOptions

_LOG: Final = logging.getLogger("headrace.spark")


def remade_text(topic: str, before: str, now: str) -> str:
    """That a topic is another one of the same name."""
    return f"topic {topic} was deleted and made again (its id was {before} and is {now}): what had not been read of the former is lost"


def report_loss(options: ReadOptions, what: str) -> None:
    """With `failOnDataLoss` an OperatorError that says what is missing, else a warning in the log."""
    if options.is_loss_fatal:
        raise OperatorError(
            f"{what}. Records were aged out or deleted, or the topic was made anew; "
            "say failOnDataLoss=false to go on without them"
        )
    _LOG.warning("%s; going on without them, as failOnDataLoss=false says", what)
