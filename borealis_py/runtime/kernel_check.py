"""Checks that this machine may run an app: its kernel must compute the bits of the one that described it."""

from __future__ import annotations

from collections.abc import Sequence

from borealis_py.app.state import AppState
from borealis_py.engine import compile_query
from borealis_py.node.spec import ReplicaSpec
from borealis_py.query.spec import AppSpec
from borealis_py.runtime.ends import KernelDiffers


def check_fingerprint(spec: ReplicaSpec, state: AppState) -> None:
    """Check a replica's kernel. Raises KernelDiffers, QueryError."""
    check_kernel(spec, state.description.fingerprint.split(","))


def check_kernel(spec: ReplicaSpec, known: Sequence[str]) -> None:
    """Likewise, given the fingerprints in the app's description."""
    app = AppSpec.from_json(spec.app_json)
    kernel = compile_query(app, spec.node, code=spec.code)
    own = kernel.fingerprint
    kernel.close()
    if own not in known:
        raise KernelDiffers(
            f"{app.label(spec.node)}: this machine's kernel has fingerprint {own}, the app was described with "
            f"{', '.join(known)}. Replicas must run the same engine version on the same architecture and C library; "
            "install the same version of borealis-py, or start anew with `borealis up --reset`"
        )
