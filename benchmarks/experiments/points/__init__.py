"""One point of a grid: a query with one lost source, in the simulator or for real."""
