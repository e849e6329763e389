"""The process of one index, which `__main__.py` runs: its replicas as threads or as tasks of a Spark application, or
its ingresses.
"""
