"""The records of the metadata log, and their frame."""
