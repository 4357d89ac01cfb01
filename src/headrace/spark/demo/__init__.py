"""The demonstration for new users: the flights of 2013 out of New York, replayed into a topic and worked on by a Spark pipeline.

`flights` prepares the replay, `replay` writes it, `flights.toml` is the pipeline, `run` brings them together, `account` says where every
single row went, `plot` draws the result. The command is `headrace demo flights`.
"""
