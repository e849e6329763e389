"""Loads a function that a description names: from an installed module of the right version, or from an app's files.

An app's files become modules of a package that no import can name by chance, `borealis_code_<hash>`: what is loaded
are the bytes of the description, whatever else on this machine has a file's name. In them, `import other` means the
app's file of that name first. Everything else that they import was found in the description, or is of the standard
library; a module that was not there then is refused.
"""

from __future__ import annotations

import builtins
import hashlib
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any

from borealis_py.query.errors import FunctionDiffers
from borealis_py.query.functions import CodeStore, is_content
from borealis_py.query.plan import CodeFile, Function, Requirement

_lock = threading.RLock()


def load(function: Function, code: CodeStore) -> Callable[[Any], Any]:
    """The function.

    Raises:
        FunctionDiffers: this machine has not what the description says, or it cannot be loaded here; the message says
            what to do.
    """
    for finder in sys.meta_path:  # a lean process hides libraries that functions may need (`runtime.lean_imports`)
        reveal = getattr(finder, "reveal", None)
        if reveal is not None:
            reveal()
    for needed in function.requirements:
        _check(function, needed)
    try:
        with _lock:
            module = _module(function, code)
    except FunctionDiffers:
        raise
    except (Exception, SystemExit) as exc:
        raise FunctionDiffers(f"{function.name}: its module does not load here: {type(exc).__name__}: {exc}") from exc
    found: Any = module
    for part in function.qualname.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise FunctionDiffers(f"{function.name}: its module has no such function")
    made: Callable[[Any], Any] = found
    return made


def _check(function: Function, needed: Requirement) -> None:
    if not needed.module:
        here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    else:
        try:
            here = version(needed.distribution)
        except PackageNotFoundError:
            here = "not installed"
    if here != needed.version:
        raise FunctionDiffers(
            f"{function.name}: {needed.distribution} is {here} here, the app was described with {needed.version}: "
            "replicas need the same version on every machine. Install it, or begin anew: `borealis up --reset`"
        )


def _module(function: Function, code: CodeStore) -> ModuleType:
    if not function.files:
        return import_module(function.module)
    return _Package(function, code).load(function.module)


class _Package:
    """The files of an app as modules of one package, which is loaded once in a process."""

    def __init__(self, function: Function, code: CodeStore) -> None:
        self._code = code
        self._files: Mapping[str, CodeFile] = {file.name: file for file in function.files}
        self._known = {needed.module for needed in function.requirements}
        told = "|".join(f"{file.name} {file.sha256}" for file in function.files)
        self._name = f"borealis_code_{hashlib.sha256(told.encode()).hexdigest()[:16]}"

    def load(self, name: str) -> ModuleType:
        full = f"{self._name}.{name}"
        if full in sys.modules:
            return sys.modules[full]
        file = self._files[name]
        content = self._code.read(file)
        if not is_content(file, content):
            raise FunctionDiffers(f"{file.path}: what is stored of it has another SHA-256 than {file.sha256}")
        package = sys.modules.setdefault(self._name, ModuleType(self._name, "The functions of an app."))
        package.__path__ = []
        module = ModuleType(full)
        module.__file__ = f"<{name}.py {file.sha256[:12]}>"
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": self._import}
        sys.modules[full] = module
        try:
            exec(compile(content, module.__file__, "exec", dont_inherit=True), module.__dict__)
        except BaseException:
            del sys.modules[full]
            raise
        return module

    def _import(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        top = name.partition(".")[0]
        if level:
            raise ImportError("relative imports have no meaning in a file of App(modules=[...])")
        if top in self._files:
            if name != top:
                raise ModuleNotFoundError(f"{top!r} is a file of App(modules=[...]), not a package", name=name)
            with _lock:
                return self.load(top)
        if top not in self._known and top not in sys.stdlib_module_names and top != "borealis_py":
            raise ModuleNotFoundError(
                f"{name!r} is neither installed where the app was described nor a file of App(modules=[...])", name=name
            )
        return builtins.__import__(name, globals, locals, fromlist or (), 0)
