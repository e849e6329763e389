"""Ingresses of a foreign topic in a simulated world, with faults, and an oracle that judges what they copied."""
