"""`make chaos`: a partitioned chain on a real broker, its replicas as Spark tasks, and a fault every few seconds.

`faults` draws what is done from a seed; `arena` and what it does to processes and links; `run` does it; `report` tells.
The cluster is the drills', the checker `borealis_py.verify`. `python -m tests.chaos --help` has the options.
"""
