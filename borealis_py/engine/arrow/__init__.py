"""Rows as Arrow batches: their order, their partition, what a batch declares, how large one row may be. No SQL."""
