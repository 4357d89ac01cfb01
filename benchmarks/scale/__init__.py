"""What does a cluster of very many partitions cost its controller? See `benchmarks.scale.__main__`."""
