"""The product in simulated worlds: real replicas, publishers and subscribers; simulated log, clock and faults.

Data flows one way: `runner` draws a scenario, builds a `cluster` on the `log`, and arms `faults`; `checkers` and
`witness` judge the outcome.
"""
