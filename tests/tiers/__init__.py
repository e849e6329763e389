"""How the tests are run: which of them, in what order, beside what, and once more where only processes were slow.

    python -m tests.tiers test          what `make test` runs
    python -m tests.tiers slow          what it leaves out
    python -m tests.tiers third         a third of that, by rotation, and what is about changes
    python -m tests.tiers stress        the tests of real processes again and again beside busy loops
    python -m tests.tiers record FILES  measures test files and notes what they take (durations.json)

`plan.py` has the rules, `plugin.py` applies them inside pytest, `stages.py` starts pytest.
"""
