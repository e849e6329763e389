"""The command line as a user meets it: arguments in, exit code and both outputs back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from borealis_py.cli.commands import fail
from borealis_py.cli.main import main
from tests.cli.commands import borealis  # noqa: F401  # a fixture
from tests.cli.foreign_topic import topic  # noqa: F401  # likewise
from tests.harness.waiting import PATIENCE_S


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory from which the module's app was started without Spark: `APP` is its name, `TEXT` its file."""
    directory = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        patch.setenv("BOREALIS_BOOTSTRAP", bootstrap)
        (directory / "app.py").write_text(request.module.TEXT)
        try:
            assert main(["up", "app.py", "--host", "process", "--no-restart"]) == 0
            yield directory
        finally:
            main(["down", "--app", request.module.APP])


@pytest.fixture(autouse=True)
def seen_late(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replicas of a busy machine tell late that they have lost a source."""
    if "bootstrap" in request.fixturenames:
        monkeypatch.setattr(fail, "SEEN_TIMEOUT_S", PATIENCE_S)


@pytest.fixture
def there(site: Path, bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in `site` and find its broker."""
    monkeypatch.chdir(site)
    monkeypatch.setenv("BOREALIS_BOOTSTRAP", bootstrap)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory; nothing in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("CONFIG", "BOOTSTRAP", "DATA_DIR", "DEBUG"):
        monkeypatch.delenv(f"BOREALIS_{name}", raising=False)
    return tmp_path
