"""The product in simulated worlds: real replicas, publishers and subscribers; simulated log, clock and faults.

Imports point one way, from the top of this list to its end:

1. `runner` draws a scenario from a seed, runs its world, and shrinks what fails. `ingress` does so for worlds in which
   ingresses copy a foreign topic.
2. `checkers` judge a finished world against the expected results.
3. `faults` break a world, and count what that covers. `witness` judges each process by what it had read. Neither of the
   two imports the other.
4. `cluster` is the state of a world: its processes, their machines and disks, its clients, and a recording of what each
   process read and wrote.
5. `log` is the log that they share.
6. The modules beside these folders import none of them: a world as values (`scenario`, `fault_kinds`, `toy_query`), its
   time (`clock`, `latency`), the expected results (`reference_model`), and what judges share (`violation`, `clean`).
"""
