"""What an approval covers of a tool: what it is, takes and changes, and of its words only those of a server."""

import pytest

from sojourn.contracts.tool_spec import Annotations, ToolSpec, TypeSpec
from sojourn.core.run.approval import list_changes, shown_tool

SCHEMA = {
    "type": "object",
    "title": "Args",
    "description": "Which device.",
    "properties": {
        "site": {"type": "string", "description": "The site.", "title": "Site"},
        "title": {"type": "string", "default": "none"},
    },
    "required": ["site", "title"],
}


def tool(schema: dict | None = None, **fields) -> ToolSpec:
    declared = {"id": "ops.devices.reset", "title": "Reset", "description": "Resets."} | fields
    payload = TypeSpec(name="Args", json_schema=schema or SCHEMA)
    return ToolSpec(payload=payload, result=TypeSpec(name="R", json_schema={}), **declared)


def fields(**properties) -> ToolSpec:
    return tool({**SCHEMA, "properties": {**SCHEMA["properties"], **properties}})


@pytest.mark.parametrize(
    "now",
    [
        tool(title="Restart", description="Restarts.", tags=["x"], confirmation="Really?", task_queue="gpu"),
        tool({**SCHEMA, "title": "Other", "description": "Other.", "examples": [{}], "$comment": "x"}),
        tool({**SCHEMA, "required": ["title", "site"]}),
        fields(site={"title": "Place", "type": "string"}),
    ],
    ids=["words of the tool", "words of the schema", "order", "words of a field"],
)
def test_other_words_are_no_change(now: ToolSpec) -> None:
    """Wording, examples and the order of names do not count."""
    assert list_changes(shown_tool(tool()), "any digest", now) == []


def test_each_change_is_told() -> None:
    """What the tool is, takes or changes counts; the text names it, at a bounded length."""
    rows = [
        (tool(kind="mcp"), ["kind: service → mcp"]),
        (tool(agent_id="ops.agent"), ["agent: None → ops.agent"]),
        (
            tool(annotations=Annotations(destructive=True, read_only=False)),
            ["read_only: not declared → no", "destructive: not declared → yes"],
        ),
        (fields(site={"type": "integer"}), ["arguments: site changed"]),
        (fields(title={"type": "string", "default": "all"}), ["arguments: title changed"]),
        (fields(title={"enum": [{"title": "x"}]}), ["arguments: title changed"]),
        (fields(description={"type": "string"}), ["arguments: description added"]),
        (tool({**SCHEMA, "required": ["site"]}), ["arguments: changed"]),
        (tool({"type": "object"}), ["arguments: changed"]),
        (
            fields(**{f"{name}{'x' * 70}": {} for name in "abcdefg"}),
            ["arguments: " + ", ".join(f"{name}{'x' * 58}…" for name in "abcde") + " and 2 more added"],
        ),
        (fields(**{str(number): {} for number in range(60)}), ["arguments: changed"]),
    ]
    assert [
        (now, actual)
        for now, found in rows
        if (actual := list_changes(shown_tool(tool()), None, now)) != found
    ] == []


def test_the_words_of_a_server_are_part_of_what_is_shown() -> None:
    """A server that turns `Pay to` into `Pay from` voids an approval; the words of an own tool do not, nor those that were not recorded."""

    def served(description: str = "Pay to", about: str = "", kind: str = "mcp") -> ToolSpec:
        spec = tool(description=description)
        schema = {
            **spec.payload.json_schema,
            "properties": {"amount": {"type": "integer", "description": about}},
        }
        payload = spec.payload.model_copy(update={"json_schema": schema})
        return spec.model_copy(update={"kind": kind, "payload": payload})

    words = ["its title, its description, or those of its arguments"]
    assert list_changes(shown_tool(served()), None, served()) == []
    assert list_changes(shown_tool(served()), None, served("Pay FROM")) == words
    assert list_changes(shown_tool(served()), None, served(about="in cents")) == words
    assert list_changes(shown_tool(served(kind="service")), None, served("Pay FROM", kind="service")) == []
    earlier = shown_tool(served()).model_copy(update={"wording_digest": ""})
    assert list_changes(earlier, None, served("Pay FROM")) == []
