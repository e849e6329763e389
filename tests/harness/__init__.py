"""What breaks a running app and looks at it: brokers, clusters, processes, feeders, readers, links, faults, tidy-up.

Drills, chaos, soak, compose, tests on a broker and `benchmarks/` stand on it; it imports none of them.
"""
