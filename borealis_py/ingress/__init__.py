"""Copies topics that other programs write into an app's sources, with boundaries that nobody has promised there."""
