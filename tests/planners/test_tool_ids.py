from typing import Any

import pytest

from planners import facts, tool_ids
from worker import app

pytestmark = pytest.mark.usefixtures("mcp_server")

READ_AS = {
    tool_ids.ASK_ADVICE: facts.Advice,
    tool_ids.GET_DEVICE: facts.DeviceRecord,
    tool_ids.GET_RUNBOOK: facts.Runbook,
    tool_ids.GET_SITE: facts.Site,
    tool_ids.GET_TIME_SERIES: facts.Series,
    tool_ids.LIST_DEVICES: facts.DeviceList,
    tool_ids.LIST_SITES: facts.SiteList,
    tool_ids.LIST_WORK_ORDERS: facts.WorkOrderList,
    tool_ids.OPEN_WORK_ORDER: facts.OpenedWorkOrder,
    tool_ids.SCAN_SITE: facts.Scan,
    tool_ids.SEARCH_RUNBOOKS: facts.RunbookList,
    tool_ids.UPSERT_PROFILE: facts.Profile,
}


def fields(schema: dict[str, Any], root: dict[str, Any]) -> set[str]:
    """Return the fields of a schema, at any depth."""
    if "$ref" in schema:
        return fields(root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root)
    found = set(schema.get("properties", {}))
    for inner in [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]:
        found |= fields(inner, root)
    return found


def test_every_tool_is_known():
    """Each tool id of the planners has one type for its result."""
    assert set(READ_AS) == {getattr(tool_ids, name) for name in tool_ids.__all__}


@pytest.mark.parametrize("tool", READ_AS)
def test_facts_are_in_the_results(tool: str):
    """Every field that the planners read is in the result schema of its tool."""
    schemas = app.tool_schema(tool)
    assert schemas
    read = READ_AS[tool].model_json_schema()
    assert fields(read, read) <= fields(schemas["result"], schemas["result"])


def test_every_tool_is_described():
    """Every tool of the deployment has a description, an example unless it is of an MCP server, and described fields."""
    for entry in app.catalog():
        spec = app.tool_spec(entry["id"])
        assert spec
        assert spec.description
        assert spec.payload.example or spec.kind == "mcp"
        assert set(spec.payload.field_descriptions) == set(spec.payload.json_schema["properties"])
