"""What `borealis check` finds out about the Python functions of an app: whether they give equal results."""
