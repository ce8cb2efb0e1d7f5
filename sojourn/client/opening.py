"""The opening of a run, validated before the start: a run with an invalid opening should not exist."""

import uuid
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from sojourn.contracts.ids import AGENT_ID, RUN_ID
from sojourn.contracts.message import Message
from sojourn.contracts.run import RunInput
from sojourn.core.run.run_input import labels_fault, messages_fault, opening_fault
from sojourn.core.values.wire import encode_readable
from sojourn.errors import InvalidInput

__all__ = ["RUN_ID_RULE", "as_messages", "generated_id", "opened"]

RUN_ID_RULE = (
    "run_id must begin with a letter or digit, and have only letters, digits and _.:@=+-, at most 200"
)


def as_messages(messages: str | Message | Sequence[Message]) -> list[Message]:
    """The messages of an opening, of which a text is the user's."""
    if isinstance(messages, str):
        return [Message.user(messages)]
    return [messages] if isinstance(messages, Message) else list(messages)


def generated_id(agent_id: str) -> str:
    """An id of a new run."""
    return f"{str(agent_id).rsplit('.', 1)[-1]}-{uuid.uuid4().hex[:12]}"


def opened(run_id: str, **fields: Any) -> RunInput:
    """The input of a run.

    Args:
        run_id: The id of the run.
        **fields: The fields of `RunInput`.

    Raises:
        InvalidInput: A field breaks its rule.
    """
    try:
        run = RunInput(**fields)
        encode_readable(run)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise InvalidInput(f"{place}: {first['msg']}", run_id=run_id) from error
    except ValueError as error:
        raise InvalidInput(f"the input of a run must be JSON: {str(error)[:200]}", run_id=run_id) from error
    fault = _fault_of(run_id, run)
    if fault:
        raise InvalidInput(fault, run_id=run_id)
    return run


def _fault_of(run_id: str, run: RunInput) -> str | None:
    if not AGENT_ID.match(run.agent_id):
        return opening_fault(run)  # the run id is derived from the agent id
    if not RUN_ID.match(run_id):
        return RUN_ID_RULE
    opening = None if run.conversation else messages_fault(run.messages)
    return opening_fault(run) or opening or labels_fault(run.labels)
