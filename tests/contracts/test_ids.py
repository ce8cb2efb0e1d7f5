"""Ids of tools, toolsets, runs and calls."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from sojourn.contracts import ToolId
from sojourn.contracts.ids import (
    CALL_ID,
    EVENT_ID,
    RUN_ID,
    TOOL_NAME,
    TOOLSET_ID,
    place_of,
    split_scheduled_id,
)

ADAPTER = TypeAdapter(ToolId)


def test_a_tool_id_names_service_toolset_and_tool() -> None:
    """`<service>.<toolset>.<tool>` is a string with three parts (SR-58, SR-98)."""
    tool_id = ToolId("orchestrator.profiles.upsert")
    assert tool_id == "orchestrator.profiles.upsert"
    assert (tool_id.service, tool_id.toolset, tool_id.tool) == ("orchestrator", "profiles", "upsert")


def test_the_last_part_may_hold_dots_and_slashes() -> None:
    """The tool's part allows dots and slashes, as in names of MCP servers; service and toolset do not."""
    assert ToolId("ops.files.read.v2/raw").tool == "read.v2/raw"


def test_anything_else_is_no_tool_id(subtests: pytest.Subtests) -> None:
    """A text in another format is refused, by the class and by pydantic (SR-83)."""
    rows = ["", "upsert", "ops.upsert", "ops..upsert", ".a.b", "ops.x.", "ops.x.y z", "ops.x.y\n", "1ops.x.y", "ops.x.ü",
     "ops.x.-y", f"ops.x.{'y' * 101}", f"{'o' * 61}.x.y"]  # fmt: skip
    for text in rows:
        with subtests.test(str(text)):
            with pytest.raises(ValueError, match=r"<service>\.<toolset>\.<tool>"):
                ToolId(text)
            with pytest.raises(ValidationError):
                ADAPTER.validate_python(text)


def test_a_tool_id_is_a_plain_string_on_the_wire() -> None:
    """A tool id is written as a JSON string, read back as a ToolId, and has the JSON Schema of a string."""
    tool_id = ADAPTER.validate_json('"a.b.c"')
    assert type(tool_id) is ToolId
    assert ADAPTER.dump_json(tool_id) == b'"a.b.c"'
    assert ADAPTER.json_schema() == {"type": "string"}


def test_a_tool_id_is_copied_as_itself() -> None:
    """A ToolId of a ToolId is the same object; a deep copy and an unpickled id are equal ToolIds with the same parts."""
    tool_id = ToolId("a.b.c")
    assert ToolId(tool_id) is tool_id
    for other in (copy.deepcopy(tool_id), pickle.loads(pickle.dumps(tool_id))):
        assert (other, type(other), other.toolset) == (tool_id, ToolId, "b")


@given(st.from_regex(TOOLSET_ID, fullmatch=True), st.from_regex(TOOL_NAME, fullmatch=True))
def test_a_toolset_and_a_name_make_a_tool_id(toolset: str, name: str) -> None:
    """Every toolset id and tool name, joined by a dot, are a tool id that splits into them."""
    tool_id = ToolId(f"{toolset}.{name}")
    assert (f"{tool_id.service}.{tool_id.toolset}", tool_id.tool) == (toolset, name)


def test_an_id_is_matched_to_its_end(subtests: pytest.Subtests) -> None:
    """A text that begins with an id and goes on with other characters is no id."""
    patterns = [TOOL_NAME, TOOLSET_ID, CALL_ID, RUN_ID]
    suffixs = ["\n", " ", "\x00", "ü"]
    for suffix in suffixs:
        for pattern in patterns:
            with subtests.test(str((pattern, suffix))):
                good = "a.b" if pattern is TOOLSET_ID else "ab"
                assert pattern.match(good)
                assert not pattern.match(good + suffix)


def test_a_clients_run_id_holds_no_slash() -> None:
    """A run id that a client chooses has at most 200 characters and no slash, which only ids of child runs have."""
    assert RUN_ID.match("site-1:2024@x=+.")
    assert not RUN_ID.match("parent/call_1")
    assert not RUN_ID.match("a" * 201)


def test_a_call_id_is_short_and_plain() -> None:
    """A tool_call_id that is kept has 1 to 64 letters, digits, underscores or hyphens."""
    assert CALL_ID.match("call_01-AZ" + "x" * 54)
    for bad in ("", "x" * 65, "a/b", "a.b", "a b"):
        assert not CALL_ID.match(bad)


def test_events_are_ordered_by_the_numbers_in_their_ids():
    """The tenth execution of a run comes after the ninth, and a millionth event after those before; no id comes first."""
    ids = [
        "",
        "0-000001-00000",
        "0-000001-00001",
        "0-999999-00000",
        "0-1000000-00000",
        "9-000001-00000",
        "10-000001-00000",
    ]
    assert sorted(set(ids), key=place_of) == ids
    assert all(EVENT_ID.match(each) for each in ids[1:])


@pytest.mark.parametrize(
    ("workflow_id", "parts"),
    [
        ("acme=daily-2026-03-01T08:00:00Z", ("acme=daily", "2026-03-01T08:00:00Z")),
        ("a-2026-03-01T08:00:00Z-2026-03-02T08:00:00Z", ("a-2026-03-01T08:00:00Z", "2026-03-02T08:00:00Z")),
        ("daily", None),
        ("daily-2026-03-01", None),
        ("daily-2026-03-01T08:00:00Z/step-1", None),
        ("daily-2026-03-01T08:00:00Z\n", None),
    ],
)
def test_the_id_of_what_a_schedule_starts_ends_with_its_time(workflow_id: str, parts: tuple[str, str] | None):
    """The rest is the schedule's id; a child run's id, and one without a time, say no schedule."""
    assert split_scheduled_id(workflow_id) == parts
