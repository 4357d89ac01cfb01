"""Streams from topics into Parquet, Delta Lake and PostgreSQL, broken on purpose in the middle of batches: no row lost, none doubled, or one clear error.

`program` is the Spark program that is killed, `stage` the brokers, the topic, the tables and the program's process, `faults` what is done to them.
Delta's jars and PostgreSQL come from `tests/peers`.
"""
