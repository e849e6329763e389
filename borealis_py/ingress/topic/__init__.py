"""The foreign topic as an ingress reads it: what has arrived, how it changes. Knows nothing of inputs."""
