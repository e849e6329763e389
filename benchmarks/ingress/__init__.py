"""Measurements of ingresses: foreign topics from the record to the result."""
