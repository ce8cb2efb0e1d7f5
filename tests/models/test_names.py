"""Names of tools for providers."""

import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sojourn.contracts.ids import TOOL_NAME, TOOLSET_ID, ToolId
from sojourn.core.payload.parse import Parsed, ParseFault
from sojourn.core.payload.reading import read_text
from sojourn.models.names import Names, wire_name
from sojourn.models.projection import Keys

LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}\Z")

# Ids of few letters, in which `_`, dots and slashes often meet; and any ids.
TIGHT = st.from_regex(r"[aA][a_-]{0,3}\.[a_][a_-]{0,3}\.[a_][a_./-]{0,4}", fullmatch=True)
ANY = st.tuples(st.from_regex(TOOLSET_ID, fullmatch=True), st.from_regex(TOOL_NAME, fullmatch=True)).map(
    ".".join
)
IDS = TIGHT | ANY
# Names that a model or a client may write: ids, Sojourn's own names, similar names, any text.
WRITTEN = (
    IDS
    | st.sampled_from(
        ["ask_user", "final_result", "", "get weather", "a__b", "a__b__c__d", "\ud800", "?", "1x"]
    )
    | st.from_regex(LEGAL, fullmatch=True)
    | st.text(max_size=80)
)


def test_a_tool_s_name_is_its_id_with_the_dots_replaced(subtests: pytest.Subtests) -> None:
    """A name is the id with `__` for dots, or a readable beginning with a digest where that is ambiguous; neither may change."""
    rows = [
        ("ops.devices.list", "ops__devices__list"),
        ("ops.devices.get_one-2", "ops__devices__get_one-2"),
        ("ops.devices.list_", "ops__devices__list_"),
        ("o-p-s.d_e.l_i", "o-p-s__d_e__l_i"),
        ("ops.mcp.fs/read.file", "ops_mcp_fs_read_file_4bd7947a64"),
        ("ops.dev__ices.list", "ops_dev_ices_list_cc8e01fab2"),
    ]
    for id, name in rows:
        with subtests.test(id=id, name=name):
            assert wire_name(id) == name


@given(IDS)
@example("ops.devices._list")
@example("ops_.devices.list")
@example("ops._devices.list")
@example("ops.devices_.list")
@example("ops.de__vices.list")
@example("ops.devices.li__st")
@example("ops.mcp.a.b/c")
@example(f"{'a' * 60}.{'b' * 60}.{'c' * 100}")
def test_every_provider_accepts_the_name(id: str) -> None:
    """Every provider accepts the name of any id, and the name is never one of Sojourn's own tools."""
    assert LEGAL.match(wire_name(id))
    assert wire_name(id) not in {"ask_user", "final_result"}


@given(st.lists(WRITTEN, unique=True, min_size=2, max_size=8))
@example(["a.b.c", "a__b__c"])
@example(["a._b.c", "a_.b.c", "a.b_.c", "a.b._c", "a_b.c.d"])
@example(["a.b.c/d", wire_name("a.b.c/d")])
def test_two_tools_have_two_names(written: list[str]) -> None:
    """Different tools, and different texts that a model wrote, have different names."""
    names = {wire_name(name) for name in written}
    assert len(names) == len(written)
    assert all(LEGAL.match(name) for name in names)


@given(st.lists(WRITTEN, max_size=8))
def test_a_known_name_leads_to_its_id(written: list[str]) -> None:
    """The id of every tool of a request is found by its name."""
    names = Names(written)
    assert [names.id_of(wire_name(name)) for name in written] == written


@given(IDS)
def test_a_plain_name_leads_to_its_id_even_when_unknown(id: str) -> None:
    """The id of a tool that is not offered is read from its name, unless the name has a digest."""
    name = wire_name(id)
    back = Names([]).id_of(name)
    assert back == (id if "__" in name else name)


@given(st.text(max_size=400))
@example("ask_user")
@example("a__b__c__d")
@example("a___b__c")
@example("x" * 300)
def test_an_unknown_name_is_kept_as_the_model_wrote_it(written: str) -> None:
    """A name of no tool is kept, cut at 200 characters, since the run answers the call."""
    back = Names(["ops.devices.list"]).id_of(written)
    assert back == written[:200] or (ToolId(back) and wire_name(back) == written)


@pytest.mark.parametrize("name", ["ask_user", "final_result", "get_weather"])
def test_a_name_that_is_no_id_is_kept(name: str) -> None:
    """Sojourn's own tools, and those that a model invented, keep their names in both directions."""
    assert wire_name(name) == name
    assert Names([]).id_of(name) == name


FOUND = Names(
    ["far.server.wipe", "far.server.near"], {"far.server.wipe": Keys(["$top"])}, ["far.server.wipe"]
)
WIPE = "far__server__wipe"


def test_a_call_of_call_tool_loses_no_argument(subtests: pytest.Subtests) -> None:
    """What stands beside `arguments` is an argument too; two values for one name are refused, and none is chosen."""
    rows = [
        ({"name": WIPE, "arguments": {"a": 1}, "dry_run": True}, {"a": 1, "dry_run": True}),
        ({"name": WIPE, "arguments": '{"a": 1}', "dry_run": True}, {"a": 1, "dry_run": True}),
        ({"name": WIPE, "arguments": {"a": 1}, "a": 1}, {"a": 1}),
        ({"name": WIPE, "arguments": {"a": 1}, "a": True}, "duplicate_key"),
        ({"name": WIPE, "arguments": "{", "a": 1}, "truncated"),
        ({"name": WIPE, "a": 1}, {"a": 1}),
        ({"name": WIPE, "arguments": None, "a": 1}, {"a": 1}),
        ({"name": WIPE, "arguments": [1], "a": 1}, {"arguments": [1], "a": 1}),
        ({"name": WIPE, "arguments": "-l -a", "a": "ls"}, {"arguments": "-l -a", "a": "ls"}),
        ({"name": WIPE, "arguments": ""}, {}),
        ({"tool": WIPE, "arguments": {"a": 1}}, {"a": 1}),
        ({"name": "call_tool", "arguments": {"name": WIPE, "arguments": {"a": 1}}}, {"a": 1}),
        ({"name": WIPE, "arguments": {"top": 1, "$top": 2}}, "duplicate_key"),
        ({"name": WIPE, "arguments": {"top": 1, "$top": 1}}, {"$top": 1}),
    ]
    for sent, received in rows:
        with subtests.test(sent=sent, received=received):
            for form in (sent, json.dumps(sent)):
                id, arguments = FOUND.to_tool("call_tool", form)
                assert id == "far.server.wipe"
                read = read_text(arguments) if isinstance(arguments, str) else Parsed(arguments)
                assert (read.kind if isinstance(read, ParseFault) else read.payload) == received


def test_a_call_of_call_tool_without_a_tool_stays(subtests: pytest.Subtests) -> None:
    """A call that names no tool, or has no arguments, is one of `call_tool`, which the model is asked to correct."""
    rows = [
        {"tool": "nobody", "arguments": {}},
        {"arguments": {"name": WIPE}},
        {"name": 5},
        {"name": WIPE},
        "{",
    ]
    for sent in rows:
        with subtests.test(sent=sent):
            assert FOUND.to_tool("call_tool", sent) == ("call_tool", sent)


def test_no_digit_of_a_number_changes_with_a_name() -> None:
    """A number keeps its digits where a field has another name for the model, and in a call of `call_tool`, there and back."""
    written = '{"top": 1234567890123456.78, "a": [9007199254740993.0]}'
    own = '{"$top": 1234567890123456.78, "a": [9007199254740993]}'
    assert FOUND.to_tool(WIPE, written) == ("far.server.wipe", own)
    wrapped = f'{{"name": "{WIPE}", "arguments": {written}}}'
    assert FOUND.to_tool("call_tool", wrapped) == ("far.server.wipe", own)
    back = wrapped.replace("93.0", "93")
    assert FOUND.to_model("far.server.wipe", own) == ("call_tool", back)
