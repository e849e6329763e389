"""The list of experiments, for display: loads nothing."""

EXPERIMENTS = {
    "chain": "Delay and tentative results of chains of 1 to 4 nodes, by length of a failure (most points simulated)",
    "policies": "The six variants of what to do in failure and stabilization, on one node (most points simulated)",
    "lost-input": "One of three inputs silent for 15 to 60 s: delay, labels, final results, time to heal",
    "latency": "From the end of a window to its result, at 900 and 50 000 events/s",
    "weight": "CPU, memory, threads and connections of every process, idle and at work; times to start",
    "throughput": "Catching up by rows a record, beside the raw loop; what keeps up with 900 to 50 000 events/s",
    "partitions": "What a second partition gains, beside two unrelated apps, with 20 and with 3 us of work a row",
    "overhead": "Delay without failure against bucket width and boundary interval; checkpoints against state size",
    "memory": "An hour of one input while another is missing, then corrected: memory of the replicas, and what is lost",
    "plain": "Topics that any program writes, a JSON record per event: CPU, threads, memory, delay, beside a hand loop",
    "ingress": "Topics that others write: delay beside our publisher, copying beside the raw loop, full topics, kills",
    "publish": "How many rows a publisher sends per second of processor time, and from a file into Kafka",
    "join": "How long a bucket of a join takes in the engine, without a broker",
    "first-test": "How long a first test of an app takes, without Java or a broker",
    "trimming": "What it costs a replica that topics are trimmed: catching up and live, beside all kept",
    "retention": "Whether topics that are kept for a while stop growing: 15 minutes at 4 000 tuples/s",
    "recovery": "Ways to survive a crash: how long readers wait, what a standby costs; --paper: a model of a paper's",
    "reconcile": "Seconds to redo 1 000 to 1 000 000 rows, inline and on Spark, and what that does to live results",
}
"""What each measures, in one line."""

PAPERS = {
    "recovery": "A model of the protocols of Hwang et al. (ICDE 2005), beside what their paper has (simulated)",
}
"""Experiments with a form that is named NAME-paper, and what it is: `make bench NAME=... OPTIONS=--paper`."""
