"""Declarative pipelines: a project of Spark Declarative Pipelines, run with Headrace's data source and looked at while it runs.

`project` writes and finds projects, `session` starts or reaches a Spark Connect session, `run` runs a pipeline, `graph` is what it
consists of, `notes` what is known of its last run, `picture` draws that. Files and flows are Spark's
own (`pyspark.pipelines`), so that `spark-pipelines` runs the same project.
"""
