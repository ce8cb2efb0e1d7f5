"""The SQLite file with all data of operations, shared by all worker processes."""

import os
import sqlite3
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from tempfile import mkstemp
from typing import Any

from sojourn import FieldIssue, RetryHint, ToolFailed, ToolUnavailable
from sojourn.private import private_folder
from toolsets.generate import SEED, VERSION, fill

__all__ = ["as_of", "location", "make", "opened", "require", "transaction"]

_MAKING = threading.Lock()


def location() -> Path:
    """Return the path of the file: `SOJOURN_OPS_DB`, or else `.sojourn/ops.db`."""
    return Path(os.environ.get("SOJOURN_OPS_DB") or Path(".sojourn", "ops.db"))


@contextmanager
def opened() -> Generator[sqlite3.Connection]:
    """Open a connection for one block, and create the file if there is none.

    Raises:
        ToolUnavailable: The file was made by another version of this code.
    """
    path = location()
    if not path.exists():
        with _MAKING:
            if not path.exists():
                make(path)
    with closing(sqlite3.connect(path, timeout=10, isolation_level=None)) as connection:
        connection.row_factory = sqlite3.Row
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version != VERSION:
            raise ToolUnavailable(
                f"{path} has data version {version}, not {VERSION}: delete it and call again"
            )
        yield connection


@contextmanager
def transaction() -> Generator[sqlite3.Connection]:
    """Open a connection with a write transaction.

    It is committed at the end, or rolled back on an exception.
    """
    with opened() as connection:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")


def make(path: Path, seed: int = SEED) -> None:
    """Make the file, whole or not at all.

    Workers that start together may each make one; the first to finish wins. The file is linked to
    its place, not renamed: a rename would replace the winner's file under a worker that has opened it.
    """
    private_folder(path.parent)
    handle, name = mkstemp(prefix=f".{path.name}-", dir=path.parent)
    os.close(handle)
    draft = Path(name)
    try:
        with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("PRAGMA journal_mode = OFF")
            fill(connection, seed)
            connection.execute("PRAGMA journal_mode = WAL")
        _publish(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def as_of(connection: sqlite3.Connection) -> datetime:
    """Return the end of the month of readings, so answers do not depend on the clock."""
    return datetime.fromtimestamp(connection.execute("SELECT as_of FROM dataset").fetchone()[0], UTC)


def _publish(draft: Path, path: Path) -> None:
    with draft.open("rb+") as file:
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    except FileExistsError:
        return
    except OSError:  # a file system without hard links: workers that start together may then collide
        draft.replace(path)


_TABLES = {"site_id": "sites", "device_id": "devices", "runbook_id": "runbooks"}


def require(connection: sqlite3.Connection, field: str, value: str, *, tool: str) -> dict[str, Any]:
    """Return the row with the value of an id.

    Args:
        connection: The database.
        field: The name of the id: `site_id`, `device_id` or `runbook_id`.
        value: The id.
        tool: The id of the tool that failed, for the hint.

    Raises:
        ToolFailed: There is no such row; the hint has similar ids.
    """
    table = _TABLES[field]
    row = connection.execute(f"SELECT * FROM {table} WHERE {field} = ?", (value,)).fetchone()  # noqa: S608 - from a constant
    if row is not None:
        return dict(row)
    known = [key for (key,) in connection.execute(f"SELECT {field} FROM {table} ORDER BY rowid")]  # noqa: S608
    close = get_close_matches(value, known, n=3, cutoff=0.5)
    noun = field.removesuffix("_id")
    raise ToolFailed(
        f"there is no {noun} {value}",
        code="not_found",
        hint=RetryHint(
            reason="invalid_arguments",
            tool=tool,
            restrict_to_tool=True,
            issues=[FieldIssue(field=f"/{field}", constraint="not_found", allowed=list(close) or None)],
            clarifying_question=f"There is no {noun} {value}. Which {noun} do you mean?",
            message=f"{field} {value} does not exist" + (f"; close: {', '.join(close)}" if close else ""),
        ),
    )
