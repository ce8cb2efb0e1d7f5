"""All executions of a run in one file, as Temporal's JSON.

The file is Temporal's own format of the last execution, with a further field, `earlier`. It has the
executions before, oldest first, unless retention has deleted them. So other programs read the file
as the history of the last execution.
"""

import json
from collections.abc import Sequence
from typing import Any, cast

from google.protobuf.json_format import ParseError
from temporalio.client import Client, WorkflowHistory

from sojourn.events.one_run import executions_before, present_execution
from sojourn.events.reading import MAX_CHAIN

__all__ = ["exported", "fetch_histories", "histories_in"]

EARLIER = "earlier"


async def fetch_histories(client: Client, run_id: str) -> list[WorkflowHistory]:
    present = await present_execution(client, run_id)
    executions = [*reversed(await executions_before(client, run_id, present, MAX_CHAIN)), present]
    return [
        await client.get_workflow_handle(run_id, run_id=execution).fetch_history() for execution in executions
    ]


def exported(histories: Sequence[WorkflowHistory]) -> dict[str, Any]:
    *earlier, last = (json.loads(history.to_json()) for history in histories)
    return {**last, EARLIER: earlier} if earlier else last


def histories_in(text: str) -> list[WorkflowHistory]:
    """Return the histories of one run in the content of a file, oldest first."""
    try:
        last: dict[str, Any] = json.loads(text)
        earlier: list[dict[str, Any]] = last.pop(EARLIER, [])
        run_id = _run_id_of(last)
        if any(_run_id_of(each) != run_id for each in earlier):
            raise ValueError("it has executions of more than one run")
        return [WorkflowHistory.from_json(run_id, each) for each in (*earlier, last)]
    except (KeyError, IndexError, TypeError, AttributeError, RecursionError, ParseError) as error:
        why = f"; {error}" if isinstance(error, ParseError) else ""
        raise ValueError(f"not a history{why}") from error


def _run_id_of(history: dict[str, Any]) -> str:
    return cast("str", history["events"][0]["workflowExecutionStartedEventAttributes"]["workflowId"])
