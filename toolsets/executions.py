"""Count the executions of tools that have effects or take long, one row each.

A call that fails, or whose worker is killed, leaves a row without an end; the attempt that follows
has the same `tool_call_id` and `idempotency_key`. `python -m toolsets.executions [run id]` prints them.
"""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from sojourn import ToolCallMeta
from toolsets.database import opened

__all__ = ["history", "recorded"]


@contextmanager
def recorded(meta: ToolCallMeta, tool: str) -> Generator[None]:
    """Record when an execution starts, and when it has succeeded."""
    with opened() as connection:
        number = connection.execute(
            "INSERT INTO executions (run_id, tool, tool_call_id, idempotency_key, attempt, started_at)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (meta.run_id, tool, meta.tool_call_id, meta.idempotency_key, meta.attempt, _now()),
        ).lastrowid
    yield
    with opened() as connection:
        connection.execute("UPDATE executions SET finished_at = ? WHERE execution_no = ?", (_now(), number))


def history(run_id: str | None = None) -> list[dict[str, Any]]:
    """Return the executions in the order in which they started, of one run or of all."""
    with opened() as connection:
        rows = connection.execute(
            "SELECT * FROM executions WHERE ?1 IS NULL OR run_id = ?1 ORDER BY execution_no", (run_id,)
        )
        return [dict(row) for row in rows]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _print(run_id: str | None) -> None:
    columns = ("tool", "tool_call_id", "attempt", "started_at", "finished_at")
    for row in history(run_id):
        sys.stdout.write("  ".join(str(row[column] or "-") for column in columns) + "\n")


if __name__ == "__main__":
    _print(sys.argv[1] if len(sys.argv) > 1 else None)
