"""Sending an update: what is tried again, and what is refused at once."""

from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from sojourn import AwaitClosed
from sojourn.client.sending import send

HANDLE: Any = SimpleNamespace(id="r")


async def test_an_update_that_no_worker_has_looked_at_is_sent_again() -> None:
    """The server refuses it, as the worker completed its task without it: the run has not refused anything. Another refusal is final."""
    refusals = ["UnprocessedUpdate", "AwaitNotOpen"]

    async def update(fields: dict[str, Any]) -> str:
        if refusals:
            raise WorkflowUpdateFailedError(ApplicationError("refused", type=refusals.pop(0)))
        return str(fields)

    assert (
        await send(HANDLE, "provide_clarification", update, {"id": "q", "answer": "x", "by": None})
        == "{'id': 'q', 'answer': 'x'}"
    )
    refusals.append("AwaitAnswered")
    with pytest.raises(AwaitClosed, match="r: refused"):
        await send(HANDLE, "provide_clarification", update, {"id": "q"})
