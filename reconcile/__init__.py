"""Buckets out of the log again: redos after a failure, in a thread or on Spark, and the audit of what was published.

Everything here is pure given the log and shares the replica's own fold, SUnion and kernel. `replay` is the heart;
`work` and `task` make it travel; `runner` and `spark` run it beside a replica; `audit` and `compare` judge a stream.
"""
