"""Pipelines: a file describes what flows from topics into tables and topics.

`spec` reads the file into frozen values, `plan` checks that its parts fit together, `runner` runs it on Spark and goes on from its checkpoint
after a stop; `sinks` has one file for each kind of sink. The file's format: `spec`.
"""
