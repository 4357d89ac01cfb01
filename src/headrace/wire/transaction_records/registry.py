"""The class of each record type.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from typing import Final

KEY_TYPES: Final = {
    # record type: module, class of the key
    0: ("headrace.wire.transaction_records.transaction_log_key", "TransactionLogKey"),
}

VALUE_TYPES: Final = {
    # record type: module, class of the value
    0: ("headrace.wire.transaction_records.transaction_log_value", "TransactionLogValue"),
}
