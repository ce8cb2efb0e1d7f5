"""Whatever schemas an MCP server declares and whatever a model sends: every call is answered, no workflow task fails."""

import json
import os
import sys
import uuid
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sojourn import Agent, App, Client, PlanResult, PlanResumeInput, ToolRequest, Worker, mcp
from sojourn.core.schema.validate import Validator
from sojourn.testing import ScriptedPlanner

SERVER = Path(__file__).parent.parent / "mcp" / "order_server.py"
CASES = int(os.environ.get("SOJOURN_CASES", "3"))
"""Servers with a dozen schemas or two; a campaign takes thirty."""

names = st.sampled_from(["a", "b", "site_id", "Größe", "x/y", "limit", "$ref", ""])
words = st.sampled_from(["", "red", "2024-01-01", "s-7", "7", "true", "é", "\u0000", "x" * 300])
numbers = st.one_of(st.integers(-5, 5), st.floats(-5, 5), st.just(10**30), st.just(1e308))

scalars: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.builds(lambda low, n: {"type": "string", "minLength": low, "maxLength": low + n}, st.integers(0, 3), st.integers(0, 9)),
    st.builds(lambda p: {"type": "string", "pattern": p}, st.sampled_from(["^a+$", r"^\d{2,}$", "(a|aa)+$", "(?=x)", "["])),
    st.builds(lambda f: {"type": "string", "format": f}, st.sampled_from(["date", "email", "uuid", "regex", "nonsense"])),
    st.builds(lambda low: {"type": "integer", "minimum": low, "maximum": low + 3}, st.integers(-3, 3)),
    st.just({"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.1}),
    st.builds(lambda v: {"enum": v}, st.lists(st.one_of(words, numbers, st.none()), min_size=1, max_size=3)),
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"type": ["string", "null"]}, {"const": "red"}, {"$ref": "#/$defs/Node"}, {"not": {"type": "string"}}]),
)  # fmt: skip


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    def made(fields: dict[str, Any], required: list[str], *, more: Any) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": fields,
            "required": sorted({name for name in required if name in fields or more}),
            "additionalProperties": more,
        }

    return st.builds(
        made, st.dictionaries(names, inner, max_size=4), st.lists(names, max_size=3), more=st.booleans()
    )


schemas = st.recursive(
    scalars,
    lambda inner: st.one_of(
        objects(inner),
        st.builds(lambda item, n: {"type": "array", "items": item, "maxItems": n}, inner, st.integers(0, 3)),
        st.builds(lambda parts: {"anyOf": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda parts: {"oneOf": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda one, two: {"allOf": [one, two]}, inner, inner),
    ),
    max_leaves=8,
)
NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "n": {"type": "integer"}}}
payload_schemas = objects(schemas).map(lambda schema: {**schema, "$defs": {"Node": NODE}})

values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, words, st.just(float("nan")), st.just(float("inf")), st.just("\ud800")),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=4)),
    max_leaves=12,
)  # fmt: skip
payloads = st.dictionaries(names, values, max_size=5)
raws = st.one_of(
    payloads.map(json.dumps),
    payloads.map(lambda value: json.dumps(value)[:-3]),
    st.text(max_size=40),
    st.sampled_from(
        [
            '{"a": 1, "a": 2}',
            '{"a": NaN}',
            '{"a": "\ud800"}',
            '{"a": "\\ud800"}',
            '{"a": ' * 5_000 + "1" + "}" * 5_000,
            '{"a": ' + "9" * 10_000 + "}",
            '{"a": 1e999}',
            json.dumps({"a": "x" * 10_000_000}),
            json.dumps({"a": ["y"] * 100_000}),
            "{" * 100_000,
        ]
    ),
)


@settings(
    max_examples=CASES,
    deadline=None,
    derandomize=True,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)
@given(data=st.data())
async def test_every_call_is_answered(data, temporal_address, traces, tmp_path):
    """Random schemas at an MCP server, random arguments from a planner, in real runs (SR-130, SR-137, SR-144)."""
    declared = {
        f"t{n}": schema
        for n, schema in enumerate(data.draw(st.lists(payload_schemas, min_size=12, max_size=24)))
    }
    which = st.sampled_from(sorted(declared))
    requests = st.one_of(
        st.builds(
            lambda name, payload: ToolRequest(name=f"any.schema.{name}", payload=payload), which, payloads
        ),
        st.builds(lambda name, raw: ToolRequest(name=f"any.schema.{name}", raw=raw), which, raws),
    )
    steps = [data.draw(st.lists(requests, min_size=10, max_size=40)) for _ in range(3)]
    folder = tmp_path / uuid.uuid4().hex
    folder.mkdir()
    (folder / "schemas.json").write_text(json.dumps(declared))
    (folder / "calls.jsonl").touch()
    toolset = mcp.McpToolset(
        "any.schema",
        transport=mcp.Stdio(
            sys.executable, str(SERVER), str(folder / "schemas.json"), str(folder / "calls.jsonl")
        ),
    )
    planner = ScriptedPlanner([*(PlanResult.calls(*calls) for calls in steps), PlanResult.final("done")])
    app = App(agents=[Agent("test.agent", planner=planner, uses=[toolset])])
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    async with Worker(app, client):
        run = await client.start("test.agent", "go")
        out = await run.result()
        assert out.text == "done"
        await traces(run).check()
        shown = {spec.id: spec.payload.json_schema for spec in planner.turns[0].tools}
    resumed = [turn for turn in planner.turns if isinstance(turn, PlanResumeInput)]
    assert [len(turn.tool_results) for turn in resumed] == [len(calls) for calls in steps]
    for result in [result for turn in resumed for result in turn.tool_results]:
        example = result.retry_hint.example_input if result.retry_hint else None
        if example is not None:
            assert Validator(shown[result.name]).issues(example) == []
        assert result.error or result.result is not None
