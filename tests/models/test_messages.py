"""Transcripts as pydantic-ai's messages, and responses as messages of a transcript."""

import base64
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic_ai import messages as theirs

from sojourn import Message, ToolError, ToolRequest, ToolResult
from sojourn.contracts.message import (
    DocumentPart,
    ImagePart,
    OtherPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from sojourn.core.payload.parse import ParseFault
from sojourn.core.payload.reading import read_text
from sojourn.models.messages import Converter, from_response
from sojourn.models.names import Names, wire_name
from sojourn.values.wire import decode_messages, encode

NAMES = Names(["ops.devices.list", "ops.mcp.fs/read"])
PNG = b"\x89PNG\r\n\x1a\n picture"


def outcome_text(result: ToolResult) -> Any:
    """Return the content of a tool's answer, for tests."""
    return result.error.message if result.error else result.result


def sent(*messages: Message) -> list[theirs.ModelMessage]:
    return Converter(NAMES, outcome_text).messages(messages)


def stored(message: Message) -> Message:
    """Return a message after encoding and decoding, as a history stores it."""
    [back] = decode_messages(encode([message]))
    return back


def sent_back(response: theirs.ModelResponse) -> theirs.ModelResponse:
    """Return a response as the next request holds it, after it was stored in a history."""
    [back] = [m for m in sent(stored(from_response(response, NAMES))) if isinstance(m, theirs.ModelResponse)]
    return back


def of_openai(*parts: theirs.ModelResponsePart) -> theirs.ModelResponse:
    return theirs.ModelResponse(
        parts,
        provider_name="openai",
        provider_url="https://api.openai.com/v1/",
        canonical_system="openai",
        model_name="gpt-5",
        provider_response_id="resp_1",
    )


def of_anthropic(*parts: theirs.ModelResponsePart) -> theirs.ModelResponse:
    return theirs.ModelResponse(
        parts, provider_name="anthropic", model_name="claude-opus-5", provider_response_id="m1"
    )


def of_google(*parts: theirs.ModelResponsePart) -> theirs.ModelResponse:
    return theirs.ModelResponse(
        parts, provider_name="google", canonical_system="google", model_name="gemini-3-pro"
    )


SIGNED = {"thought_signature": base64.b64encode(b"signed").decode()}
SHAPES = {
    "openai reasoning, encrypted": of_openai(
        theirs.ThinkingPart("first", id="rs_1", signature="encrypted", provider_name="openai"),
        theirs.ThinkingPart(
            "second", id="rs_1", provider_name="openai", provider_details={"raw_content": ["raw"]}
        ),
        theirs.TextPart(
            "On it.", id="msg_1", provider_name="openai", provider_details={"phase": "commentary"}
        ),
        theirs.ToolCallPart(
            "ops__devices__list", '{"site": "s-1"}', "call_1", id="fc_1", provider_name="openai"
        ),
    ),
    "openai chat, a field for reasoning": of_openai(
        theirs.ThinkingPart("thought", id="reasoning_content", provider_name="openai"),
        theirs.ToolCallPart("ops__devices__list", '{"site": ', "call_1"),
        theirs.ToolCallPart("ops__devices__list", "", "call_2"),
    ),
    "anthropic thinking": of_anthropic(
        theirs.ThinkingPart("I look.", signature="sig", provider_name="anthropic"),
        theirs.ThinkingPart("", id="redacted_thinking", signature="opaque", provider_name="anthropic"),
        theirs.TextPart("Looking."),
        theirs.ToolCallPart("ops__devices__list", {"site": "s-1"}, "toolu_1"),
    ),
    "google thought signatures": of_google(
        theirs.ToolCallPart(
            "ops__devices__list", {"n": 1.5}, "pyd_1", provider_name="google", provider_details=SIGNED
        ),
        theirs.ToolCallPart(wire_name("ops.mcp.fs/read"), {"path": "/"}, "pyd_2"),
        theirs.TextPart("", provider_name="google", provider_details=SIGNED),
        theirs.FilePart(theirs.BinaryImage(PNG, media_type="image/png"), provider_name="google"),
    ),
    "citations": of_anthropic(
        theirs.TextPart(
            "So it is.",
            citations=[
                theirs.Citation(
                    [
                        theirs.WebCitationSource("https://example.org", title="Why", excerpts=["it is"]),
                        theirs.DocumentCitationSource(document_id="d1"),
                    ],
                    anchor=theirs.ContentCitationAnchor(start=0, end=9),
                )
            ],
        )
    ),
    "kinds of theirs": of_openai(
        theirs.CompactionPart(
            "before", id="c", provider_name="openai", provider_details={"encrypted_content": "e"}
        ),
        theirs.NativeToolCallPart("web_search", {"query": "q"}, "ws_1", provider_name="openai"),
        theirs.NativeToolReturnPart("web_search", {"status": "completed"}, "ws_1", provider_name="openai"),
        theirs.FilePart(theirs.BinaryContent(b"%PDF", media_type="application/pdf")),
    ),
}


def test_a_response_is_sent_back_unchanged(subtests: pytest.Subtests) -> None:
    """Ids, signatures, details, citations and arguments are unchanged after the JSON of a history."""
    for shape, response in SHAPES.items():
        with subtests.test(shape=shape):
            back = sent_back(response)
            assert [without_time(part) for part in back.parts] == [
                without_time(part) for part in response.parts
            ]
            assert back.provider_name == response.provider_name
            assert back.canonical_system == (response.canonical_system or response.provider_name)
            has_state = any(getattr(part, "id", None) for part in response.parts)
            for field in ("provider_url", "provider_response_id"):
                assert getattr(back, field) == (getattr(response, field) if has_state else None)


def without_time(part: Any) -> Any:
    if hasattr(part, "timestamp"):
        part.timestamp = None
    return part


def test_a_stored_message_has_sojourn_s_own_keys() -> None:
    """A history holds plain JSON under Sojourn's own keys, which can be read without pydantic-ai."""
    message = from_response(SHAPES["openai reasoning, encrypted"], NAMES)
    assert [part.model_dump(exclude_defaults=True) for part in message.parts] == [
        {
            "type": "thinking",
            "text": "first",
            "signature": "encrypted",
            "provider_metadata": {
                "id": "rs_1",
                "provider": "openai",
                "response": {
                    "provider": "openai",
                    "url": "https://api.openai.com/v1/",
                    "id": "resp_1",
                },
            },
        },
        {
            "type": "thinking",
            "text": "second",
            "provider_metadata": {"id": "rs_1", "provider": "openai", "details": {"raw_content": ["raw"]}},
        },
        {
            "type": "text",
            "text": "On it.",
            "provider_metadata": {"id": "msg_1", "provider": "openai", "details": {"phase": "commentary"}},
        },
        {
            "type": "tool_call",
            "tool_call_id": "call_1",
            "name": "ops.devices.list",
            "raw": '{"site": "s-1"}',
            "provider_metadata": {"id": "fc_1", "provider": "openai"},
        },
    ]


def test_arguments_are_kept_as_the_model_wrote_them() -> None:
    """A text stays in `raw`, JSON or not; an object becomes the payload; a lone surrogate is its escape."""
    arguments: list[Any] = ['{"a": 1, }', "", "not JSON", {"a": [1]}, None, '"\ud800"', {"a": "\ud800"}]
    response = of_openai(
        *[theirs.ToolCallPart("ops__devices__list", given, f"c{n}") for n, given in enumerate(arguments)]
    )
    calls = stored(from_response(response, NAMES)).tool_calls
    assert [call.raw for call in calls] == [
        '{"a": 1, }',
        "",
        "not JSON",
        None,
        None,
        '"\\ud800"',
        '{"a": "\\ud800"}',
    ]
    assert [call.payload for call in calls] == [{}, {}, {}, {"a": [1]}, {}, {}, {}]


@pytest.mark.parametrize("written", ['{"a": "\ud83d"}', '{"a": "\\\\\ud83d"}', '{"a": "\\\ud83d"}', "\ud83d"])
def test_a_lone_surrogate_in_arguments_is_refused(written: str) -> None:
    """No other character stands in its place, with which a tool would run: the boundary refuses the arguments."""
    message = from_response(of_openai(theirs.ToolCallPart("a__b__c", written, "c1")), Names(["a.b.c"]))
    (call,) = stored(message).tool_calls
    assert call.raw is not None
    assert isinstance(read_text(call.raw), ParseFault)


def test_more_calls_than_a_provider_takes_back_are_several_messages() -> None:
    """A response of 300 calls is sent back as three, each followed by its answers, with nothing lost."""
    many = [ToolRequest(name="a.b.c", tool_call_id=f"c{n}") for n in range(300)]
    asked = Message.calls(many)
    asked = asked.model_copy(update={"parts": [TextPart(type="text", text="I look."), *asked.parts]})
    results = Message.results([ToolResult(name="a.b.c", tool_call_id=each.tool_call_id) for each in many])
    messages = sent(Message.user("go"), asked, results)
    assert [len(message.parts) for message in messages] == [1, 129, 128, 128, 128, 44, 44]
    pairs = [
        [part.tool_call_id for part in message.parts if hasattr(part, "tool_call_id")] for message in messages
    ]
    assert pairs[1::2] == pairs[2::2]
    assert [id for each in pairs[1::2] for id in each] == [each.tool_call_id for each in many]


def test_an_unknown_tool_keeps_its_name() -> None:
    """A call of an unknown tool has the name that the model wrote, since the run answers for it."""
    message = from_response(of_openai(theirs.ToolCallPart("getDevices", "{}", "c")), NAMES)
    assert [call.name for call in message.tool_calls] == ["getDevices"]
    assert (
        sent_back(of_openai(theirs.ToolCallPart("getDevices", "{}", "c"))).parts[0].tool_name == "getDevices"
    )


def test_details_that_are_no_json_are_left_out_or_become_text() -> None:
    """An adapter's details of any type can be stored in a history."""
    details = {
        "when": theirs.ModelResponse([]).timestamp,
        "bytes": b"\xff",
        "number": float("nan"),
        "odd": object(),
    }
    kept = stored(from_response(of_google(theirs.TextPart("x", provider_details=details)), NAMES)).parts[0]
    assert kept.provider_metadata
    assert kept.provider_metadata["details"].keys() == details.keys()
    broken = {"half": "\ud800"}
    kept = stored(from_response(of_google(theirs.TextPart("x\ud800", provider_details=broken)), NAMES)).parts[
        0
    ]
    assert kept == TextPart(type="text", text="x?", provider_metadata=kept.provider_metadata)
    assert "details" not in (kept.provider_metadata or {})


def test_only_the_details_that_later_requests_read_are_kept() -> None:
    """A container's id is kept, but no log probabilities and no time stamps, which would fill a history."""
    details = {
        "container_id": "c1",
        "logprobs": [1.0] * 1000,
        "timestamp": theirs.ModelResponse([]).timestamp,
    }
    response = theirs.ModelResponse(
        [theirs.TextPart("x")], provider_name="anthropic", provider_details=details
    )
    assert sent_back(response).provider_details == {"container_id": "c1"}


def test_an_empty_response_is_an_empty_message() -> None:
    """A response without parts is a message without parts, and so without metadata."""
    assert from_response(of_openai(), NAMES) == Message(role="assistant", parts=[])


def test_metadata_of_another_origin_is_left_out() -> None:
    """Metadata of another form, as a client's transcript may have it, is not sent."""
    odd = {
        "id": 7,
        "provider": ["x"],
        "details": "y",
        "citations": [{"z": 1}],
        "response": [],
        "openai": {"a": 1},
    }
    [_, response, _] = sent(
        Message(role="assistant", parts=[TextPart(type="text", text="Hello", provider_metadata=odd)])
    )
    assert isinstance(response, theirs.ModelResponse)
    assert list(response.parts) == [theirs.TextPart("Hello")]
    assert response.provider_name is None


# Properties.

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=3)
ORIGIN = {
    "id": st.none() | TEXT,
    "provider_name": st.none() | st.sampled_from(["openai", "anthropic", "google"]),
    "provider_details": st.none() | OBJECT,
}
TOOL = st.sampled_from([wire_name("ops.devices.list"), wire_name("ops.mcp.fs/read"), "ask_user", "made_up"])
PARTS = st.one_of(
    st.builds(theirs.TextPart, content=TEXT.filter(bool), **ORIGIN),
    st.builds(theirs.ThinkingPart, content=TEXT, signature=st.none() | TEXT, **ORIGIN),
    st.builds(
        theirs.ToolCallPart,
        tool_name=TOOL,
        args=TEXT | OBJECT,
        tool_call_id=st.integers().map("call {}".format),
        **ORIGIN,
    ),
    st.builds(
        theirs.FilePart,
        content=st.builds(
            theirs.BinaryImage, data=st.binary(max_size=9).map(PNG.__add__), media_type=st.just("image/png")
        ),
        **ORIGIN,
    ),
)
RESPONSES = st.builds(
    theirs.ModelResponse,
    parts=st.lists(
        PARTS, min_size=1, max_size=6, unique_by=lambda part: getattr(part, "tool_call_id", id(part))
    ),
    provider_name=st.none() | TEXT,
    provider_url=st.none() | TEXT,
    canonical_system=st.none() | TEXT,
    model_name=st.none() | TEXT,
    provider_response_id=st.none() | TEXT,
)


@given(RESPONSES)
def test_conversion_there_and_back_is_the_identity(response: theirs.ModelResponse) -> None:
    """A response, whatever its parts, is the same after it was a message, and the message after it was a response."""
    message = from_response(response, NAMES)
    assert stored(message) == message
    back = sent_back(response)
    assert back.parts == response.parts
    assert from_response(back, NAMES) == message


JUNK = st.none() | st.dictionaries(
    st.sampled_from(["id", "provider", "details", "citations", "response", "tool_call_id", "openai"]),
    JSON | OBJECT,
)
IDS = st.sampled_from(["", "c1", "c2", "c1-2"])
ANY_PART = st.one_of(
    st.builds(TextPart, type=st.just("text"), text=TEXT, provider_metadata=JUNK),
    st.builds(
        ThinkingPart, type=st.just("thinking"), text=TEXT, signature=st.none() | TEXT, provider_metadata=JUNK
    ),
    st.builds(
        ToolCallPart,
        type=st.just("tool_call"),
        tool_call_id=IDS,
        name=TEXT,
        raw=st.none() | TEXT,
        provider_metadata=JUNK,
    ),
    st.builds(
        ToolResultPart,
        type=st.just("tool_result"),
        result=st.builds(
            ToolResult, tool_call_id=IDS, result=JSON, error=st.none() | st.builds(ToolError, message=TEXT)
        ),
    ),
    st.builds(
        ImagePart,
        type=st.just("image"),
        media_type=TEXT | st.just("image/png"),
        data=st.none() | TEXT | st.just("cGlj"),
        url=st.none() | TEXT,
        provider_metadata=JUNK,
    ),
    st.builds(
        DocumentPart,
        type=st.just("document"),
        media_type=TEXT | st.just("image/png"),
        data=st.none() | TEXT | st.just("cGlj"),
        url=st.none() | TEXT,
        title=st.none() | TEXT,
    ),
    st.builds(OtherPart, type=st.sampled_from(["model_part", "hologram"]), part=JSON, provider_metadata=JUNK),
)
ROLES = st.sampled_from(["system", "user", "assistant", "tool", "developer", ""])
TRANSCRIPTS = st.lists(st.builds(Message, role=ROLES, parts=st.lists(ANY_PART, max_size=4)), max_size=8)


@settings(max_examples=60)
@given(TRANSCRIPTS)
@example([])
@example([Message(role="user", parts=[ImagePart(type="image", media_type="", data="0000")])])
@example([Message.system("Be brief.")])
@example([Message.assistant("Hello"), Message.assistant("again")])
def test_the_messages_of_any_transcript_are_well_formed(transcript: list[Message]) -> None:
    """Requests and responses alternate, none is empty, and each call is answered once, at the start of the next request."""
    messages = Converter(NAMES, outcome_text).messages(transcript)
    assert len(messages) % 2 == 1
    assert all(
        isinstance(m, theirs.ModelRequest if n % 2 == 0 else theirs.ModelResponse)
        for n, m in enumerate(messages)
    )
    assert all(message.parts for message in messages)
    assert any(isinstance(part, theirs.UserPromptPart) for part in messages[0].parts)
    called: list[str] = []
    for response, request in zip(messages[1::2], messages[2::2], strict=True):
        calls = [(p.tool_name, p.tool_call_id) for p in response.parts if isinstance(p, theirs.ToolCallPart)]
        answers = [
            (p.tool_name, p.tool_call_id) for p in request.parts if isinstance(p, theirs.ToolReturnPart)
        ]
        assert answers == calls
        assert all(isinstance(part, theirs.ToolReturnPart) for part in request.parts[: len(calls)])
        called += [id for _, id in calls]
    assert len(set(called)) == len(called)
    assert not any(isinstance(part, theirs.ToolReturnPart) for part in messages[0].parts)


TALK = st.lists(
    st.builds(Message.system, TEXT)
    | st.builds(Message.user, TEXT)
    | st.builds(Message.assistant, TEXT)
    | st.just(Message(role="assistant", parts=[])),
    max_size=6,
)


@settings(max_examples=60)
@given(TALK, TALK)
@example([Message.assistant("a")], [Message.assistant("b")])
def test_a_longer_transcript_begins_like_the_shorter(talk: list[Message], more: list[Message]) -> None:
    """The messages that were sent do not change when more follow, so that a provider's prompt cache applies."""
    shorter, longer = sent(*talk), sent(*talk, Message.assistant("so"), *more)
    assert [parts_of(message) for message in longer[: len(shorter)]] == [
        parts_of(message) for message in shorter
    ]


def parts_of(message: theirs.ModelMessage) -> list[Any]:
    return [(type(part), getattr(part, "content", None)) for part in message.parts]
