"""Network namespaces on one bridge, each with an address of its own, that can be cut off from each other.

Processes outside reach all of them through the bridge, whatever is cut. What is cut loses every packet, both ways of a
connection alike: blackhole routes, since a firewall is not everywhere.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress

import psutil

PREFIX = "bchaos"
"""Of namespaces and interfaces, before the process id of the run: an interface's name has 15 characters at most."""
NETS = 250
FIRST_HOST = 10
_made = itertools.count()


class NoNamespaces(RuntimeError):
    """Processes cannot have a network of their own here; the message says what is missing."""


class Wires:
    """`count` namespaces, made at once. What a killed run left is removed first.

    Raises:
        NoNamespaces: this user may not, or `ip` is not there.
    """

    def __init__(self, count: int) -> None:
        check()
        sweep_dead()
        self.count = count
        self._name = f"{PREFIX}{os.getpid()}{chr(ord('a') + next(_made) % 26)}"
        self._net = _free_net(os.getpid())
        self._cut: dict[int, list[str]] = {}
        try:
            self._make()
        except BaseException:
            self.close()
            raise

    def _make(self) -> None:
        bridge = self._name
        _ip("link", "add", bridge, "type", "bridge")
        _ip("addr", "add", f"{self._net}.1/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        for n in range(self.count):
            space = self.namespace(n)
            _ip("netns", "add", space)
            _ip("link", "add", f"{bridge}{n}", "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", f"{bridge}{n}", "master", bridge, "up")
            _ip("-n", space, "addr", "add", f"{self.address(n)}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")
            _ip("-n", space, "link", "set", "lo", "up")

    def namespace(self, n: int) -> str:
        return f"{self._name}-{n}"

    def address(self, n: int) -> str:
        return f"{self._net}.{FIRST_HOST + n}"

    def command(self, n: int, command: Sequence[str]) -> list[str]:
        """The same, to be run in that namespace, by the process that is started."""
        return ["ip", "netns", "exec", self.namespace(n), *command]

    def cut(self, n: int, others: Sequence[int]) -> None:
        """Lose every packet between it and these, until `heal`."""
        for other in others:
            _ip("-n", self.namespace(n), "route", "add", "blackhole", f"{self.address(other)}/32")
            self._cut.setdefault(n, []).append(f"{self.address(other)}/32")

    def heal(self, n: int) -> None:
        """Lose nothing any more."""
        for route in self._cut.pop(n, ()):
            _ip("-n", self.namespace(n), "route", "del", "blackhole", route)

    def close(self) -> None:
        """Remove everything; processes in it must have ended."""
        _remove(self._name)


def check() -> None:
    """See that it can be done.

    Raises:
        NoNamespaces: it cannot.
    """
    if shutil.which("ip") is None:
        raise NoNamespaces("several brokers need network namespaces, and there is no `ip` (package iproute2)")
    if os.geteuid() != 0:
        raise NoNamespaces("several brokers need network namespaces, which only root may make")


def sweep_dead() -> list[str]:
    """Remove what runs left whose process is gone, with whatever still runs in it. Returns their names."""
    dead = sorted({name for name in _names() if not psutil.pid_exists(_pid(name))})
    for name in dead:
        _remove(name)
    return dead


def _names() -> set[str]:
    """Of all runs that have something here now."""
    links = json.loads(_ip("-json", "link", "show") or "[]")
    there = [link["ifname"] for link in links] + [line.split()[0] for line in _ip("netns", "list").splitlines() if line]
    return {f"{PREFIX}{_pid(name)}{_letter(name)}" for name in there if name.startswith(PREFIX)}


def _pid(name: str) -> int:
    digits = itertools.takewhile(str.isdigit, name.removeprefix(PREFIX))
    return int("".join(digits) or 0)


def _letter(name: str) -> str:
    return name.removeprefix(PREFIX).lstrip("0123456789")[:1]


def _remove(name: str) -> None:
    """All of one run: what runs there, then interfaces (those of a namespace go only after it), then namespaces."""
    spaces = [line.split()[0] for line in _ip("netns", "list").splitlines() if line.startswith(f"{name}-")]
    for space in spaces:
        for pid in _ip("netns", "pids", space).split():
            with suppress(psutil.Error):
                psutil.Process(int(pid)).kill()
    for link in json.loads(_ip("-json", "link", "show") or "[]"):
        if link["ifname"].startswith(name):
            _try_ip("link", "del", link["ifname"])
    for space in spaces:
        _try_ip("netns", "del", space)


def _free_net(start: int) -> str:
    """The first three numbers of a network that no interface here has."""
    taken = _ip("-4", "addr", "show")
    nets = (f"10.213.{(start + n) % NETS}" for n in range(NETS))
    return next(net for net in nets if f" {net}." not in taken)


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoNamespaces(f"`ip {' '.join(arguments)}` failed: {done.stderr.strip()}")
    return done.stdout


def _try_ip(*arguments: str) -> None:
    """What is gone already is as it should be."""
    with suppress(NoNamespaces):
        _ip(*arguments)
