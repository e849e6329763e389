"""A loop like a replica's in a process of its own, and what holds it up."""
