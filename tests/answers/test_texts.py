"""What a person's text says about a wait."""

import re
from typing import Any

import pytest

from sojourn.answers import Answer, Decision, Verdict, parse_answer, parse_decision, read_verdict, wait_view
from sojourn.contracts.awaits import (
    AwaitClarification,
    AwaitConfirmation,
    AwaitExternalTools,
    ExternalCall,
)
from sojourn.errors import InvalidInput, StaleDigest

CODE = "d4fb1ce2a342"


def test_only_a_whole_approval_approves() -> None:
    """A word of approval with nothing but a code approves; all else denies, with the code and the reason that it has."""
    rows = [
        ("yes", Verdict(is_approved=True)),
        (" Okay. ", Verdict(is_approved=True)),
        (f"`yes {CODE}`.", Verdict(is_approved=True, code=CODE)),
        (f"Approve: {CODE.upper()}", Verdict(is_approved=True, code=CODE)),
        ("no", Verdict(is_approved=False)),
        ("No, not that", Verdict(is_approved=False, reason="No, not that")),
        (f"no {CODE}, not that", Verdict(is_approved=False, reason="not that", code=CODE)),
        ("what is it?", Verdict(is_approved=False, reason="what is it?", is_plain=False)),
        ("yes, but later", Verdict(is_approved=False, reason="yes, but later", is_plain=False)),
        ("nothing of yes", Verdict(is_approved=False, reason="nothing of yes", is_plain=False)),
        (
            f"yes {CODE}, but later",
            Verdict(is_approved=False, reason=f"yes {CODE}, but later", code=CODE),
        ),
        (f"{CODE}", Verdict(is_approved=False, reason=CODE, is_plain=False)),
        (f"yes {CODE}0", Verdict(is_approved=False, reason=f"yes {CODE}0", is_plain=False)),
    ]
    assert [(text, found) for text, verdict in rows if (found := read_verdict(text)) != verdict] == []


def test_a_text_is_read_as_the_kind_of_its_wait() -> None:
    """A text is the answer to a question and the decision on a call; another call's code is refused, and so is a text in place of results."""
    question = wait_view(AwaitClarification(id="ask", question="Which?"), "r")
    call = wait_view(AwaitConfirmation(id="c", tool_call_id="c1", tool="a.b.c", payload_digest="d1"), "r")
    outside = wait_view(
        AwaitExternalTools(id="e", items=[ExternalCall(tool_call_id="c2", tool="a.b.d")]), "r"
    )
    assert parse_answer(question, "yes") == Answer("yes")
    assert parse_answer(call, f"yes {call.ref.code}") == Decision(approved=True, digest="d1")
    assert parse_answer(call, "later") == Decision(approved=False, digest="d1", reason="later")
    with pytest.raises(StaleDigest, match="another call"):
        parse_answer(call, f"yes {CODE}")
    for view in (question, call, outside):
        with pytest.raises(InvalidInput, match=f"the answer to {view.await_id} is a text .* and not empty"):
            parse_answer(view, " \n")
    with pytest.raises(InvalidInput, match="e waits for results of calls, and not for a text"):
        parse_answer(outside, "yes")


MALFORMED = [
    ({}, "`approved` is true or false"),
    ({"approved": "true"}, "`approved` is true or false"),
    ({"approved": 1}, "`approved` is true or false"),
    ({"approved": None}, "`approved` is true or false"),
    ({"approved": False, "reason": ["no"]}, "`reason` is a text"),
    ({"approved": False, "scope": "tool"}, "`scope` is `call`"),
    ({"approved": True, "scope": "run"}, "`scope` is `call`"),
    ({"approved": True, "args": {}}, "has no field 'args'"),
]


@pytest.mark.parametrize(("fields", "told"), MALFORMED)
def test_a_malformed_decision_denies_nothing(fields: dict[str, Any], told: str) -> None:
    """It is refused, with what to send."""
    call = wait_view(AwaitConfirmation(id="c", tool_call_id="c1", tool="a.b.c", payload_digest="d1"), "r")
    with pytest.raises(InvalidInput, match=re.escape(told)):
        parse_decision(call, fields, ("approved", "reason", "scope"))
    assert parse_decision(call, {"approved": False, "reason": None}, ("approved", "reason")) == Decision(
        approved=False, digest="d1"
    )
