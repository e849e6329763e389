"""The product in simulated worlds: the real replicas, publishers and subscribers; log, clock and faults are simulated.

Data flows one way: `runner` draws a scenario, builds a `cluster` on the `log`, arms `faults`, and lets `checkers` and
`witness` judge what came of it.
"""
