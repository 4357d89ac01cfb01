"""The package in which Spark finds the data source `headrace_metadata`: it looks for `DefaultSource` in every package named `pyspark_*`."""

from headrace.spark.metadata_source import MetadataDataSource as DefaultSource

__all__ = ["DefaultSource"]
