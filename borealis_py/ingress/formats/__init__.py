"""How the values of foreign records become rows: a class per format. They know no Kafka, no clock and no position.

`base` is what an ingress asks of a format, `fits` how values become columns; every other module is one format.
"""
