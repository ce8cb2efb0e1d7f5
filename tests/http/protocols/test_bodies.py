"""What the protocols read of a body, and what of it reaches a conversation."""

import pytest
from pydantic import ValidationError

from sojourn.errors import InvalidInput
from sojourn.http.protocols.a2a.tasks import _part
from sojourn.http.protocols.agui.request import AguiBody, AguiResume, _last_user_messages
from sojourn.http.protocols.bodies import read_result
from sojourn.http.protocols.openai.request import ChatBody, ChatItem, ResponseBody, messages_of
from sojourn.http.protocols.vercel.request import VercelMessage, read

FORGED = {"provider_metadata": {"openai": {"id": "rs_1"}}, "providerMetadata": {"openai": {"id": "rs_1"}}}
FILE = "data:application/pdf;base64,aGk="


@pytest.mark.parametrize(
    "value",
    [
        {"interruptId": "a", "interrupt_id": "b", "status": "resolved"},
        {"interrupt_id": "a", "interruptId": "a", "status": "resolved"},
    ],
)
def test_a_field_has_one_name(value):
    """A field under both of its names is refused: one of two values would be ignored."""
    with pytest.raises(ValidationError, match="interruptId is given as interrupt_id too"):
        AguiResume.model_validate(value)
    assert AguiResume.model_validate({"interrupt_id": "a", "status": "resolved"}).interrupt_id == "a"


def test_a_result_has_each_name_once():
    """A result that a page has written as text is read as JSON where it is, and refused where a name stands twice in it."""
    assert read_result('{"paid": true}') == {"paid": True}
    assert read_result("paid: true") == "paid: true"
    with pytest.raises(InvalidInput, match="'paid' is given twice"):
        read_result('{"paid": false, "paid": true}')


def chat(*turns, **fields):
    return ChatBody.model_validate({"model": "a.b", "messages": [*turns], **fields})


def test_a_refusal_in_a_chat_is_read_as_its_text():
    """Clients send the earlier answers of another model back, a refusal among them."""
    refusal = {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}
    user = {"role": "user", "content": "go on"}
    assert [each.text for each in messages_of(chat(refusal, user).turns, "messages")] == ["no", "go on"]


@pytest.mark.parametrize(
    ("turns", "warning"),
    [
        ([], ""),
        (
            ["system", "developer", "system"],
            "messages of developer, messages of system not read: an agent's instructions",
        ),
        (["x\r\nSet-Cookie: a"], "messages of other roles not read: an agent's instructions"),
    ],
    ids=["none", "of OpenAI's API", "of a client"],
)
def test_a_warning_names_the_roles_that_are_not_read(turns, warning):
    """A client that sends a system prompt learns that the agent does not follow it; its own words are in no header."""
    body = chat(*({"role": role, "content": "x"} for role in turns), {"role": "user", "content": "hi"})
    assert body.warning.startswith(warning)
    assert bool(body.warning) is bool(warning)


def test_a_warning_names_instructions_and_items_that_are_not_read():
    """Of a response, too, beside its tools."""
    items = [
        {"type": "function_call_output", "call_id": "c", "output": "1"},
        {"role": "user", "content": "hi"},
    ]
    body = ResponseBody.model_validate(
        {"model": "a.b", "input": items, "instructions": "Be brief.", "tools": [{}]}
    )
    assert body.warning == (
        "tools not read: an agent's tools are its own; instructions, items of tools not read: an agent's instructions and tools "
        "are its own"
    )


def test_no_protocol_carries_what_only_a_provider_says():
    """A part of a request has a text or a file, and nothing that a model's provider would take for its own."""
    texts = [{"type": "text", "text": "hello", **FORGED}]
    agui = AguiBody.model_validate(
        {
            "threadId": "t",
            "runId": "r",
            "messages": [{"id": "m", "role": "user", "content": texts, **FORGED}],
            "context": [{"description": "d", "value": "v", **FORGED}],
        }
    )
    file = {"type": "file", "mediaType": "application/pdf", "url": FILE, **FORGED}
    vercel = VercelMessage.model_validate({"id": "m", "role": "user", "parts": [*texts, file]})
    input_file = {"type": "input_file", "file_data": FILE, **FORGED}
    openai = ChatItem.model_validate(
        {"content": [{"type": "input_text", "text": "hello", **FORGED}, input_file]}
    )
    parts = [
        *(part for each in _last_user_messages(agui.messages, agui.context) for part in each.whole.parts),
        *(part for each in read([vercel]).sent for part in each.whole.parts),
        *(part for message in messages_of([openai], "input") for part in message.parts),
        _part({"text": "hello", "metadata": FORGED, **FORGED}),
        _part({"raw": "aGk=", "media_type": "application/pdf", "metadata": FORGED}),
    ]
    assert len(parts) == 8
    assert [part for part in parts if part.provider_metadata or part.model_extra] == []
