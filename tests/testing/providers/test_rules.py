"""What the stand-in provider refuses, by the rules of each provider."""

import re
from pathlib import Path
from typing import Any

from sojourn.testing.providers import Protocol, ToolOffer
from sojourn.testing.providers.rules import (
    MAX_ANTHROPIC,
    MAX_CALLS,
    MAX_DESCRIPTION,
    MAX_FUNCTIONS,
    MAX_TEXT,
    MAX_TOOLS,
    refusal_of,
    size_refusal_of,
    tool_refusal_of,
)
from sojourn.testing.providers.wire import read

PAGE = (Path(__file__).parents[3] / "docs" / "testing.md").read_text()
OBJECT = {"type": "object", "properties": {}}

TOOLS: list[tuple[Protocol, list[ToolOffer], str]] = [
    ("anthropic", [ToolOffer("a b", "", OBJECT)], "name: String should match pattern"),
    ("anthropic", [ToolOffer("a", "", OBJECT)] * 2, "Tool names must be unique"),
    ("anthropic", [ToolOffer("a", "", {})], "input_schema.type: Field required"),
    ("anthropic", [ToolOffer("a", "", {"type": "array"})], "input_schema.type: Input should be 'object'"),
    ("anthropic", [ToolOffer("a", "", {**OBJECT, "oneOf": [{}]})], "does not support oneOf, allOf, or anyOf"),
    ("anthropic", [ToolOffer("a", "", {**OBJECT, "properties": {"$top": {}}})], "Property keys should match"),
    ("anthropic", [ToolOffer("a", "", {**OBJECT, "required": "q"})], "must match JSON Schema draft 2020-12"),
    ("google", [ToolOffer("7", "", OBJECT)], "Invalid function name"),
    ("google", [ToolOffer("a", "", OBJECT)] * 2, "Duplicate function declaration found"),
    ("google", [ToolOffer("a", "", {"type": "array", "items": {}})], "only allowed for OBJECT type"),
    (
        "google",
        [ToolOffer("a", "", {**OBJECT, "properties": {"x": {"type": "array"}}})],
        "parameters.properties[x].items: missing field",
    ),
    (
        "google",
        [ToolOffer(f"a{n}", "", OBJECT) for n in range(MAX_FUNCTIONS + 1)],
        "At most 512 function declarations",
    ),
    ("openai-chat", [ToolOffer("a.b", "", OBJECT)], "string does not match pattern"),
    ("openai-chat", [ToolOffer(f"a{n}", "", OBJECT) for n in range(MAX_TOOLS + 1)], "array too long"),
    ("openai-chat", [ToolOffer("a", "x" * (MAX_DESCRIPTION + 1), OBJECT)], "description': string too long"),
    ("openai-chat", [ToolOffer("a", "", {})], "schema must be a JSON Schema of 'type: \"object\"'"),
    (
        "openai-chat",
        [ToolOffer("a", "", {**OBJECT, "not": {}})],
        "not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not'",
    ),
    (
        "openai-responses",
        [ToolOffer("a", "", {**OBJECT, "properties": {"x": {"type": ["array", "null"]}}})],
        "array schema missing items",
    ),
    (
        "openai-responses",
        [ToolOffer("a", "", {**OBJECT, "properties": {"x": {}}}, strict=True)],
        "'required' is required to be supplied",
    ),
]

ASKED = {"role": "user", "content": "Where is it?"}


def chat_call(id: str = "c1") -> dict[str, Any]:
    """A call in Chat Completions."""
    return {"id": id, "type": "function", "function": {"name": "find", "arguments": "{}"}}


CHAT_CALL = {"role": "assistant", "content": None, "tool_calls": [chat_call()]}
CHAT_RESULT = {"role": "tool", "tool_call_id": "c1", "content": "Here."}
CALL = {"type": "function_call", "call_id": "c1", "name": "find", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "Here."}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}
USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "find", "input": {}}]}
USED = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "Here."}]}
SAID = {"role": "user", "parts": [{"text": "Where is it?"}]}
FUNCTION = {"role": "model", "parts": [{"functionCall": {"name": "find", "args": {}}}]}
ANSWERED = {"role": "user", "parts": [{"functionResponse": {"name": "find", "response": {"a": 1}}}]}

GOOD: dict[Protocol, tuple[str, list[Any]]] = {
    "openai-chat": ("messages", [ASKED, CHAT_CALL, CHAT_RESULT]),
    "openai-responses": ("input", [ASKED, REASONING, CALL, RESULT]),
    "anthropic": ("messages", [ASKED, USE, USED]),
    "google": ("contents", [SAID, FUNCTION, ANSWERED]),
}

MESSAGES: list[tuple[Protocol, list[Any], str]] = [
    ("openai-chat", [ASKED, CHAT_CALL, ASKED], "did not have response messages: c1"),
    ("openai-chat", [ASKED, CHAT_RESULT], "must be a response to a preceeding message"),
    (
        "openai-chat",
        [ASKED, {**CHAT_CALL, "tool_calls": [chat_call("c" * 41)]}],
        "maximum length 40, but got a string with length 41",
    ),
    (
        "openai-chat",
        [ASKED, {**CHAT_CALL, "tool_calls": [chat_call(f"c{n}") for n in range(MAX_CALLS + 1)]}],
        "tool_calls': array too long",
    ),
    ("openai-chat", [{**ASKED, "content": "x" * (MAX_TEXT + 1)}], "maximum length 10485760"),
    ("openai-responses", [ASKED, CALL], "No tool output found for function call c1"),
    ("openai-responses", [ASKED, RESULT], "No tool call found for function call output with call_id c1"),
    ("openai-responses", [ASKED, REASONING, ASKED], "was provided without its required following item"),
    ("openai-responses", [ASKED, {**CALL, "call_id": "c" * 65}], "maximum length 64"),
    ("openai-responses", [{**ASKED, "content": "x" * (MAX_TEXT + 1)}], "maximum length 10485760"),
    ("anthropic", [ASKED, USE, ASKED], "`tool_use` ids were found without `tool_result` blocks"),
    (
        "anthropic",
        [ASKED, USE, {"role": "user", "content": [{"type": "text", "text": "So?"}, *USED["content"]]}],
        "`tool_use` ids were found without `tool_result` blocks",
    ),
    ("anthropic", [ASKED, USED], "unexpected `tool_use_id` found in `tool_result` blocks"),
    ("anthropic", [{**ASKED, "content": []}], "all messages must have non-empty content"),
    ("anthropic", [{**ASKED, "content": " \n"}], "text content blocks must be non-empty"),
    (
        "anthropic",
        [ASKED, {"role": "user", "content": [{**USED["content"][0], "tool_use_id": "functions.x:0"}]}],
        "tool_use_id: String should match pattern",
    ),
    ("google", [{**SAID, "parts": []}], "contents.parts must not be empty"),
    ("google", [SAID, FUNCTION, SAID], "number of function response parts is equal"),
    ("google", [SAID, ANSWERED], "number of function response parts is equal"),
    ("google", [FUNCTION, ANSWERED], "function call turn comes immediately after a user turn"),
]
SIZE = "Request exceeds the maximum size"


def request(protocol: Protocol, messages: list[Any], **fields: Any) -> Any:
    """A request with these messages, in the field of its protocol."""
    asked = read(protocol, {GOOD[protocol][0]: GOOD[protocol][1]}, {}, 0)
    asked.body = {GOOD[protocol][0]: messages, **fields}
    return asked


def test_tools_are_refused_in_the_provider_s_words() -> None:
    """Each tool list that a provider refuses is refused with its words, and an ordinary one passes."""
    for protocol, tools, words in TOOLS:
        asked = request(protocol, [])
        asked.tools = tools
        assert words in (tool_refusal_of(asked) or ""), (protocol, words)
        asked.tools = [ToolOffer("find", "Find it.", {**OBJECT, "properties": {"q": {"type": "string"}}})]
        assert tool_refusal_of(asked) is None


def test_messages_are_refused_in_the_provider_s_words() -> None:
    """Each conversation that a provider refuses is refused with its words, and an ordinary one passes."""
    for protocol, (_, messages) in GOOD.items():
        assert refusal_of(request(protocol, messages), strict_template=True) is None
    for protocol, messages, words in MESSAGES:
        found = refusal_of(request(protocol, messages), strict_template=False)
        assert words in (found or ""), (protocol, words)


def test_the_server_may_have_the_items_before() -> None:
    """Responses takes a result alone when the request continues a stored response."""
    continued = request("openai-responses", [RESULT], previous_response_id="resp_1")
    assert refusal_of(continued, strict_template=False) is None


def test_only_anthropic_has_a_limit_of_the_whole_request() -> None:
    """A request of more than 32 MB is refused by Anthropic."""
    assert size_refusal_of(request("anthropic", []), MAX_ANTHROPIC + 1) == SIZE
    assert size_refusal_of(request("anthropic", []), MAX_ANTHROPIC) is None
    assert size_refusal_of(request("google", []), MAX_ANTHROPIC + 1) is None


TEMPLATES = [
    ([ASKED, {"role": "system", "content": "Be brief."}], "System message must be at the beginning"),
    ([ASKED, ASKED], "conversation roles must alternate"),
]


def test_a_strict_template_refuses_what_some_open_models_do() -> None:
    """A late system message and two messages of a user in a row are refused only by a strict chat template."""
    for messages, words in TEMPLATES:
        asked = request("openai-chat", messages)
        assert words in (refusal_of(asked, strict_template=True) or "")
        assert refusal_of(asked, strict_template=False) is None


def test_the_page_has_every_rule_with_its_source() -> None:
    """Each rule is a row of the table in docs/testing.md, and each row is a rule, with where it comes from."""
    rows = re.findall(r"^\| [^|]+ \| `([^|]+)` \| \[[^]]+\]\(https://[^|]+\) \|$", PAGE, re.MULTILINE)
    tested = [words.replace("`", "") for *_, words in (*TOOLS, *MESSAGES, *TEMPLATES)] + [SIZE]
    assert [words for words in tested if not any(row in words or words in row for row in rows)] == []
    assert [row for row in rows if not any(row in words or words in row for words in tested)] == []
