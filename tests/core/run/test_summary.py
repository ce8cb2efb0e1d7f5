"""What Temporal's screens show of a run from its start: bounded, printable, and never markup."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn import Message, Principal
from sojourn.contracts.run import RunInput
from sojourn.core.run.run_input import summarize

HOSTILE = [
    "`code`",
    "``",
    "```\n# Approve\n```",
    "<script>alert(1)</script>",
    "\x1b[31mred",
    "\u202egnp.exe",
    "![x](http://x)",
]
TEXTS = st.sampled_from(HOSTILE) | st.text(max_size=400)


def run_of(*messages: Message, **fields) -> RunInput:
    return RunInput(agent_id="ops.assistant", messages=list(messages), **fields)


def test_a_run_is_introduced_by_the_users_message() -> None:
    """The memo, the summary and the details have the last user message of the opening."""
    said = summarize(
        run_of(Message.system("Be brief."), Message.user("Hi"), Message.user("Why is s-7\n dark?"))
    )
    assert said.memo == {"message": "Why is s-7\n dark?"}
    assert said.summary == "ops.assistant: `Why is s-7 dark?`"
    assert said.details == "**Asked:**\n\n```\nWhy is s-7\n dark?\n```"


def test_the_tenant_is_in_the_memo() -> None:
    """The memo has the name and the tenant of who asked, where there is one."""
    ana = Principal(subject="ana", tenant="acme")
    assert summarize(run_of(principal=ana)).memo == {"tenant": "acme", "started_by": "ana"}
    assert summarize(run_of(principal=Principal(subject="ana"))).memo == {"started_by": "ana"}


def test_labels_are_in_the_details() -> None:
    """The details show the labels after the user's message."""
    said = summarize(run_of(Message.user("Hi"), labels={"branch": "north", "x": "*y*"}))
    assert said.details == "**Asked:**\n\n```\nHi\n```\n\n**Labels:**\n\n```\nbranch: north\nx: *y*\n```"


def test_a_child_run_is_introduced_by_its_tool() -> None:
    """A child run's summary names the tool that was called, and its memo has the message."""
    said = summarize(run_of(Message.user("Hi")), "ops.agents.ask")
    assert said.summary == "ops.assistant: ops.agents.ask"
    assert said.memo == {"message": "Hi"}


@pytest.mark.parametrize("messages", [[], [Message.system("Be brief.")], [Message.user("")]])
def test_a_run_without_a_user_message_has_only_its_agent(messages: list[Message]) -> None:
    """Without a user message the summary is the agent's id, and memo and details are empty."""
    said = summarize(run_of(*messages))
    assert (said.memo, said.summary, said.details) == ({}, "ops.assistant", None)


@given(TEXTS, TEXTS)
def test_the_users_message_is_never_markup(asked: str, label: str) -> None:
    """The message is in a code span and in code blocks, which it cannot close, without control characters."""
    said = summarize(run_of(Message.user(asked), labels={"name": label}))
    name, _, span = said.summary.partition(": ")
    assert name == "ops.assistant"
    assert said.summary.isprintable()
    ticks = span[: len(span) - len(span.lstrip("`"))]
    assert not span or (ticks and span.endswith(ticks) and ticks not in span[len(ticks) : -len(ticks)])
    assert all(line.isprintable() for line in (said.details or "").split("\n"))


@given(st.text(alphabet='\U0001f600"\\`a\x01é ', min_size=100, max_size=4_000))
def test_all_is_bounded_in_bytes(asked: str) -> None:
    """Summary and details are within Temporal's limits of 400 and 20,000 bytes, even with characters of four bytes."""
    said = summarize(run_of(Message.user(asked), labels={f"{n}": "\U0001f600" * 256 for n in range(20)}))
    assert len(json.dumps(said.summary, ensure_ascii=False).encode()) < 250
    assert len(json.dumps(said.details, ensure_ascii=False).encode()) < 10_000
    assert len(said.memo.get("message", "")) <= 200


def test_a_long_message_ends_with_an_ellipsis() -> None:
    """A long message ends with an ellipsis in the memo, the summary and the details."""
    said = summarize(run_of(Message.user("x" * 5_000)))
    assert said.memo["message"].endswith("x…")
    assert said.summary.endswith("x…`")
    assert said.details is not None
    assert "x…\n```" in said.details
