"""Names of tools as providers take them."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sojourn.contracts.ids import TOOL_NAME, TOOLSET_ID, ToolId
from sojourn.models.names import Names, wire_name

LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}\Z")

# Ids of few letters, so that joints with `_`, dots and slashes meet often; and any ids at all.
TIGHT = st.from_regex(r"[aA][a_-]{0,3}\.[a_][a_-]{0,3}\.[a_][a_./-]{0,4}", fullmatch=True)
ANY = st.tuples(st.from_regex(TOOLSET_ID, fullmatch=True), st.from_regex(TOOL_NAME, fullmatch=True)).map(
    ".".join
)
IDS = TIGHT | ANY
# What a model or a client may write: ids, names of ours, names that look like them, anything.
WRITTEN = (
    IDS
    | st.sampled_from(
        ["ask_user", "final_result", "", "get weather", "a__b", "a__b__c__d", "\ud800", "?", "1x"]
    )
    | st.from_regex(LEGAL, fullmatch=True)
    | st.text(max_size=80)
)


@pytest.mark.parametrize(
    ("id", "name"),
    [
        ("ops.devices.list", "ops__devices__list"),
        ("ops.devices.get_one-2", "ops__devices__get_one-2"),
        ("ops.devices.list_", "ops__devices__list_"),
        ("o-p-s.d_e.l_i", "o-p-s__d_e__l_i"),
        ("ops.mcp.fs/read.file", "ops_mcp_fs_read_file_4bd7947a64"),
        ("ops.dev__ices.list", "ops_dev_ices_list_cc8e01fab2"),
    ],
)
def test_a_tool_is_called_by_its_id_with_the_dots_replaced(id: str, name: str) -> None:
    """The plain rule, and the readable beginning with a digest where the rule cannot be undone; both stay for good."""
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
def test_every_provider_takes_the_name(id: str) -> None:
    """A name is legal at every provider, whatever the id holds, and never one of our own."""
    assert LEGAL.match(wire_name(id))
    assert wire_name(id) not in {"ask_user", "final_result"}


@given(st.lists(WRITTEN, unique=True, min_size=2, max_size=8))
@example(["a.b.c", "a__b__c"])
@example(["a._b.c", "a_.b.c", "a.b_.c", "a.b._c", "a_b.c.d"])
@example(["a.b.c/d", wire_name("a.b.c/d")])
def test_two_tools_have_two_names(written: list[str]) -> None:
    """No name stands for two tools, nor for a tool and something that a model wrote."""
    names = {wire_name(name) for name in written}
    assert len(names) == len(written)
    assert all(LEGAL.match(name) for name in names)


@given(st.lists(WRITTEN, max_size=8))
def test_a_known_name_leads_back(written: list[str]) -> None:
    """What is offered or in the transcript is found again by its name."""
    names = Names(written)
    assert [names.id_of(wire_name(name)) for name in written] == written


@given(IDS)
def test_a_plain_name_leads_back_even_when_it_is_not_known(id: str) -> None:
    """A tool that is not offered is told to the run by its id, where the name says it."""
    name = wire_name(id)
    back = Names([]).id_of(name)
    assert back == (id if "__" in name else name)


@given(st.text(max_size=400))
@example("ask_user")
@example("a__b__c__d")
@example("a___b__c")
@example("x" * 300)
def test_an_unknown_name_is_kept_as_the_model_wrote_it(written: str) -> None:
    """A name of no tool stays what it is, cut at 200 characters: the run answers it."""
    back = Names(["ops.devices.list"]).id_of(written)
    assert back == written[:200] or (ToolId(back) and wire_name(back) == written)


@pytest.mark.parametrize("name", ["ask_user", "final_result", "get_weather"])
def test_a_name_that_is_no_id_stays(name: str) -> None:
    """Our own tools, and those that a model made up, go back to it under the name it used."""
    assert wire_name(name) == name
    assert Names([]).id_of(name) == name
