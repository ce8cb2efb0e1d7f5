"""Which messages deny open approvals, and what becomes of them."""

import pytest

from sojourn import Message, Principal
from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.run import RunInput
from sojourn.core.run.inbox import SentMessage
from sojourn.core.run.state import RunState
from sojourn.core.run.turns import MAX_DENIAL, deny_by_message, open_turn, receive_message
from sojourn.values.frozen import copy_with

ANA, EVE = (Principal(subject=name, tenant="acme") for name in ("ana", "eve"))


def waiting(on_message: str = "deny") -> RunState:
    """A turn of Ana's that waits for an approval."""
    state = RunState.opened(RunInput(agent_id="a.b", messages=[], conversation=True))
    state, _ = receive_message(
        state, SentMessage("m1", Message.user("wipe"), principal=ANA), "0-000001-00000"
    )
    state = open_turn(state)
    waits, _ = state.waits.opened(
        AwaitConfirmation(id="w", tool_call_id="c1", tool="a.b.c", payload_digest="d", on_message=on_message)
    )
    return copy_with(state, waits=waits)


def sent(text: str = "why?", mode: str = "queue", principal: Principal | None = ANA) -> SentMessage:
    return SentMessage("m2", Message.user(text), mode, by="ana", principal=principal)  # type: ignore[arg-type]


def after(state: RunState, message: SentMessage) -> RunState:
    return receive_message(state, message, "0-000002-00000")[0]


def test_a_message_denies_and_then_steers() -> None:
    """The denial has the message as its reason, cut to a length, and its sender; the message joins the turn, of which the state tells."""
    state, (denial,) = deny_by_message(after(waiting(), sent("x" * 5_000)), "m2")
    assert (denial.await_id, denial.approved, denial.by, denial.principal) == ("w", False, "ana", ANA)
    assert len(denial.reason) == MAX_DENIAL
    assert [each.mode for each in state.inbox.waiting] == ["steer"]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (waiting("wait"), sent()),
        (waiting(), sent(mode="steer")),
        (waiting(), sent(principal=EVE)),
    ],
    ids=["the policy lets it wait", "it steers", "another person"],
)
def test_another_message_decides_nothing(state: RunState, message: SentMessage) -> None:
    """The state is the same one then."""
    before = after(state, message)
    assert deny_by_message(before, "m2") == (before, [])
    assert deny_by_message(before, "unknown") == (before, [])


def test_a_history_says_which_approvals_a_message_denied() -> None:
    """Whatever the policy says by then, and but for those that are closed."""
    state = after(waiting("wait"), sent())
    assert [each.await_id for each in deny_by_message(state, "m2", ["w", "gone"])[1]] == ["w"]
    assert deny_by_message(state, "m2", []) == (state, [])


def test_a_message_without_a_text_has_a_reason_too() -> None:
    message = SentMessage("m2", Message.user("  "), principal=ANA)
    _, (denial,) = deny_by_message(after(waiting(), message), "m2")
    assert denial.reason == "a message came first"
