"""Benchmarks of this machine, each with a baseline measured in the same run. They know the product only from outside:
they start brokers, replicas and publishers as a user does, and read what those wrote.
"""
