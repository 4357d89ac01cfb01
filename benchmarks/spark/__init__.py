"""How fast does Spark read and write topics through our source, beside Spark's own connector? `make bench-spark`."""
