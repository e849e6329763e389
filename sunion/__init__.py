"""The pure data path: tuples, total order, boundaries, buckets, SUnion, SOutput, the consumer's view.

Standard library only: no clock, no randomness, no I/O, no threads. Rows are opaque here (`model.Rows`); what
decodes, orders and computes them is passed in. Start with `model`, then `source`, `union`, `output`, `view`.
"""
