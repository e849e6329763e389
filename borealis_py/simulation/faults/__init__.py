"""How each kind of fault is done to a world, and undone."""
