"""Whether brokers let clients in."""
