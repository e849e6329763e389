"""Measurements of the engine alone: no broker, no log."""
