"""Where nothing listens: a port below those that the system gives to who asks for any, and of a service of old."""

PORT = 1
NOWHERE = f"127.0.0.1:{PORT}"
