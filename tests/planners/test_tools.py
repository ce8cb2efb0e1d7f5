from typing import Any

import pytest

from planners import facts
from sojourn.flows import ToolReference
from worker import app

pytestmark = pytest.mark.usefixtures("mcp_server")

REFERENCES: list[ToolReference[Any]] = [
    each for each in vars(facts).values() if isinstance(each, ToolReference)
]


def fields(schema: dict[str, Any], root: dict[str, Any]) -> set[str]:
    """Return the fields of a schema, at any depth."""
    if "$ref" in schema:
        return fields(root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root)
    found = set(schema.get("properties", {}))
    for inner in [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]:
        found |= fields(inner, root)
    return found


@pytest.mark.parametrize("tool", REFERENCES, ids=lambda tool: tool.id)
def test_facts_are_in_the_results(tool: ToolReference[Any]):
    """Every field that the planners read is in the result schema of its tool."""
    schemas = app.tool_schema(tool.id)
    assert schemas
    read = tool.result.model_json_schema()
    assert fields(read, read) <= fields(schemas["result"], schemas["result"])


def test_every_tool_is_described():
    """Every tool of the deployment has a description, an example unless it is of an MCP server, and described fields."""
    for entry in app.catalog():
        spec = app.tool_spec(entry["id"])
        assert spec
        assert spec.description
        assert spec.payload.example or spec.kind == "mcp"
        assert set(spec.payload.field_descriptions) == set(spec.payload.json_schema["properties"])
