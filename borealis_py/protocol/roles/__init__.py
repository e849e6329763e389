"""Who of a node's replicas runs, and what the others do (R17)."""
