"""docs/reference/commands.md, from the declarations of the commands."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, get_args, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

HEAD = """# Commands

The options of each command, as `--help` shows them. `borealis --version` prints the version; `--debug`, anywhere on the
line, shows tracebacks and log messages. Options win over environment variables and `borealis.yaml`
([configuration](configuration.md)). Tables, rows and JSON go to standard output, everything else to
standard error: also what `retain`, `recovery NODE` and `audit` report.

Exit codes: 0 done, 1 it could not be done, 2 wrong usage, 130 interrupted ([which is which](exit-codes.md)). This
page is generated from the code.
"""


def page() -> str:
    """The whole page."""
    from borealis_py.cli.main import app

    return HEAD + "".join(_section(*leaf) for leaf in leaves("borealis", app))


def leaves(prefix: str, group: typer.Typer) -> Iterator[tuple[str, Callable[..., Any], str]]:
    """Every command that does something: its whole name, the function that it runs, and what `--help` says of it."""
    for command in group.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__.replace("_", "-")
        yield f"{prefix} {name}", command.callback, command.help or inspect.getdoc(command.callback) or ""
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from leaves(f"{prefix} {inner.name}", inner.typer_instance)


def _section(name: str, command: Callable[..., Any], told: str) -> str:
    defaults = {p.name: p.default for p in inspect.signature(command).parameters.values()}
    arguments, options = "", ""
    usage = [name]
    for parameter, hint in get_type_hints(command, include_extras=True).items():
        kind, *declared = get_args(hint) or (hint,)
        info = next((d for d in declared if isinstance(d, ArgumentInfo | OptionInfo)), None)
        default = defaults.get(parameter)
        if isinstance(info, ArgumentInfo):
            required = default is inspect.Parameter.empty
            usage.append(parameter.upper() if required else f"[{parameter.upper()}]")
            arguments += _row(f"`{parameter.upper()}`", info, default)
        elif info is not None:
            options += _row(_names(parameter, info, kind), info, default, _choices(kind))
    table = f"\n| | | default |\n|---|---|---|\n{arguments}{options}" if arguments or options else ""
    usage += ["[OPTIONS]"] if options else []
    return f"\n## {name}\n\n    {' '.join(usage)}\n\n{_paragraphs(told)}\n{table}"


def _names(parameter: str, info: OptionInfo, kind: object) -> str:
    plain = parameter.replace("_", "-")
    declared = [d for d in (info.default, *(info.param_decls or ())) if isinstance(d, str)]  # Typer: the first is there
    declared = declared or ([f"--{plain}/--no-{plain}"] if kind is bool else [f"--{plain}"])
    return ", ".join(f"`{' / '.join(d.split('/'))}`" for d in declared)


def _choices(kind: object) -> str:
    enums = [k for k in (kind, *get_args(kind)) if isinstance(k, type) and issubclass(k, Enum)]
    return "".join(f" One of {', '.join(f'`{member.value}`' for member in enum)}." for enum in enums)


def _row(names: str, info: ArgumentInfo | OptionInfo, default: object, choices: str = "") -> str:
    help_text = " ".join((info.help or "").split())
    return f"| {names} | {_cell(help_text + choices)} | {_cell(_default(info, default))} |\n"


def _default(info: ArgumentInfo | OptionInfo, default: object) -> str:
    if default is inspect.Parameter.empty:
        return "required"
    if isinstance(info.show_default, str):
        return info.show_default
    value = getattr(default, "value", default)
    return "" if value is None or isinstance(value, bool) else f"`{value}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))
