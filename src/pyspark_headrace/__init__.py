"""Where does Spark find the data source `headrace`? In this package: it looks for `DefaultSource` in every package named `pyspark_*`."""

from headrace.spark.source import HeadraceDataSource as DefaultSource

__all__ = ["DefaultSource"]
