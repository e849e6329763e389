"""Experiments, each with a baseline measured in the same run: `make bench NAME=chain`, or `python -m benchmarks chain`.

They know the product only from outside: they start brokers, replicas and publishers as a user does, and read what those
wrote. Not in the wheel.
"""
