"""LIKE as a regular expression matches what the engine's LIKE does; what a pattern costs is counted."""

from __future__ import annotations

import random

import duckdb
import pytest

from borealis_py.engine.sql.checks import TooMuch, like_regex, looks_far, pattern_size

LETTERS = "ab%_!\\.*[]$^\n\0(\u00e9\U0001fae8"


def drawn(dice: random.Random) -> str:
    return "".join(dice.choice(dice.choice(("ab%_", LETTERS))) for _ in range(dice.randrange(6)))


def test_it_matches_what_like_matches() -> None:
    dice = random.Random(3)
    matched = 0
    with duckdb.connect() as connection:
        for _ in range(3_000):
            text, pattern, escape = drawn(dice), drawn(dice), dice.choice(("", "!", "\\", "a", "%", "_"))
            asked = "SELECT like_escape($1, $2, $3), regexp_full_match($1, $4)"
            try:
                values = [text, pattern, escape, like_regex(pattern, escape)]
            except TooMuch:  # the engine says so only where its matching gets that far
                continue
            (theirs, ours) = connection.execute(asked, values).fetchall()[0]
            assert theirs == ours, values
            matched += theirs
    assert matched > 100


@pytest.mark.parametrize(("pattern", "escape"), [("a!", "!"), ("a", "!!"), ("a", "\u00e9"), ("a", "%")])
def test_an_escape_is_one_character_with_another_behind_it(pattern: str, escape: str) -> None:
    with pytest.raises(TooMuch, match=r"escape"):
        like_regex(pattern, escape)


@pytest.mark.parametrize(
    ("pattern", "size"),
    [
        ("", 0), ("abc", 3), ("[a-z]+@x", 3), ("a{30}", 30), ("(a{30}b?){30}", 930), ("((a{30}){30}){30}", 27_000),
        ("a{5,}", 6), ("a{5,9}b", 10), ("a{0}", 1), (r"\pL{2}\.", 17), ("(" * 40, 0), (")a{3}", 4), ("[]a]{7}", 7),
        ("((a{1000}){1000}){1000}" * 9, 9 * 10**9), ("((a{1000}){1000}){1000}{1000}" * 9, 1 << 40),
    ],
)  # fmt: skip
def test_the_size_of_a_pattern(pattern: str, size: int) -> None:
    assert pattern_size(pattern) == size


@pytest.mark.parametrize("pattern", [r"\s+", "[^a-z]*", "(ab+)*", "foo|bar", "x{3,9}y", r"a\+b|c", "[*|]b"])
def test_a_search_that_ends_where_its_match_does(pattern: str) -> None:
    assert not looks_far(pattern)


@pytest.mark.parametrize("pattern", [r"\s+$", "a.*b|a", "<[^>]*>", "a+|b", "x{3,}y", "(a*b)*"])
def test_a_search_that_may_read_on_behind_its_match(pattern: str) -> None:
    assert looks_far(pattern)
