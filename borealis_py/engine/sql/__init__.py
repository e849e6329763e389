"""A user's SQL expressions, checked and written anew, and their statements on DuckDB."""
