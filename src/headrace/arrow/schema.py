"""The columns of a topic as a table.

They are those of Spark's own `kafka` source, in its order, with its types and nullability.
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

NO_TIMESTAMP_TYPE: Final = -1
CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1

HEADER_TYPE: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS_TYPE: Final = pa.list_(pa.field("element", HEADER_TYPE))
TIMESTAMP_TYPE: Final = pa.timestamp("us", tz="UTC")

_COLUMNS: Final = (
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", TIMESTAMP_TYPE),
    pa.field("timestampType", pa.int32()),
)

ROWS_SCHEMA: Final = pa.schema(_COLUMNS)
ROWS_WITH_HEADERS_SCHEMA: Final = pa.schema([*_COLUMNS, pa.field("headers", HEADERS_TYPE)])


def chosen_fields(columns: Sequence[str]) -> pa.Schema:
    """The Arrow schema of these columns, in this order."""
    return pa.schema([ROWS_WITH_HEADERS_SCHEMA.field(name) for name in columns])


def rows_schema(*, include_headers: bool) -> pa.Schema:
    """The Arrow schema of rows read, with or without the column `headers`."""
    return ROWS_WITH_HEADERS_SCHEMA if include_headers else ROWS_SCHEMA
