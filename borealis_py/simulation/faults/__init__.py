"""How each kind of fault is inflicted on a world, and undone."""
