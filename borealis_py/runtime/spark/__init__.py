"""Replicas as long-lived tasks of a Spark application, one application a process (design 3.3)."""
