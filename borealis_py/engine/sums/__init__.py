"""Counts and sums of our own, in place of statements: which windows take them, and how they are computed."""
