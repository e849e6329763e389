"""`borealis bench quick`: is this machine fast enough? Each figure has a baseline measured in the same run.

It knows the product only from outside: it starts a broker, replicas and publishers as a user does, and reads what those
wrote. The project's experiments (`benchmarks/` in the checkout) stand on it.
"""
