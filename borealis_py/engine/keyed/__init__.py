"""Operators that compare rows by key over time, and the index over the rows that they keep."""
