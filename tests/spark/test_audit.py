"""The audit as Spark tasks."""

from __future__ import annotations

import msgspec
import pytest

from reconcile.audit import audit_on_spark
from tests.reconcile.audits import published, spec

pytestmark = pytest.mark.spark


def test_the_audit_runs_one_task_a_query(session) -> None:
    rows = published(30)
    changed = [rows[0], rows[1], msgspec.structs.replace(rows[2], value=b"{}"), *rows[3:]]
    clean, spoilt = audit_on_spark(session.context, [spec(rows, 30), spec(changed, 30)])
    assert (clean.clean, clean.rows) == (True, 20)
    assert (spoilt.differences, spoilt.first.kind) == (1, "different")
    assert audit_on_spark(session.context, []) == []
