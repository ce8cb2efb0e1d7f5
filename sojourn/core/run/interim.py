"""Answer a message while the approvals of a step are open.

A provider refuses a transcript with a call that has no result. So the plan that answers reads a placeholder
in place of each missing one, which is in no transcript. The message and its answer come into the transcript
behind the results of the step, with a notice that says when they were written.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sojourn.contracts.message import Message
from sojourn.contracts.plan import Finalize
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.run.inbox import SentMessage
from sojourn.values.wire import size_of

__all__ = [
    "APPROVAL_OPEN",
    "InterimAnswer",
    "answering",
    "has_room",
    "interim_input",
    "interim_messages",
    "with_interim",
]

MAX_ANSWERS = 50
"""Most messages that are answered while one step waits. Later ones wait for their turn."""

MAX_BYTES = 500_000
"""Size of these messages and answers in bytes of JSON above which later ones wait, since the next execution takes them along."""

APPROVAL_OPEN = Finalize(
    reason="approval_open",
    message="A call of this turn waits for the approval of a person.",
    instruction="Answer the user's last message now, with what you know. You can call no tool, and nothing that you write decides on "
    "the call: its result says how it stands. The turn goes on once it is decided.",
)
"""Why a plan may only answer while approvals are open."""

_NOTICE = (
    "The messages before this one were written while calls of the last step waited for approvals. "
    "The results of these calls are above. Go on with them."
)


@dataclass(frozen=True)
class InterimAnswer:
    """A message that the planner answers while the approvals of a step are open."""

    sent: SentMessage
    answer: Message | None = None
    faults: int = 0
    """Number of faulty answers so far."""
    fault: str = ""
    """Why the last answer was refused."""
    is_over: bool = False
    """Whether it is answered, or given up."""


def answering(interim: Sequence[InterimAnswer]) -> str:
    """Return the id of the message that is being answered, or an empty text."""
    return interim[-1].sent.message_id if interim and not interim[-1].is_over else ""


def has_room(interim: Sequence[InterimAnswer]) -> bool:
    """Return whether a further message may be answered while the step waits."""
    return len(interim) < MAX_ANSWERS and sum(map(size_of, _said(interim))) < MAX_BYTES


def interim_input(interim: Sequence[InterimAnswer], results: Sequence[ToolResult]) -> list[Message]:
    """Return what the plan for the last message reads after the transcript.

    Args:
        interim: The messages so far; the last one has no answer.
        results: A result or placeholder of every call of the step.
    """
    refusal = f"The last plan was refused: {interim[-1].fault}." if interim[-1].fault else ""
    return [
        Message.results(list(results)),
        *_said(interim),
        Message.system(APPROVAL_OPEN.notice),
        *([Message.system(refusal)] if refusal else []),
    ]


def interim_messages(interim: Sequence[InterimAnswer]) -> list[Message]:
    """Return what the transcript gets, behind the results of the step."""
    return [*_said(interim), Message.system(_NOTICE)] if interim else []


def with_interim(results: Sequence[Message], interim: Sequence[InterimAnswer]) -> list[Message]:
    """Return what readers of the transcript get behind the calls of a step that waits.

    Each message has the number that it keeps: an empty one stands for the results until there are some, and the notice, which is behind
    further messages in the end, is not there yet.
    """
    return [*(results or [Message.results([])]), *_said(interim)] if interim else [*results]


def _said(interim: Sequence[InterimAnswer]) -> list[Message]:
    return [message for each in interim for message in (each.sent.message, each.answer) if message]
