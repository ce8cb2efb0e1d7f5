"""What of a server's question is kept while a person answers: a call that starts anew gets the answers to the same questions only."""

from typing import Any

import pytest

from sojourn.contracts.tool_call import InputForm, InputRequired, ToolInput
from sojourn.mcp.elicitation import ElicitationState

FORM = {"type": "object", "properties": {"seat": {"type": "string"}}}


def needed(
    message: str = "Which seat?", form: dict[str, Any] | None = None, key: str = "seat"
) -> InputRequired:
    forms = [InputForm(key=key, message=message, form=form or FORM)]
    return InputRequired(forms=forms, responses={"roots": {"roots": []}}, request_state="s")


@pytest.mark.parametrize(
    ("again", "is_same"),
    [
        (needed(), True),
        (needed(message="Shall I book it for 900 €?"), False),
        (needed(form={"type": "object", "properties": {"seat": {"type": "integer"}}}), False),
        (needed(key="price"), False),
    ],
    ids=["the same", "another text", "another form", "another name"],
)
def test_an_answer_is_given_to_the_question_that_a_person_saw(again: InputRequired, is_same: bool) -> None:
    """A server that was restarted asks again: the same question gets the answer from before, and another one goes to the person."""
    answer = {"seat": {"action": "accept", "content": {"seat": "12A"}}}
    written = ElicitationState.write(needed())
    state = ElicitationState.read(ToolInput(responses=answer, request_state=written.request_state))
    assert state.of_server == "s"
    assert state.responses_to(again) == ({"roots": {"roots": []}, **answer} if is_same else None)
