"""What a query must say, computed by plain functions, and which partial results follow from a part of its input."""
