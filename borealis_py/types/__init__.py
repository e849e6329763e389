"""Column types: how they are spelled, which values they have, and how these look in JSON, Arrow and DuckDB.

`spelling` and `declared` know names only, `values` Python's values and JSON text, `arrow` memory and the engine,
`plain_json` the records of other programs. Nothing here knows queries, logs or a clock; all others go by it.
"""
