"""Links, output queues and nodes of the paper's model."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.recovery.events import EventClock, PaperLink
from benchmarks.recovery.nodes import Downstream, OutputQueue, Upstream, WorkingNode
from benchmarks.recovery.operators import NodeOperators, PaperFilter, PaperTuple
from benchmarks.recovery.setting import PaperSetting


def tuple_of(seq: int, stream: int = 0) -> PaperTuple:
    return PaperTuple(stream, seq, (seq,), (seq,))


def test_calls_run_in_the_order_of_their_times() -> None:
    clock, ran = EventClock(), list[str]()
    for at_us, name in ((5, "b"), (3, "a"), (5, "c"), (9, "d")):
        clock.at(at_us, ran.append, name)
    clock.run(9)
    assert (ran, clock.now_us) == (["a", "b", "c"], 5)
    clock.run(100, stop=lambda: "d" in ran)
    assert ran[-1] == "d"


def test_a_link_sends_one_message_after_the_other() -> None:
    clock, came = EventClock(), list[tuple[str, int]]()
    link = PaperLink(clock, PaperSetting())
    starts = [link.send(50, lambda name: came.append((name, clock.now_us)), name) for name in "ab"]
    clock.run(10_000)
    assert starts == [0, 25], "50 bytes at 16 Mbps"
    assert came == [("a", 5_025), ("b", 5_050)], "and 5 ms under way"


def test_who_fails_does_not_finish_what_it_sends() -> None:
    clock, came = EventClock(), list[str]()
    link = PaperLink(clock, PaperSetting())
    for name in "abc":
        link.send(50, came.append, name)
    clock.at(60, link.cut)
    clock.run(10_000)
    assert came == ["a", "b"]


@given(st.lists(st.one_of(st.none(), st.integers(0, 40), st.integers(0, 40).map(str))))
def test_a_queue_is_a_list_whose_beginning_goes(steps: list[int | str | None]) -> None:
    """None appends, a number trims up to that output, a text what was made of tuples up to that one."""
    queue, model, first = OutputQueue(), list[PaperTuple](), 0
    for step in steps:
        if step is None:
            one = tuple_of(2 * (first + len(model)))
            assert queue.append(one) == first + len(model)
            model.append(one)
        else:
            gone = min(max(0, step - first), len(model)) if isinstance(step, int) else 0
            if isinstance(step, str):
                queue.trim_high((int(step),))
                gone = sum(one.high[0] <= int(step) for one in model)
            else:
                queue.trim(step)
            model, first = model[gone:], first + gone
        assert (list(queue), len(queue), queue.end) == (model, len(model), first + len(model))
        assert [queue.at(n) for n in range(first - 1, queue.end + 1)] == [None, *model, None]


def test_a_node_works_on_one_tuple_after_the_other_and_leaves_what_it_has_had() -> None:
    clock, sent = EventClock(), list[tuple[int, int]]()
    node = WorkingNode(clock, NodeOperators([PaperFilter(10)]))
    node.sends = lambda number, out: sent.append((out.seq, clock.now_us))
    for seq in (0, 1, 1, 0, 2):
        node.take(tuple_of(seq), more_us=3)
    clock.run(1_000)
    assert sent == [(0, 13), (1, 26), (2, 39)]


def test_a_node_that_fails_loses_what_it_works_on() -> None:
    clock = EventClock()
    node = WorkingNode(clock, NodeOperators([PaperFilter(10)]))
    node.take(tuple_of(0))
    node.take(tuple_of(1))
    clock.run(15)
    node.alive = False
    clock.run(1_000)
    assert (node.done, node.received, node.queue.end) == ([0], [1], 1)


def test_what_must_not_disturb_a_tuple_waits_for_its_end() -> None:
    clock, told = EventClock(), list[list[int]]()
    node = WorkingNode(clock, NodeOperators([PaperFilter(10)]))
    node.between(lambda: told.append(list(node.done)))
    node.take(tuple_of(0))
    node.take(tuple_of(1))
    node.between(lambda: told.append(list(node.done)))
    assert told == [[-1]]
    clock.run(1_000)
    assert told == [[-1], [0]]


def test_upstream_keeps_each_stream_from_where_it_is_wanted() -> None:
    upstream = Upstream(inputs=2, logs=True)
    for stream in (0, 1, 0, 1, 0):
        upstream.emit(stream)
    upstream.trim(1, 1)
    assert [(one.stream, one.seq) for one in upstream.wanted()] == [(0, 0), (0, 1), (1, 1), (0, 2)]
    upstream.trim(0, 2)
    upstream.trim(0, 1)
    assert [(one.stream, one.seq) for one in upstream.wanted()] == [(1, 1), (0, 2)]


def test_downstream_knows_what_came_twice_and_what_never_came() -> None:
    downstream = Downstream()
    for number, (stream, seq) in enumerate([(0, 3), (0, 4), (0, 4), (0, 7), (1, 0), (1, 2)]):
        downstream.take(number, tuple_of(seq, stream))
    assert (downstream.again, downstream.lost(), downstream.next) == (1, 2 + 1, 6)
