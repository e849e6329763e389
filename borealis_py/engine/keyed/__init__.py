"""Operators that compare rows by key over time: join and distinct, and the index over the rows that they keep."""
