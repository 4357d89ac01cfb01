"""The records of __share_group_state."""
