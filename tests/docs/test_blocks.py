"""How pages are read and compared, and that next to nothing on them is left to something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.output import alike, pids
from tests.docs.page import RULES, Step, blocks
from tests.docs.terminal import ROOT

TUTORIALS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "tutorials").glob("*.md"))
ELSEWHERE = {
    "README.md": [".ci/run runs make test; tests/e2e runs the demo"],
    "docs/tutorials/cluster.md": ["make compose-test"] * 3,
}
"""What the test of a page leaves out."""


@pytest.mark.parametrize("page", ["README.md", *TUTORIALS, "docs/how-to/testing.md"])
def test_each_block_is_run_or_names_what_runs_it(page: str) -> None:
    found = blocks(ROOT / page)
    assert [b.elsewhere for b in found if b.elsewhere is not None] == ELSEWHERE.get(page, [])
    assert [b.rule for b in found if b.rule and not b.rule.startswith(RULES)] == []
    for block in found:
        runs = block.file is not None or block.language in ("sh", "console")
        assert runs or block.elsewhere is not None, f"{page}:{block.line}: nothing runs this block"


@pytest.mark.parametrize("page", ["README.md", *TUTORIALS, "docs/how-to/testing.md"])
def test_a_reader_is_given_no_text_surgery_to_copy(page: str) -> None:
    words = {word for block in blocks(ROOT / page) for word in block.text.split()}
    assert words & {"sed", "awk", "grep", "pkill", "killall", "xargs"} == set()


def test_a_page_is_cut_into_files_commands_and_what_they_print(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Title\n\n```python\n# shop.py\nx = 1\n```\n\n<!-- test: until shown -->\n```console\n"
        "$ cat <<END\n> hello\n> END\nhello\n$ true\n```\n\n<!-- a note -->\n    indented\n"
    )
    file, commands, indented = blocks(page)
    assert (file.file, file.line, file.rule) == ("shop.py", 4, "")
    assert (commands.file, commands.rule) == (None, "until shown")
    assert list(commands.steps()) == [Step("cat <<END\nhello\nEND", "hello", 10), Step("true", "", 14)]
    assert (indented.language, indented.text, indented.rule) == ("", "indented\n", "")


def test_output_in_front_of_any_command_is_an_error(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\nhello\n```\n")
    (block,) = blocks(page)
    with pytest.raises(AssertionError, match="line 2"):
        list(block.steps())


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("pid 25429 at 15:25:19.0, lag 4.8 s", "pid 1 at 00:00:00.1,  lag 12 s\n"),
        ('{"bucket":17952747199,"stime":1795274719999999}', '{"bucket":17954380909,"stime":1795438090999999}'),
        ("at 127.0.0.1:9092 until 2026-11-21T15:25:26.978485Z", "at 127.0.0.1:40001 until 2027-01-01T00:00:00Z"),
        ("a   b\n 1   2", "\n a        b \n ────────── \n 1        2 \n\n"),
        ("...\nthe row\n...", "the row\n"),
        ("...\nthe row\n...", "before\nthe row\nbehind\n"),
        ("", "\n"),
    ],
)
def test_what_each_run_has_of_its_own_does_not_count(shown: str, printed: str) -> None:
    assert alike(shown, printed)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ('"sold":10', '"sold":9'),
        ("0 dead letters", "1 dead letters"),
        ("", "error: no broker"),
        ("one line", "one line\nand another"),
        ("...\nthe row\n...", "before\nbehind\n"),
        ("id 17952747199:0", "id 17952747199:1"),
        ("STABLE", "UPSTREAM_FAILURE"),
    ],
)
def test_anything_else_counts(shown: str, printed: str) -> None:
    assert not alike(shown, printed)


def test_a_process_id_of_the_page_is_that_of_the_process_that_was_started() -> None:
    assert pids("r0 (pid 25429)\nr1 (pid 25430)", "r0 (pid 7)\nr1 (pid 8)") == {"25429": "7", "25430": "8"}
