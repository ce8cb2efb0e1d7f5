"""A fresh copy of the operations database for every test."""

import shutil
from pathlib import Path

import pytest

from sojourn import ToolCallMeta
from toolsets import database


@pytest.fixture(scope="session")
def made_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the database once."""
    path = tmp_path_factory.mktemp("ops") / "ops.db"
    database.make(path)
    return path


@pytest.fixture(autouse=True)
def ops_database(made_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give every test a copy of its own, and no pauses."""
    path = tmp_path / "ops.db"
    shutil.copy(made_database, path)
    monkeypatch.setenv("SOJOURN_OPS_DB", str(path))
    monkeypatch.setenv("SOJOURN_OPS_SCAN_PAUSE", "0")
    return path


@pytest.fixture
def meta() -> ToolCallMeta:
    """The meta of a call."""
    return ToolCallMeta(run_id="r", tool_call_id="c1", idempotency_key="k1")
