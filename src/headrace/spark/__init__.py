"""Topics in Spark: the data source `headrace`, and pipelines described in a file.

`source.HeadraceDataSource` is what Spark finds through the package `pyspark_headrace`. `session.local_session` makes a local Spark that
works on a machine without Java. `options` and `offset_ranges` decide and are pure; readers and writers are thin.
"""
