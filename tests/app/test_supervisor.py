"""A supervisor with real processes: toys that live, die and are killed. No broker."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from borealis_py.app import replicas, supervision
from borealis_py.app.errors import LaunchError
from borealis_py.app.process_spec import VARIABLE, ProcessSpec
from borealis_py.app.replicas import ProcessName, ReplicaProcesses
from borealis_py.app.supervision import Fate, ProcessStart, start_supervisor, stop_supervisor, supervisor_of
from borealis_py.app.supervisor import exit_codes, run_notes
from borealis_py.app.supervisor.supervised_process import Backoff
from borealis_py.kafka.process_end import is_over
from tests.harness.waiting import PATIENCE_S, until

LIVES = "import time; time.sleep(600)"
ONE, TWO = ProcessName(0), ProcessName(1)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[ReplicaProcesses]:
    processes = ReplicaProcesses(tmp_path, "app")
    yield processes
    processes.stop(timeout_s=0.2)


def keep(here: ReplicaProcesses, *codes: str, first: tuple[str, ...] = ()) -> int:
    """A supervisor of toys: replica k runs `codes[k]`."""
    starts = [ProcessStart(ProcessName(k).stem, ["-c", code], first) for k, code in enumerate(codes)]
    return start_supervisor(here.directory, [sys.executable], starts)


def pid_of(here: ReplicaProcesses, name: ProcessName = ONE) -> int | None:
    process = here.running().get(name)
    return None if process is None else process.pid


def another(here: ReplicaProcesses, than: int, name: ProcessName = ONE) -> int:
    """The pid of the process that came after that one, once it runs."""
    until(lambda: pid_of(here, name) not in (None, than), "another process runs")
    pid = pid_of(here, name)
    assert pid is not None
    return pid


def fate(here: ReplicaProcesses, name: ProcessName = ONE) -> Fate:
    until(lambda: name in here.fates(), "its end is noted")
    return here.fates()[name]


def lines(here: ReplicaProcesses, name: ProcessName = ONE) -> list[dict[str, Any]]:
    """What the supervisor wrote into the process's log."""
    said = [line for line in here.log_file(name).read_text().splitlines() if line.startswith("{")]
    return [json.loads(line) for line in said]


def test_what_is_killed_runs_again_at_once_and_the_log_says_how_it_ended(here: ReplicaProcesses) -> None:
    keep(here, LIVES, LIVES)
    before, untouched = pid_of(here), pid_of(here, TWO)
    assert before is not None
    os.kill(before, signal.SIGKILL)
    another(here, before)
    assert pid_of(here, TWO) == untouched
    assert (fate(here).restarts, fate(here).how, fate(here).final) == (1, "killed by SIGKILL", False)
    assert fate(here).next_wall_us is None
    (line,) = lines(here)
    assert (line["event"], line["pid"]) == ("the replica process ended and is started again", before)
    assert (line["how"], line["restarts"], line["next_start_s"]) == ("killed by SIGKILL", 1, 0.0)
    assert TWO not in here.fates()


def test_the_next_one_is_told_of_which_run_the_dead_one_was(here: ReplicaProcesses) -> None:
    keep(here, f"import sys; print(sys.argv[1:], flush=True); {LIVES}", first=("--take-over",))
    before = pid_of(here)
    assert before is not None
    until(lambda: "--run" in here.log_file(ONE).read_text(), "the first has said what it was told")
    os.kill(before, signal.SIGKILL)
    another(here, before)
    until(lambda: "--after" in here.log_file(ONE).read_text(), "the second has")
    first, second = (line for line in here.log_file(ONE).read_text().splitlines() if line.startswith("["))
    (_, _, run), (_, again, _, dead) = (json.loads(said.replace("'", '"')) for said in (first, second))
    assert first.startswith("['--take-over'")  # never again: the index may live elsewhere by then
    assert dead == run
    assert again != run


@pytest.mark.parametrize("end", [e for e in exit_codes.EXITS if e.final], ids=lambda e: e.name)
def test_an_end_by_name_is_final(here: ReplicaProcesses, end: exit_codes.ExitCode) -> None:
    supervisor = psutil.Process(keep(here, f"import sys; sys.exit({end.code})"))
    until(lambda: not here.kept, "nothing is left to keep")
    assert (fate(here).final, fate(here).restarts, fate(here).how) == (True, 0, exit_codes.described(end.code))
    (line,) = lines(here)
    assert line["event"] == "the replica process ended and is not started again"
    assert line["todo"]
    assert psutil.wait_procs([supervisor], PATIENCE_S)[1] == []


def test_each_start_is_told_the_same_and_secrets_are_neither_arguments_nor_files(
    here: ReplicaProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process has a spec of its own; `--take-over` is for the first start alone."""
    code = f"import os, sys; print(os.environ['{VARIABLE}'].count('hush'), sys.argv[1:], flush=True); {LIVES}"
    monkeypatch.setattr(replicas, "COMMAND", (sys.executable, "-c", code))
    spec = ProcessSpec("nowhere:1", here.directory.parent, {"sasl.password": "hush"}, http="127.0.0.1:9400")
    specs = {ONE: spec, TWO: spec.at(1)}
    here.keep(specs, take_over=True)

    def said(name: ProcessName) -> list[str]:
        return [line for line in here.log_file(name).read_text().splitlines() if line.startswith("1 ")]

    until(lambda: [len(said(name)) for name in specs] == [1, 1], "both have said what they were told")
    first = pid_of(here)
    assert first is not None
    os.kill(first, signal.SIGKILL)
    another(here, first)
    until(lambda: len(said(ONE)) == 2, "the second has said it, too")
    told = [ProcessSpec.from_environment(here.running()[name].environ()) for name in specs]
    assert told == list(specs.values())
    assert [it.http for it in told] == ["127.0.0.1:9400", "127.0.0.1:9401"]
    log = str(here.log_file(ONE))
    assert [f"['--app', 'app', '--replica', '0', '--log', '{log}'" in line for line in said(ONE)] == [True, True]
    assert ["--take-over" in line for line in said(ONE)] == [True, False]
    assert "hush" not in " ".join(arg for process in here.running().values() for arg in process.cmdline()[3:])
    files = [path for path in here.directory.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if "hush" in path.read_text()]


def test_one_that_could_not_start_at_all_is_not_tried_for_ever(here: ReplicaProcesses) -> None:
    keep(here, "import sys; sys.exit('no broker')")
    until(lambda: not here.kept, "the supervisor gave up")
    assert (fate(here).final, fate(here).restarts) == (True, 0)
    assert "no broker" in here.log_tail(ONE)


READY_ONCE = """
import json, os, sys, time
from pathlib import Path
path, run = Path(sys.argv[1]), sys.argv[sys.argv.index("--run") + 1]
if "--after" not in sys.argv:
    (path / "replica-0.ready").write_text(json.dumps({"run": run, "since_s": time.monotonic()}))
    os.kill(os.getpid(), 9)
sys.exit(1)
"""


def test_one_that_was_ready_is_tried_until_it_comes_with_growing_pauses(here: ReplicaProcesses) -> None:
    start = ProcessStart(ONE.stem, ["-c", READY_ONCE, str(here.directory)])
    start_supervisor(here.directory, [sys.executable], [start])
    until(lambda: len(lines(here)) >= 3, "it failed some times")
    assert [line["next_start_s"] for line in lines(here)[:3]] == [0.0, 1.0, 2.0]
    assert (fate(here).final, fate(here).how) == (False, exit_codes.described(1))
    waiting = fate(here).next_wall_us
    assert waiting is not None
    assert waiting > fate(here).at_wall_us


def test_pauses_double_to_a_limit_and_a_minute_ready_begins_anew() -> None:
    backoff = Backoff()
    assert [backoff.died(0) for _ in range(8)] == [0, 1, 2, 4, 8, 16, 30, 30]
    assert [backoff.died(59.9), backoff.died(60.0), backoff.died(1.0)] == [30, 0, 1]


CHILD = (
    f"import os, subprocess, sys; subprocess.Popen([sys.executable, '-c', '{LIVES}'], start_new_session=True); {LIVES}"
)


def test_what_is_left_of_the_dead_is_ended_whatever_session_it_is_in(here: ReplicaProcesses) -> None:
    keep(here, CHILD, CHILD)
    processes = here.running()
    until(lambda: all(p.children() for p in processes.values()), "they have children")
    (left,), (other,) = (processes[name].children() for name in (ONE, TWO))
    processes[ONE].kill()
    again = psutil.Process(another(here, processes[ONE].pid))
    assert psutil.wait_procs([left], PATIENCE_S)[1] == []
    assert other.is_running()
    until(lambda: bool(again.children()), "it has a child again")
    for child in (other, *again.children()):
        child.kill()


def test_a_supervisor_that_is_killed_costs_nothing_and_its_successor_adopts(here: ReplicaProcesses) -> None:
    first = psutil.Process(keep(here, LIVES, LIVES))
    before = {name: p.pid for name, p in here.running().items()}
    first.kill()
    first.wait(PATIENCE_S)
    assert not here.kept
    assert {name: p.pid for name, p in here.running().items()} == before
    keep(here, LIVES, LIVES)
    assert {name: p.pid for name, p in here.running().items()} == before
    os.kill(before[ONE], signal.SIGKILL)
    another(here, before[ONE])
    assert (fate(here).how, fate(here).restarts) == ("ended unseen: killed, or crashed", 1)


def test_what_is_left_of_one_that_died_unseen_is_ended_by_the_next_supervisor(here: ReplicaProcesses) -> None:
    supervisor = psutil.Process(keep(here, CHILD))
    (process,) = here.running().values()
    until(lambda: bool(process.children()), "it has a child")
    (left,) = process.children()
    for one in (supervisor, process):
        one.kill()
    psutil.wait_procs([supervisor, process], PATIENCE_S)
    assert left.is_running()
    keep(here, LIVES)
    assert psutil.wait_procs([left], PATIENCE_S)[1] == []
    assert pid_of(here) not in (None, process.pid)
    (line,) = lines(here)
    assert (line["event"], line["pid"]) == ("the replica process before ended", process.pid)


def test_of_an_adopted_one_its_own_last_word_tells_how_it_ended(here: ReplicaProcesses) -> None:
    first = psutil.Process(keep(here, LIVES))
    first.kill()
    first.wait(PATIENCE_S)
    keep(here, LIVES)
    path = str(here.directory / ONE.stem)
    run_notes.write(f"{path}.end", {"run": run_notes.read(f"{path}.pid")["run"], "code": exit_codes.SUPERSEDED.code})
    here.running()[ONE].kill()
    until(lambda: not here.kept, "it is over")
    assert fate(here).how == exit_codes.described(exit_codes.SUPERSEDED.code)


def test_down_ends_the_supervisor_first_and_works_without_it(here: ReplicaProcesses) -> None:
    keep(here, LIVES, LIVES)
    assert [s.forced for s in here.stop()] == [False, False]
    assert (here.running(), here.kept) == ({}, False)
    supervisor = psutil.Process(keep(here, LIVES, LIVES))
    supervisor.kill()
    supervisor.wait(PATIENCE_S)
    assert len(here.stop()) == 2
    assert here.running() == {}


def test_a_suspended_supervisor_is_ended_too(here: ReplicaProcesses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "STOP_S", 0.2)
    supervisor = psutil.Process(keep(here, LIVES))
    supervisor.suspend()
    assert stop_supervisor(here.directory)
    assert is_over(supervisor)


def test_after_its_note_is_gone_it_starts_nothing_even_if_nobody_ended_it(here: ReplicaProcesses) -> None:
    """As if a reset had removed the directory's files and its signal had been lost."""
    supervisor = psutil.Process(keep(here, LIVES))
    process = here.running()[ONE]
    (here.directory / "supervisor.pid").unlink()
    process.kill()
    assert psutil.wait_procs([supervisor], PATIENCE_S)[1] == []
    assert here.running() == {}


def test_with_its_directory_gone_it_ends(here: ReplicaProcesses) -> None:
    supervisor = psutil.Process(keep(here, LIVES))
    process = here.running()[ONE]
    shutil.rmtree(here.directory)
    process.kill()
    assert psutil.wait_procs([supervisor], PATIENCE_S)[1] == []


def test_what_cannot_be_executed_is_told_and_tried_again(here: ReplicaProcesses) -> None:
    start_supervisor(here.directory, ["/nowhere/python"], [ProcessStart(ONE.stem, [])])
    (line,) = lines(here)
    assert "/nowhere/python" in line["why"]
    assert here.kept


def test_a_supervisor_that_cannot_run_says_why(here: ReplicaProcesses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "MODULE", "no.such")
    with pytest.raises(LaunchError, match=r"No module named 'no'"):
        keep(here, LIVES)


@pytest.mark.parametrize("size", [1, 1_000_000])
def test_a_supervisor_that_ends_before_it_is_told_anything_says_why(
    here: ReplicaProcesses, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, size: int
) -> None:
    """Its plan is written into a pipe that nobody reads any more, all of it or what has no room there."""
    ends = tmp_path / "ends"
    ends.write_text("#!/bin/sh\nexec <&-\necho 'no room for anything' >&2\nexit 3\n")
    ends.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(ends))
    with pytest.raises(LaunchError, match=r"ended with code 3: no room for anything"):
        start_supervisor(here.directory, ["python"], [ProcessStart(ONE.stem, ["x" * size])])


def test_it_imports_no_more_than_it_needs(here: ReplicaProcesses) -> None:
    """Its weight is its imports: measured, 4 MB of its own; dataclasses or subprocess alone would add one."""
    code = (
        f"import sys; sys.path.insert(0, {str(supervision.ROOT)!r}); import borealis_py.app.supervisor.__main__; "
        "print(*sys.modules)"
    )
    said = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True).stdout
    loaded = set(said.split())
    assert not loaded & {"dataclasses", "subprocess", "threading", "logging", "psutil", "inspect", "pathlib", "socket"}
    assert {m for m in loaded if m.startswith("borealis_py.")} == {
        *("borealis_py.app", "borealis_py.config", "borealis_py.config.logfile"),
        *("borealis_py.app.supervisor", "borealis_py.app.supervisor.__main__"),
        *(f"borealis_py.app.supervisor.{m}" for m in ("exit_codes", "supervised_process", "run_notes")),
    }


def test_a_process_is_known_by_its_start_not_by_the_clock(tmp_path: Path) -> None:
    note = run_notes.of_process(os.getpid())
    assert run_notes.running(note)
    assert not run_notes.running({**note, "ticks": note["ticks"] + 1})
    assert not run_notes.running({**note, "boot": "another start of the machine"})
    assert not run_notes.running({})


def test_without_a_supervisor_whoever_starts_the_next_says_how_the_last_one_ended(
    here: ReplicaProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "COMMAND", (*replicas.COMMAND, "--nonsense"))
    spec = ProcessSpec("nowhere:1", here.directory.parent)
    for code in ("2", None):
        here.start_process(ONE, spec)
        here._started[ONE].wait(PATIENCE_S)
        if code:
            path = str(here.directory / ONE.stem)
            run_notes.write(f"{path}.end", {"run": run_notes.read(f"{path}.pid")["run"], "code": int(code)})
    here.start_process(ONE, spec)
    here._started[ONE].wait(PATIENCE_S)
    hows = [line["how"] for line in lines(here)]
    assert hows == [exit_codes.described(2), "ended unseen: killed, or crashed"]
    assert here.log_file(ONE).read_text().count("unrecognized arguments: --nonsense") == 3  # nothing is truncated
    here.release()


def test_two_supervisors_at_once_are_not_possible(here: ReplicaProcesses) -> None:
    """The next one ends the one before, from wherever; what it kept goes on."""
    first = psutil.Process(keep(here, LIVES))
    threads = [threading.Thread(target=here.release_supervisor) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert supervisor_of(here.directory) is None
    assert is_over(first)
    assert pid_of(here) is not None
