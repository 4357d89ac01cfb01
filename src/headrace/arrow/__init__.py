"""Record batches of a topic range as Arrow columns, and Arrow columns as record batches.

A topic:  `read_table(servers, topic, start=..., end=..., columns=...) -> pyarrow.Table`, or `read_topic` batch by batch
Reading:  `RangeDecoder(topic=..., partition=...).decode(records, start_offset=..., end_offset=...) -> DecodedRange`
Writing:  `encode_batches(rows, BatchSettings(...)) -> Iterator[bytearray]`; `choose_partitions(keys, count)`

The work is done by vectorised numpy and pyarrow calls over whole fetch answers; `compiled.py` offers the hot loops in C where somebody built
them (docs/decisions). Both give the same columns, and both refuse the same bytes: a batch that cannot be right is a `DecodeError`, never rows.
"""
