"""Ways to survive a crash of a replica: what each guarantees and, predicted, what it costs. No I/O, no clock."""
