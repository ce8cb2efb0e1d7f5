"""Messages in the form that every provider accepts: blanks, ids of calls, and system messages, over HTTP and without."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    BinaryImage,
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.test import TestModel

from sojourn import Message, ModelPlanner, PlanInput, RunContext, ToolRequest, ToolResult
from sojourn.models.guarded import guard
from sojourn.models.portable import fits_everywhere, notice, one_system, portable, refuses_ids, with_plain_ids
from sojourn.testing.providers import PROTOCOLS, Body, Completion, Protocol, ProviderServer, Request, says

PNG = b"\x89PNG\r\n\x1a\n picture"
PICTURE = BinaryImage(PNG, media_type="image/png")
FOREIGN = ["functions.orders__find:0", "call 1", "call_é", "c" * 65, "x" * 94, "c" * 41]


def conversation(call_id: str = "c1", *, result: Any = "found", said: str = "I look.") -> list[ModelMessage]:
    """A question, a call with its answer, and nothing after it."""
    return [
        ModelRequest([UserPromptPart("Where is it?")]),
        ModelResponse(
            [TextPart(said), ToolCallPart("orders__find", "{}", call_id)], provider_name="elsewhere"
        ),
        ModelRequest([ToolReturnPart("orders__find", result, call_id)]),
    ]


def changed(messages: Sequence[ModelMessage], model: Any = None) -> list[list[tuple[str, Any]]]:
    """The kinds and contents of the parts that are sent; of a call and its answer with the id."""
    return [
        [
            (part.part_kind, getattr(part, "tool_call_id", None) or getattr(part, "content", None))
            for part in message.parts
        ]
        for message in portable(messages, model or TestModel())
    ]


BLANKS = {
    "a result of nothing": conversation(result=""),
    "a result of white space": conversation(result=" \n\t"),
    "a picture with a blank text": conversation(result=["", PICTURE]),
    "the model's blanks beside a call": conversation(said="\n\n"),
    "a blank message": [ModelRequest([UserPromptPart("   ")])],
    "a picture with a blank question": [ModelRequest([UserPromptPart([" ", PICTURE])])],
    "a blank system message": [ModelRequest([SystemPromptPart("\n"), UserPromptPart("Hello")])],
    "a blank notice": [ModelRequest([UserPromptPart("Hello"), SystemPromptPart(" ", scope="request")])],
    "a blank answer": [
        ModelRequest([UserPromptPart("Hello")]),
        ModelResponse([TextPart("  \n")]),
        ModelRequest([UserPromptPart("And?")]),
    ],
    "a response of nothing": [
        ModelRequest([UserPromptPart("Hello")]),
        ModelResponse([]),
        ModelRequest([UserPromptPart("And?")]),
    ],
}


async def test_no_blank_text_is_sent(standin: ProviderServer, ask, protocol: Protocol) -> None:
    """No provider gets a blank text, in whatever place of a conversation it is."""
    standin.script = lambda _: "Here."
    model = guard(standin.model(protocol))
    for blank, messages in BLANKS.items():
        response = await ask(model, model.prepare_messages(messages))
        assert (response.text, standin.refusals) == ("Here.", []), blank


@pytest.mark.parametrize(
    "blank", ["a result of nothing", "a blank message", "the model's blanks beside a call"]
)
async def test_anthropic_refuses_blank_texts(standin: ProviderServer, ask, blank: str) -> None:
    """Without the guard, Anthropic refuses the same conversation, and every one that goes on from it."""
    model = standin.model("anthropic")
    with pytest.raises(ModelHTTPError, match="non-empty"):
        await ask(model, model.prepare_messages(BLANKS[blank]))


def test_what_is_not_blank_stays_as_it_is() -> None:
    """Messages without anything to change are the very same objects."""
    messages = conversation(result={"n": ""})
    assert all(one is other for one, other in zip(portable(messages, TestModel()), messages, strict=True))


def test_a_blank_text_of_a_list_of_json_is_data() -> None:
    """An empty text in a JSON list that a tool returned is data, and only beside files a block of its own."""
    kept = ["", "a", None]
    assert portable(conversation(result=kept), TestModel())[2].parts[0].content is kept
    [shown] = portable(conversation(result=["", PICTURE]), TestModel())[2].parts[0].content
    assert shown is PICTURE


async def test_a_foreign_id_is_another_id_of_its_own(
    standin: ProviderServer, ask, protocol: Protocol
) -> None:
    """The id of another provider's call is sent as one that every provider accepts, the same in call and answer."""
    standin.script = lambda _: "Here."
    model = guard(standin.model(protocol))
    for foreign in FOREIGN:
        await ask(model, model.prepare_messages(conversation(foreign)))
        [call], [result] = standin.requests[-1].tool_calls, standin.requests[-1].tool_results
        assert standin.refusals == []
        assert call.id == result.id
        assert call.id != foreign
        assert fits_everywhere(call.id or "")


@pytest.mark.parametrize(
    ("protocol", "foreign"),
    [("anthropic", FOREIGN[0]), ("openai-chat", "c" * 41), ("openai-responses", "x" * 94)],
)
async def test_providers_refuse_foreign_ids(
    standin: ProviderServer, ask, protocol: Protocol, foreign: str
) -> None:
    """Without the guard, the providers refuse such an id."""
    model = standin.model(protocol)
    with pytest.raises(ModelHTTPError, match=r"String should match|string too long"):
        await ask(model, model.prepare_messages(conversation(foreign)))


async def test_the_server_that_gave_an_id_gets_it_back(standin: ProviderServer, ask) -> None:
    """An odd id goes back unchanged to the server that gave it, and to no other, even one of the same provider."""
    standin.script = lambda _: "Here."
    model = guard(standin.model("openai-chat"))
    for url, is_own in ((model.base_url, True), ("https://elsewhere.example/v1/", False), (None, False)):
        messages = conversation("functions.find:0")
        messages[1].provider_name, messages[1].provider_url = model.system, url
        await ask(model, model.prepare_messages(messages))
        [call] = standin.requests[-1].tool_calls
        assert (call.id == "functions.find:0") is is_own


LATE = {
    "after a result": [
        ModelRequest([SystemPromptPart("Be brief."), UserPromptPart("Where is it?")]),
        *conversation()[1:2],
        ModelRequest([*conversation()[2].parts, SystemPromptPart("Answer now.", scope="request")]),
    ],
    "after a question": [ModelRequest([UserPromptPart("Where is it?"), SystemPromptPart("Answer now.")])],
    "before a question": [
        ModelRequest([UserPromptPart("Where is it?")]),
        ModelResponse([TextPart("Here.")]),
        ModelRequest([SystemPromptPart("Answer now."), UserPromptPart("And now?")]),
    ],
    "alone": [
        ModelRequest([UserPromptPart("Where is it?")]),
        ModelResponse([TextPart("Here.")]),
        ModelRequest([SystemPromptPart("Answer now.")]),
    ],
    "two at the start": [
        ModelRequest(
            [SystemPromptPart("Be brief."), SystemPromptPart("Answer now."), UserPromptPart("Where is it?")]
        )
    ],
}


@pytest.mark.parametrize("late", LATE)
async def test_a_strict_chat_template_takes_every_system_message(ask, late: str) -> None:
    """A template that takes one system message, as the first, and users and the model by turns, takes each conversation."""
    async with ProviderServer(lambda _: "Here.", strict_template=True) as standin:
        raw = standin.model("openai-chat")
        with pytest.raises(ModelHTTPError, match="Jinja"):
            await ask(raw, raw.prepare_messages(LATE[late]))
        standin.refusals.clear()
        model = guard(raw)
        await ask(model, model.prepare_messages(LATE[late]))
        assert standin.refusals == []
        sent = standin.requests[-1]
        assert "Answer now." in sent.body["messages"][0 if late == "two at the start" else -1]["content"]


async def test_instructions_and_the_first_system_message_are_one(standin: ProviderServer, ask) -> None:
    """The instructions and the system message of an agent tool are one system message, in this order."""
    messages = [ModelRequest([SystemPromptPart("Be brief."), UserPromptPart("Where is it?")])]
    given = ModelRequestParameters(
        instruction_parts=[InstructionPart(content="You find things.", dynamic=True)]
    )
    chat, anthropic = standin.model("openai-chat"), standin.model("anthropic")
    [request], parameters = one_system(messages, given, chat)
    assert [part.content for part in request.parts] == ["Where is it?"]
    assert parameters.instruction_parts == [
        InstructionPart(content="Be brief.\n\nYou find things.", dynamic=True)
    ]
    assert one_system(messages, given, anthropic) == (messages, given)
    assert one_system(messages, ModelRequestParameters(), chat)[0] is messages
    alone = [ModelRequest([UserPromptPart("Hello")])]
    assert one_system(alone, given, chat) == (alone, given)


@pytest.mark.parametrize("protocol", [each for each in PROTOCOLS if each != "openai-chat"])
async def test_a_notice_does_not_change_the_front_of_the_request(
    standin: ProviderServer, ask, protocol: Protocol
) -> None:
    """A notice of one request stands at its end, so that everything before it is in the prompt cache."""
    standin.script = lambda _: "Here."
    model = guard(standin.model(protocol))
    for late in (SystemPromptPart("Answer now.", scope="request"), SystemPromptPart("Answer now.")):
        plain, noted = conversation(), conversation()
        noted[2].parts = [*noted[2].parts, late]
        await ask(model, model.prepare_messages(plain))
        await ask(model, model.prepare_messages(noted))
        first, second = (request.body for request in standin.requests[-2:])
        for instructions in ("system", "instructions", "systemInstruction"):
            assert first.get(instructions) == second.get(instructions)
        front = {"anthropic": "messages", "google": "contents"}.get(protocol, "input")
        assert first[front][:-1] == second[front][: len(first[front]) - 1]
        assert notice("Answer now.") in str(second[front])


@pytest.mark.parametrize(
    ("system", "url", "takes"),
    [
        ("openai", "https://api.openai.com/v1/", True),
        ("openai", "https://api.openai.com.example/v1/", False),
        ("openai", "http://127.0.0.1:8080/v1/", False),
        ("azure", "https://it.openai.azure.com/", True),
        ("ollama", "http://127.0.0.1:11434/v1/", False),
    ],
)
def test_only_known_providers_get_a_late_system_message(
    standin: ProviderServer, system: str, url: str, takes: bool
) -> None:
    """OpenAI itself gets a late system message as it is; a server that only speaks its API does not."""
    model = standin.model("openai-chat")
    model._provider.client.base_url = url
    model._provider.__class__ = type("Named", (type(model._provider),), {"name": system})
    sent = changed(LATE["after a question"], model)
    kinds = [kind for kind, _ in sent[0]]
    assert kinds == (["user-prompt", "system-prompt"] if takes else ["user-prompt"])


# Ids that a provider refuses although it gave them.


REFUSALS = [
    "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    "Invalid tool_call_id: must match ^[a-zA-Z0-9]{9}$",
    "Tool call id was functions.pay:0 but must be a-z, A-Z, 0-9, with a length of 9.",
    "Invalid 'messages[2].tool_calls[0].id': string too long.",
    "Invalid 'input[3].call_id': string too long. Expected a string with maximum length 64.",
]


def test_a_refusal_of_an_id_is_known_by_its_words(subtests: pytest.Subtests) -> None:
    """Whichever server refuses it."""
    for words in REFUSALS:
        with subtests.test(words=words):
            assert refuses_ids(words)


@pytest.mark.parametrize(
    "words", ["Could not process image", "messages.0.content: must be a text", "tools.0.name: too long"]
)
def test_another_refusal_is_none_of_an_id(words: str) -> None:
    """Then the ids stay, and with them the cached front of the request."""
    assert not refuses_ids(words)


def test_plain_ids_are_the_same_each_time_and_never_shared() -> None:
    """A call and its answer have one id, and other calls have others."""
    given = [*conversation("functions.pay:0"), *conversation("b")[1:]]
    ids = [
        [part.tool_call_id for part in each.parts if hasattr(part, "tool_call_id")]
        for each in with_plain_ids(given)
    ]
    first, second = ids[1], ids[3]
    assert ids == [[], first, first, second, second]
    assert first != second
    assert all(id.isalnum() and len(id) == 9 for [id] in (first, second))
    assert with_plain_ids(given) == with_plain_ids(given)


@pytest.mark.parametrize("words", REFUSALS[1:3])
async def test_a_router_that_refuses_an_id_gets_plain_ones(standin: ProviderServer, words: str) -> None:
    """The request is made again with ids that every server takes, and so are the planner's later requests."""

    def script(request: Request) -> Completion | Body:
        made = [call.id or "" for call in request.tool_calls]
        if not all(id.isalnum() and len(id) == 9 for id in made):
            return Body(status=400, content=json.dumps({"error": {"message": words}}))
        return says("Done.")

    standin.script = script
    call = ToolRequest(name="a.b.pay", tool_call_id="functions.pay:0")
    paid = ToolResult(name="a.b.pay", tool_call_id="functions.pay:0", result="paid")
    messages = [Message.user("go"), Message.calls([call]), Message.results([paid])]
    turn = PlanInput(run=RunContext(run_id="r", agent_id="test.agent"), messages=messages, tools=[])
    planner = ModelPlanner(standin.model("openai-chat"))
    for requests in (2, 3):
        plan = await planner.plan_start(turn)
        assert plan.final_response
        assert (plan.final_response.text, len(standin.requests)) == ("Done.", requests)
