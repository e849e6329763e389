"""Standbys, and where an incarnation begins (R11, R17)."""
