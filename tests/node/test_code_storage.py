"""Files of functions beside checkpoints: by their SHA-256, whole or not at all, whatever becomes of the originals."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from borealis_py import App
from borealis_py.engine.applied.described import described
from borealis_py.engine.applied.loader import load
from borealis_py.node.checkpoint_storage import LocationError
from borealis_py.node.code_storage import StoredCode
from borealis_py.query.errors import FunctionDiffers
from borealis_py.query.spec import AppSpec
from reconcile.replay_context import node_context
from tests.engine.applied.modules import imported

TEXT = "def f(table):\n    return 'stored'\n"


def described_in(directory: Path) -> AppSpec:
    file = directory / "kept_functions.py"
    file.write_text(TEXT)
    app = App("shop", modules=[file])
    app.query("q", app.source("a", {"x": "double"}).apply(imported(file).f, {"x": "double"}))
    return app.describe().with_functions(described)


@pytest.mark.parametrize("uri", ["", "kafka", "file"])
def test_replicas_load_what_up_has_copied(tmp_path: Path, uri: str) -> None:
    spec = described_in(tmp_path)
    (file,) = spec.functions[0].files
    code = StoredCode("shop", tmp_path / "data" / "shop", f"file://{tmp_path}/shared?" if uri == "file" else uri)
    code.store(spec)
    code.store(spec)
    place = (tmp_path / "shared" / "shop" if uri == "file" else tmp_path / "data" / "shop") / "code"
    assert [path.name for path in place.iterdir()] == [f"{file.sha256}.py"]
    (tmp_path / "kept_functions.py").write_text("def f(table):\n    return 'edited'\n")
    assert load(spec.functions[0], code)(None) == "stored"
    stored = place / f"{file.sha256}.py"
    stored.write_text("def f(table):\n    return 'altered'\n")  # torn, or touched
    with pytest.raises(FunctionDiffers, match=rf"kept_functions.py with SHA-256 {file.sha256} is not in .*code"):
        code.read(file)
    (tmp_path / "kept_functions.py").write_text(TEXT)
    assert code.read(file) == TEXT.encode()
    code.store(spec)
    assert stored.read_text() == TEXT


def test_a_redo_job_s_context_takes_the_place_along(tmp_path: Path) -> None:
    """What a Spark worker gets: bytes, from which it compiles the node with the stored functions."""
    spec = described_in(tmp_path)
    code = StoredCode("shop", tmp_path / "data" / "shop")
    code.store(spec)
    (tmp_path / "kept_functions.py").unlink()
    log: Any = None
    packed = node_context(spec, "q", log, 1, "uid", code=code).pack()
    assert packed == node_context(spec, "q", log, 1, "uid", code=StoredCode("shop", tmp_path / "data" / "shop")).pack()
    kernel = pickle.loads(packed).make_kernel()
    rows = pa.record_batch({"x": [1.0], "stime": [1]})
    _, outputs = kernel.step(kernel.initial(), 0, 1, {0: (rows,)})
    assert "it returned an object of type str instead of a pyarrow.Table" in outputs[0].rejects[0].reason
    kernel.close()


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    spec = described_in(tmp_path)
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(LocationError, match=r"kept_functions.py cannot be copied to .*file/shop/code"):
        StoredCode("shop", tmp_path / "file" / "shop").store(spec)
