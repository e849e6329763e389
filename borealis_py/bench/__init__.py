"""Figures of this machine, each against something measured in the same run. Knows the product from outside only: it
starts brokers, replicas and publishers as a user does, and reads what they wrote."""
