"""The records of __transaction_state."""
