"""The rules for a run's opening, which the client and the run check."""

from datetime import timedelta

import pytest

from sojourn import Message, RunPolicyOverride
from sojourn.contracts import RunInput, RunLink
from sojourn.contracts.message import TextPart
from sojourn.core.run.run_input import (
    MAX_OPENING_BYTES,
    add_labels,
    labels_fault,
    messages_fault,
    opening_fault,
    read_run_input,
    turn_start_of,
)
from sojourn.values.timers import LONGEST


def test_a_run_starts_with_messages_of_known_roles() -> None:
    """An opening has at least one message, and each message has a known role and at least one part."""
    assert messages_fault([Message.system("x"), Message.user("y"), Message.assistant("z")]) is None
    assert messages_fault([]) == "a run starts with at least one message"
    robot = Message(role="robot" * 50, parts=[TextPart(type="text", text="x")])
    assert "system, user, assistant, tool" in str(messages_fault([robot]))
    assert len(str(messages_fault([robot]))) < 120
    assert messages_fault([Message(role="user", parts=[])]) == "a message has at least one part"


def test_a_run_begins_after_the_last_answer_of_an_earlier_talk(subtests: pytest.Subtests) -> None:
    """At the first message of a person that no message of the opening answers, and at 0 where there is no earlier talk."""
    rows = [
        ("u", 0),
        ("su", 0),
        ("uu", 0),
        ("uau", 2),
        ("suauu", 3),
        ("uaau", 3),
        ("uasu", 3),
        ("ua", 0),
        ("uat", 0),
        ("uatu", 3),
    ]
    for roles, start in rows:
        with subtests.test(str((roles, start))):
            kinds = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}
            messages = [Message(role=kinds[each], parts=[TextPart(type="text", text="x")]) for each in roles]
            assert turn_start_of(messages) == start


def test_the_opening_is_at_most_a_megabyte() -> None:
    """The first messages together have at most 1,000,000 bytes: they are one payload, and the server refuses 2 MB."""
    half = Message.user("x" * (MAX_OPENING_BYTES // 2 - 100))
    assert messages_fault([half, half]) is None
    assert "1,000,000" in str(messages_fault([half, half, half]))


def test_labels_are_few_and_short() -> None:
    """A run has at most 20 labels, with names and values of at most 256 characters."""
    assert labels_fault({}) is None
    assert labels_fault({str(n): "x" * 256 for n in range(20)}) is None
    assert labels_fault({str(n): "x" for n in range(21)}) == "a run has at most 20 labels"
    for labels in ({"x" * 257: ""}, {"": "x" * 257}):
        assert "256 characters" in str(labels_fault(labels))


def test_an_input_is_a_run_input_or_its_json() -> None:
    """`read_run_input` returns a RunInput unchanged, and reads its JSON without unknown fields."""
    run = RunInput(agent_id="a.b", messages=[Message.user("hi")], policy=RunPolicyOverride(max_depth=1))
    assert read_run_input(run) is run
    assert read_run_input({**run.model_dump(mode="json"), "later": 1}) == run


def test_an_invalid_input_is_described_with_the_place(subtests: pytest.Subtests) -> None:
    """Any Temporal client may start the workflow, so an invalid input gives a text with the faulty field."""
    rows = [
        (None, "input:"),
        ("hello", "input:"),
        ({}, "agent_id:"),
        ({"agent_id": "a.b", "messages": "hi"}, "messages:"),
        ({"agent_id": "a.b", "messages": [{"role": "user", "parts": [{}]}]}, "messages.0.parts.0"),
        ({"agent_id": "a.b", "messages": [], "policy": {"max_calls": 3}}, "policy.max_calls:"),
    ]
    for value, place in rows:
        with subtests.test(value=value, place=place):
            said = read_run_input(value)
            assert isinstance(said, str)
            assert said.startswith("AgentRun takes one RunInput; ")
            assert place in said


def test_an_input_keeps_the_rules_of_an_opening() -> None:
    """`read_run_input` checks the messages and the labels by the rules that the client applies."""
    assert read_run_input({"agent_id": "a.b", "messages": []}) == "a run starts with at least one message"
    labels = {"agent_id": "a.b", "messages": [Message.user("x")], "labels": {"x" * 300: ""}}
    assert "256" in str(read_run_input(labels))


LINK = RunLink(run_id="p/c", agent_id="a.b", parent_run_id="p", parent_tool_call_id="c")


def test_ids_callers_schema_and_policy_of_an_opening_are_bounded(subtests: pytest.Subtests) -> None:
    """Parts of the opening that go on with every call have limits, which hold for every client."""
    rows = [
        {"agent_id": "nobody"},
        {"agent_id": "a." + "b" * 100_000},
        {"session_id": "s" * 201},
        {"session_id": "it's"},
        {"turn_id": "t" * 65},
        {"turn_id": "t" * 301, "parent": LINK},
        {"parent": LINK.model_copy(update={"parent_tool_call_id": "c" * 900_000})},
        {"callers": ["x" * 301]},
        {"callers": ["x"] * 101},
        {"answer": {"description": "x" * 500_000}},
        {"policy": RunPolicyOverride(time_budget=timedelta.max)},
        {"policy": RunPolicyOverride(allowed_tools=["x" * 70_000])},
    ]
    for given in rows:
        with subtests.test(str(given)):
            fault = opening_fault(RunInput(**{"agent_id": "a.b", "messages": [Message.user("hi")], **given}))
            assert fault
            assert len(fault) < 200


def test_the_largest_openings_of_sojourn_are_allowed() -> None:
    """The largest opening of a client, and that of a deep child run, have no fault."""
    whole = RunPolicyOverride(time_budget=LONGEST, allowed_tools=["a.b.c"] * 1_000)
    longest = RunInput(agent_id="a.b", messages=[], session_id="s" * 200, turn_id="t" * 64, policy=whole)
    assert opening_fault(longest) is None
    child = {"parent": LINK, "turn_id": "t" * 64 + ".12.7", "callers": ["a." + "b" * 60] * 100}
    assert opening_fault(longest.model_copy(update=child)) is None


def test_labels_of_a_policy_are_added_up_to_the_limit() -> None:
    """A policy's labels are merged into a run's up to 20 in all, so that its child runs can start."""
    many = {str(n): "x" for n in range(20)}
    assert add_labels({"a": "1"}, {"a": "2", "b": "3"}) == {"a": "2", "b": "3"}
    assert labels_fault(add_labels(many, {"more": "y", "3": "z"})) is None
    assert add_labels(many, {"more": "y", "3": "z"}) == {**many, "3": "z"}
