"""Branches of a conversation: what the state of a new one takes from its point."""

from sojourn.contracts.message import Message
from sojourn.contracts.principal import Principal
from sojourn.contracts.run import RunInput
from sojourn.contracts.tool_error import ToolError
from sojourn.core.run.branches import rewind
from sojourn.core.run.inbox import SentMessage
from sojourn.core.run.state import RunState
from sojourn.core.run.turns import end_turn, interrupt_turn, open_turn, receive_message

ANA = Principal(subject="ana", tenant="acme")
EVE = Principal(subject="eve", tenant="acme")


def begun(state: RunState, message_id: str, who: Principal) -> RunState:
    """Receive a message, and open a turn with it."""
    received, _ = receive_message(state, SentMessage(message_id, Message.user("hi"), principal=who), "0-1-0")
    return open_turn(received)


def test_a_branch_has_the_askers_of_its_point():
    """Whoever asked in a turn that was interrupted has asked for the next turn, in each branch that begins there."""
    opened = RunState.opened(
        RunInput(agent_id="a.b", session_id="s", messages=[], conversation=True, principal=ANA)
    )
    point = end_turn(
        interrupt_turn(begun(opened, "1", ANA), "stop"), ToolError.new("stopped", code="interrupted")
    )
    left = end_turn(begun(point, "2", EVE))
    assert [each.subject for each in point.askers] == ["ana"]
    assert (left.askers, rewind(left, point).askers) == ((), point.askers)
    assert rewind(point, left).askers == ()
