"""The package in which Spark finds the data source `headrace`: it looks for `DefaultSource` in every package named `pyspark_*`."""

from headrace.spark.source import HeadraceDataSource as DefaultSource

__all__ = ["DefaultSource"]
