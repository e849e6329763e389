"""Which lines are texts for people: those of no others may be left out, or a change of a rule would be."""

from __future__ import annotations

from tests.mutants.messages import message_lines

SOURCE = """\
def rule(a, b):
    if a < b:
        raise ValueError(
            f"a is {a}, "
            "too small"
        )
    log.warning("so it is", a=a)
    notes.append(Note("SILENT", f"{a}"))
    raise_it = a + b
    return info(a) if a else other(b, "text")
"""


def test_only_what_people_read_is_left_out() -> None:
    assert message_lines(SOURCE) == {4, 5, 7, 8, 10}


def test_so_is_a_text_of_an_object_and_nothing_else_of_it() -> None:
    source = """\
class Row:
    def __str__(self):
        at = self.at or "nowhere"
        return f"row {at}"

    def __len__(self):
        return 1
"""
    assert message_lines(source) == {3, 4}


def test_a_condition_is_a_rule_though_what_follows_is_a_message() -> None:
    assert 2 not in message_lines(SOURCE)
    assert message_lines("if a < b: pass\nraise Gone") == set()
