"""Ids: what names a tool, an agent, a run, a call."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from sojourn import ToolId
from sojourn.contracts.ids import CALL_ID, RUN_ID, TOOL_NAME, TOOLSET_ID

ADAPTER = TypeAdapter(ToolId)


def test_a_tool_id_names_service_toolset_and_tool() -> None:
    """`<service>.<toolset>.<tool>` is a string with three parts (SR-58, SR-98)."""
    tool_id = ToolId("orchestrator.profiles.upsert")
    assert tool_id == "orchestrator.profiles.upsert"
    assert (tool_id.service, tool_id.toolset, tool_id.tool) == ("orchestrator", "profiles", "upsert")


def test_the_last_part_may_hold_dots_and_slashes() -> None:
    """Tools of MCP servers are called `a.b` or `a/b`; service and toolset never are."""
    assert ToolId("ops.files.read.v2/raw").tool == "read.v2/raw"


@pytest.mark.parametrize(
    "text",
    ["", "upsert", "ops.upsert", "ops..upsert", ".a.b", "ops.x.", "ops.x.y z", "ops.x.y\n", "1ops.x.y", "ops.x.ü",
     "ops.x.-y", f"ops.x.{'y' * 101}", f"{'o' * 61}.x.y"],
)  # fmt: skip
def test_anything_else_is_no_tool_id(text: str) -> None:
    """A text of another form is refused, by the class and by pydantic (SR-83)."""
    with pytest.raises(ValueError, match=r"<service>\.<toolset>\.<tool>"):
        ToolId(text)
    with pytest.raises(ValidationError):
        ADAPTER.validate_python(text)


def test_a_tool_id_is_a_plain_string_on_the_wire() -> None:
    """It is written as its text, read back as a ToolId, and described as a string."""
    tool_id = ADAPTER.validate_json('"a.b.c"')
    assert type(tool_id) is ToolId
    assert ADAPTER.dump_json(tool_id) == b'"a.b.c"'
    assert ADAPTER.json_schema() == {"type": "string"}


def test_a_tool_id_is_copied_as_itself() -> None:
    """The same id again, a copy and a pickle are the id with its parts."""
    tool_id = ToolId("a.b.c")
    assert ToolId(tool_id) is tool_id
    for other in (copy.deepcopy(tool_id), pickle.loads(pickle.dumps(tool_id))):
        assert (other, type(other), other.toolset) == (tool_id, ToolId, "b")


@given(st.from_regex(TOOLSET_ID, fullmatch=True), st.from_regex(TOOL_NAME, fullmatch=True))
def test_a_toolset_and_a_name_make_a_tool_id(toolset: str, name: str) -> None:
    """Whatever is a toolset's id and a tool's name is a tool's id together, and splits into them."""
    tool_id = ToolId(f"{toolset}.{name}")
    assert (f"{tool_id.service}.{tool_id.toolset}", tool_id.tool) == (toolset, name)


@pytest.mark.parametrize("pattern", [TOOL_NAME, TOOLSET_ID, CALL_ID, RUN_ID])
@pytest.mark.parametrize("suffix", ["\n", " ", "\x00", "ü"])
def test_no_id_ends_in_something_else(pattern, suffix: str) -> None:
    """An id is judged whole: what follows it is not overlooked."""
    good = "a.b" if pattern is TOOLSET_ID else "ab"
    assert pattern.match(good)
    assert not pattern.match(good + suffix)


def test_a_clients_run_id_holds_no_slash() -> None:
    """A slash separates a child's id from its parent's, so that no client can name a run like a child."""
    assert RUN_ID.match("site-1:2024@x=+.")
    assert not RUN_ID.match("parent/call_1")
    assert not RUN_ID.match("a" * 201)


def test_a_call_id_is_short_and_plain() -> None:
    """A tool_call_id that is kept fits an activity id and a child's run id."""
    assert CALL_ID.match("call_01-AZ" + "x" * 54)
    for bad in ("", "x" * 65, "a/b", "a.b", "a b"):
        assert not CALL_ID.match(bad)
