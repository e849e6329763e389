"""Three topics that any program writes, one JSON record per event: what `make bench NAME=plain` measures."""
