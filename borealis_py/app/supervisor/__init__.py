"""The supervisor: a small process that `borealis up` leaves, one an app and machine, which starts a replica process
that died again. `borealis down` ends it first.

It knows no broker and imports the standard library only, since it is to weigh little: see `__main__.py`.
"""
