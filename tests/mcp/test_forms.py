"""Forms: what a server may ask is a flat form that can be shown; nothing else reaches a person, or stays."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from sojourn import mcp
from sojourn.mcp.forms import form_of
from sojourn.mcp.limits import MAX_INPUT_REQUESTS

STATE = "secret-of-the-server"
NAME = {"type": "object", "properties": {"name": {"type": "string"}}}


@pytest.fixture(scope="module")
async def shared(shared_asking):
    """One asking server for all that only look at what it asks."""
    transport = shared_asking.stdio(TOKEN="secret-token")
    toolset = mcp.McpToolset("ops.asking", transport=transport)
    await toolset.open()
    yield toolset
    await toolset.close()


def one(**field: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": field}}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "object", "properties": {f"f{n}": {"type": "string"} for n in range(51)}}, "50 fields"),
        (one(type="object", properties={}), "`x` is not a text, a number"),
        (one(type="array", items={"type": "integer"}), "`x` is a list of values"),
        (one(type="array"), "`x` is a list of values"),
        (one(type=["string", "null"]), "`x` is not a text, a number"),
        (one(), "`x` is not a text, a number"),
        ({"type": "object", "properties": {"x": True}}, "`x` has no type"),
        ({"type": "object", "properties": {"x\x1b[31m": {"type": "string"}}}, "a name that cannot be shown"),
        ({"type": "object", "properties": {"x" * 101: {"type": "string"}}}, "a name that cannot be shown"),
        (one(type="string", enum=["a", "\x1b[31m"]), "`x` is not a choice"),
        (one(type="string", enum=[]), "`x` is not a choice"),
        (one(type="string", enum=[str(n) for n in range(101)]), "`x` is not a choice"),
        (one(type="string", oneOf=[{"type": "integer"}]), "`x` is not a choice"),
        ({**one(type="string"), "required": ["y"]}, "`required` must name"),
        (
            {
                "type": "object",
                "properties": {f"f{n}": {"type": "string", "description": "x" * 500} for n in range(50)},
            },
            "20,000 bytes",
        ),
    ],
    ids=[
        "fields",
        "nested",
        "numbers",
        "anything",
        "null",
        "no type",
        "true",
        "escape in a name",
        "long name",
        "escape in a choice",
        "no choice",
        "choices",
        "no const",
        "required",
        "bytes",
    ],
)
async def test_a_form_that_cannot_be_shown_is_the_servers_fault(schema, why, shared, run):
    """The call is answered with what is wrong; nobody is asked, and the state is not told."""
    result = await run(shared, "ask", rounds=[{"q": {"form": schema}}], state=STATE)
    assert result.error.code == result.retry_hint.reason == "malformed_response"
    assert why in result.error.message
    assert "\x1b" not in result.error.message
    assert "secret-of-the-server" not in result.model_dump_json()


@pytest.mark.parametrize(
    ("asked", "state"),
    [
        ({f"q{number}": {"form": NAME} for number in range(MAX_INPUT_REQUESTS + 1)}, "s"),
        ({f"q{number}": {"form": NAME} for number in range(MAX_INPUT_REQUESTS)}, "s" * 63_900),
        ({"q" * 501: {"form": NAME}}, "s"),
        ({"q": {"form": NAME}}, "s" * 64_000),
        ({"q": {"url": "https://example.com"}}, "s" * 64_000),
    ],
    ids=["requests", "what is carried", "key", "state", "state without a form"],
)
async def test_too_much_at_once_is_the_servers_fault(asked, state, shared, run):
    """So many questions, or such a state, are not kept for anybody."""
    result = await run(shared, "ask", rounds=[asked], state=state)
    assert result.error.code == "malformed_response"


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        (
            {
                "type": "string",
                "title": "\x1b[31mA  b",
                "pattern": "(a+)+$",
                "minLength": -1,
                "format": "date",
            },
            {"type": "string", "title": "[31mA  b", "format": "date"},
        ),
        (
            {"type": "string", "oneOf": [{"const": "a", "title": "First"}, {"const": "b"}], "default": "b"},
            {"type": "string", "enum": ["a", "b"], "enumNames": ["First", "b"], "default": "b"},
        ),
        (
            {"type": "string", "enum": ["a", "b"], "enumNames": ["First", "Second"], "default": "c"},
            {"type": "string", "enum": ["a", "b"], "enumNames": ["First", "Second"]},
        ),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        (
            {"type": "integer", "minimum": True, "maximum": 5, "default": 2.5},
            {"type": "integer", "maximum": 5},
        ),
        (
            {"type": "number", "enum": [1, 2.5], "default": 1},
            {"type": "number", "enum": [1, 2.5], "default": 1},
        ),
        ({"type": "number", "maximum": 1e301}, {"type": "number"}),
        ({"type": "boolean", "default": 1}, {"type": "boolean"}),
        (
            {
                "type": "array",
                "items": {"anyOf": [{"const": "a", "title": "First"}]},
                "minItems": 1,
                "maxItems": 1.5,
                "default": ["a"],
            },
            {
                "type": "array",
                "items": {"type": "string", "enum": ["a"], "enumNames": ["First"]},
                "minItems": 1,
                "default": ["a"],
            },
        ),
        ({"type": "array", "items": {}, "default": [1]}, {"type": "array", "items": {"type": "string"}}),
    ],
    ids=["text", "titled", "legacy", "const", "integer", "number", "huge", "boolean", "several", "texts"],
)
async def test_of_a_field_what_a_person_needs_is_kept(field, shown, shared, run):
    """Its kind, choices, bounds and texts, cleaned; no pattern of a stranger's, and no word of another kind."""
    result = await run(shared, "ask", rounds=[{"q": {"form": one(**field)}}], state="s")
    assert result.input_required.forms[0].form["properties"]["x"] == shown


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
WORDS = ("enum", "const", "oneOf", "enumNames", "items", "title", "default", "maximum", "minLength")
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "array"])
FIELD = st.fixed_dictionaries({"type": TYPES}, optional=dict.fromkeys(WORDS, JSON))


@given(
    st.fixed_dictionaries(
        {"properties": st.dictionaries(st.text(max_size=5), FIELD | JSON, max_size=3) | JSON},
        optional={"required": JSON},
    )
)
def test_whatever_is_asked_is_a_form_or_refused(schema):
    """No schema breaks anything else, and a form is JSON of simple fields that can be checked."""
    try:
        form = form_of(schema, lambda text, limit: text[:limit])
    except ValueError:
        return
    assert form == json.loads(json.dumps(form, allow_nan=False))
    assert form["properties"].keys() == schema["properties"].keys()
    for field in form["properties"].values():
        assert field["type"] in ("string", "integer", "number", "boolean", "array")
        assert all(each.isprintable() for each in field.get("enum", []) if isinstance(each, str))


async def test_a_message_is_shown_clean(shared, run):
    """Without what acts on a terminal and what the server was given in confidence; and never empty."""
    asked = {
        "a": {"form": NAME, "message": "\x1b[31mYour secret-token?\n\u202eNow"},
        "b": {"form": NAME, "message": "\x07 "},
    }
    result = await run(shared, "ask", rounds=[asked])
    messages = [each.message for each in result.input_required.forms]
    assert messages == ["[31mYour ***?\n Now", "Input for b"]


async def test_an_answer_that_the_protocol_cannot_say_is_an_error(shared, shared_asking, run, answered):
    """A list of numbers is no answer to any form; the server does not see it, and no error repeats it."""
    arguments: dict[str, Any] = {"rounds": [{"q": {"form": NAME}}], "state": STATE, "mark": "unsayable"}
    first = await run(shared, "ask", **arguments)
    wrong = answered(first, action="accept", content={"name": [4711]})
    result = await run(shared, "ask", meta=wrong, **arguments)
    assert result.error.code == "tool_unavailable"
    assert "cannot be sent" in result.error.message
    assert "4711" not in result.model_dump_json()
    assert STATE not in result.model_dump_json()
    assert len(shared_asking.calls("unsayable")) == 1


@pytest.mark.parametrize("kind", ["tool", "protocol"])
async def test_a_state_is_never_told(kind, shared, run, answered):
    """Not even where a server repeats it in an error, however long it is."""
    arguments: dict[str, Any] = {
        "rounds": [{"q": {"form": NAME}}],
        "state": STATE * 200,
        "error": "bad state STATE",
        "error_kind": kind,
    }
    with capture_logs() as logs:
        first = await run(shared, "ask", **arguments)
        response = answered(first, action="accept", content={"name": "Ana"})
        result = await run(shared, "ask", meta=response, **arguments)
    assert result.error.message == "bad state ***"
    assert STATE not in str(logs)


async def test_a_state_that_is_refused_is_not_the_arguments_fault(shared, run, answered):
    """What a server says of an answer is told as it is: no hint says that the arguments were wrong."""
    arguments: dict[str, Any] = {
        "rounds": [{"q": {"form": NAME}}],
        "error": "no such name",
        "error_kind": "protocol",
        "error_code": -32602,
        "state": STATE,
    }
    first = await run(shared, "ask", **arguments)
    response = answered(first, action="accept", content={"name": "Ana"})
    result = await run(shared, "ask", meta=response, **arguments)
    assert (result.error.code, result.error.message) == ("mcp_-32602", "no such name")
    assert result.retry_hint is None


async def test_a_server_of_the_older_protocol_is_told_of_no_forms(opened, rogue, run):
    """It would ask in the middle of a call and wait, where a person may take weeks."""
    toolset = await opened(rogue("can"))
    assert (await run(toolset, "good")).result == "{}"
