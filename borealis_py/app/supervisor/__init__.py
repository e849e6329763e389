"""The supervisor: a small process started by `borealis up`, one per app and machine, that restarts replica processes
that died. `borealis down` ends it first.

It knows no broker and imports only the standard library, to use little memory: see `__main__.py`.
"""
