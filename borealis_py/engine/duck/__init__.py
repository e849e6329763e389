"""DuckDB, isolated: single-threaded, no files, no network, no extensions, configuration locked. The only package that
opens it; it knows nothing of queries, windows or buckets."""
