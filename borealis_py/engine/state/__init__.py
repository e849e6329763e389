"""What the state of a kernel is made of, as checkpoints need to know it."""
