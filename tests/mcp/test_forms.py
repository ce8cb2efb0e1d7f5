"""Forms: only a flat form that can be shown reaches a person."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from sojourn import mcp
from sojourn.forms import sanitize_form
from sojourn.mcp.limits import MAX_INPUT_REQUESTS

pytestmark = pytest.mark.usefixtures("processes")

STATE = "secret-of-the-server"
NAME = {"type": "object", "properties": {"name": {"type": "string"}}}


@pytest.fixture(scope="module")
async def shared(shared_asking):
    """A toolset on one asking server, for all tests of this module."""
    transport = shared_asking.stdio(TOKEN="secret-token")
    toolset = mcp.McpToolset("ops.asking", transport=transport)
    await toolset.open()
    yield toolset
    await toolset.close()


def form_with(**field: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": field}}


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "object", "properties": {f"f{n}": {"type": "string"} for n in range(51)}}, "50 fields"),
        (form_with(type="object", properties={}), "`x` is not a text, a number"),
        (form_with(type="array", items={"type": "integer"}), "`x` is a list of values"),
        (form_with(type="array"), "`x` is a list of values"),
        (form_with(type=["string", "null"]), "`x` is not a text, a number"),
        (form_with(), "`x` is not a text, a number"),
        ({"type": "object", "properties": {"x": True}}, "`x` has no type"),
        ({"type": "object", "properties": {"x\x1b[31m": {"type": "string"}}}, "a name that cannot be shown"),
        ({"type": "object", "properties": {"x" * 101: {"type": "string"}}}, "a name that cannot be shown"),
        (form_with(type="string", enum=["a", "\x1b[31m"]), "`x` is not a choice"),
        (form_with(type="string", enum=[]), "`x` is not a choice"),
        (form_with(type="string", enum=[str(n) for n in range(101)]), "`x` is not a choice"),
        (form_with(type="string", oneOf=[{"type": "integer"}]), "`x` is not a choice"),
        ({**form_with(type="string"), "required": ["y"]}, "`required` must name"),
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
    """The call gets an error that says what is wrong, without the state; nobody is asked."""
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
    """Too many requests, or too long a key or state, are `malformed_response`."""
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
async def test_a_field_keeps_what_a_person_needs(field, shown, shared, run):
    """A field keeps its type, choices, bounds and cleaned texts; patterns and keywords of other types are dropped."""
    result = await run(shared, "ask", rounds=[{"q": {"form": form_with(**field)}}], state="s")
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
def test_any_schema_is_a_form_or_refused(schema):
    """Any schema gives a form of simple fields, which is valid JSON, or a ValueError."""
    try:
        form = sanitize_form(schema, lambda text, limit: text[:limit])
    except ValueError:
        return
    assert form == json.loads(json.dumps(form, allow_nan=False))
    assert form["properties"].keys() == schema["properties"].keys()
    for field in form["properties"].values():
        assert field["type"] in ("string", "integer", "number", "boolean", "array")
        assert all(each.isprintable() for each in field.get("enum", []) if isinstance(each, str))


@pytest.mark.parametrize(
    "field",
    [
        {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "default": ["a", "c"]},
        {"type": "array", "items": {"anyOf": [{"const": "a"}]}, "default": ["A"]},
        {"type": "array", "items": {"type": "string"}, "minItems": 2, "default": ["a"]},
        {"type": "array", "items": {"type": "string"}, "maxItems": 1, "default": ["a", "b"]},
        {"type": "string", "maxLength": 3, "default": "long"},
        {"type": "string", "minLength": 3, "default": "x"},
        {"type": "integer", "minimum": 5, "default": 4},
        {"type": "number", "maximum": 5, "default": 5.5},
        {"type": "integer", "enum": [1, 2], "default": 3},
    ],
    ids=["an item", "a titled item", "few", "many", "long", "short", "low", "high", "choice"],
)
def test_a_default_that_would_be_refused_as_an_answer_is_left_out(field):
    """A default outside of a field's choices or bounds, also an item of several, does not reach a person."""
    assert "default" not in sanitize_form(form_with(**field), lambda text, _: text)["properties"]["x"]


async def test_a_message_is_shown_clean(shared, run):
    """A message has no escape characters and no secrets, and an empty message is replaced."""
    asked = {
        "a": {"form": NAME, "message": "\x1b[31mYour secret-token?\n\u202eNow"},
        "b": {"form": NAME, "message": "\x07 "},
    }
    result = await run(shared, "ask", rounds=[asked])
    messages = [each.message for each in result.input_required.forms]
    assert messages == ["[31mYour ***?\n Now", "Input for b"]


async def test_a_name_that_holds_a_secret_is_masked(shared, run):
    """The name of a field that cannot be shown, and the key of a form without a message, are shown without secrets."""
    refused = {"type": "object", "properties": {f"{'x' * 95} secret-token": {"type": "string"}}}
    result = await run(shared, "ask", rounds=[{"a": {"form": refused}}])
    assert "a name that cannot be shown" in result.error.message
    assert "secret" not in result.model_dump_json()
    result = await run(shared, "ask", rounds=[{"secret-token": {"form": NAME, "message": " "}}])
    assert result.input_required.forms[0].message == "Input for ***"


async def test_an_answer_that_the_protocol_cannot_express_is_an_error(shared, shared_asking, run, answered):
    """A list of numbers is not sent to the server, and the error does not repeat it."""
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
async def test_a_state_is_never_shown(kind, shared, run, answered):
    """A state that a server repeats in an error is masked, however long it is, and it is not logged."""
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
    """An error about a person's answer is passed on, without a hint that the arguments were wrong."""
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


async def test_a_server_of_an_older_protocol_gets_no_form_capability(opened, rogue, run):
    """An older server would hold the call open until it gets an answer, and a person may take weeks."""
    toolset = await opened(rogue("can"))
    assert (await run(toolset, "good")).result == "{}"
