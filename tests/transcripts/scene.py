"""Base of what acts out a transcript: a method `do_<command>` for each command, the arguments as keywords."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from inspect import signature

from borealis_py.protocol.settings import DelayPolicy, Delays, NodeDelays, Timing, budget
from borealis_py.query.units import parse_duration
from tests.transcripts.datadriven import Command, TranscriptError
from tests.transcripts.timeline import Timeline

OK = "ok"
"""Printed by a command that only changes something."""


class Scene:
    """A world and its timeline. The command `<name>` begins `<Name>Scene`, with its arguments as keywords and its
    further lines as positional arguments.
    """

    def __init__(self) -> None:
        self.timeline = Timeline()

    def act(self, command: Command) -> str:
        """Carry out a command and return its output. Raises TranscriptError."""
        does = getattr(self, f"do_{command.name}", None)
        if does is None:
            known = sorted(name.removeprefix("do_") for name in dir(self) if name.startswith("do_"))
            raise TranscriptError(f"{command.at}: no command {command.name!r} in this scene; there are {known}")
        try:
            signature(does).bind(**command.args)
        except TypeError as exc:
            raise TranscriptError(f"{command.at}: {command.name}: {exc}") from exc
        return str(does(**command.args))


def timing_and_delays(settings: Mapping[str, str]) -> tuple[Timing, Delays]:
    """The fields of `Timing` among a scene's settings, as plain numbers, and the rest as `delays` reads it. X: 1 s."""
    names = {field.name for field in fields(Timing)}
    timing = {key: int(value) for key, value in settings.items() if key in names}
    rest = {key: value for key, value in settings.items() if key not in names}
    return replace(Timing(), **timing), delays(Delays(1_000_000), **rest)


def delays(before: Delays, threshold: str = "", failure: str = "", stabilization: str = "") -> Delays:
    """`before` with the given values changed."""
    return Delays(
        parse_duration(threshold) if threshold else before.threshold_us,
        DelayPolicy(failure) if failure else before.failure,
        DelayPolicy(stabilization) if stabilization else before.stabilization,
    )


def at_node(query: Delays, timing: Timing) -> NodeDelays:
    """What a node obeys that only this query reads."""
    return NodeDelays(budget(timing, query.threshold_us), query.failure, query.stabilization)


def named(scenes: Sequence[type[Scene]], command: Command) -> type[Scene] | None:
    """The scene that this command begins; None: the command belongs to the current scene."""
    return next((scene for scene in scenes if scene.__name__.removesuffix("Scene").lower() == command.name), None)
