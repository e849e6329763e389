"""`make compose-test`: docker-compose.yml really run, broken from outside, and judged by who shares no code with it.

Not part of `make test`: it needs Docker with Compose, 8 GB and some minutes.
"""
