"""A model of the protocols of Hwang et al., High-Availability Algorithms for Distributed Stream Processing (ICDE 2005).

Four nodes exchange messages in simulated time: Nu feeds N, N feeds Nd, and N' takes over when N fails (section 2). The
model knows nothing of Kafka or of this product, no clock, no I/O and no randomness. `published.py` alone has figures of
the paper; what the model finds comes out of its messages, queues and timers.
"""
