"""Computes buckets again from the log: redos after a failure, in a thread or on Spark, and audits of published streams.

Results depend on the log alone; the fold, SUnion and kernel are the replica's own. `replay` does the work.
`replay_context` and `redo_job` make it a value for Spark's workers; `thread_redo`, `redo_client`, `redo_server` and
`spark_executor` run it for a replica; `audit`, `compare` and `dead_letters` check a stream.
"""
