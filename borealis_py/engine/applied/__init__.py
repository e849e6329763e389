"""Python functions of users as operators of a query: found, stored, loaded and called so that replicas agree."""
