"""Replicas as long-lived tasks of a Spark application, one application per process."""
