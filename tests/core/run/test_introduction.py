"""What Temporal's own screens say of a run from its start: bounded, printable, and never markup."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn import Message
from sojourn.contracts.run import RunInput
from sojourn.core.run.introduction import introduce

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


def test_a_run_is_introduced_by_what_was_asked() -> None:
    """The last that a user says in the opening, in the memo, the summary and the details."""
    said = introduce(
        run_of(Message.system("Be brief."), Message.user("Hi"), Message.user("Why is s-7\n dark?"))
    )
    assert said.memo == {"message": "Why is s-7\n dark?"}
    assert said.summary == "ops.assistant: `Why is s-7 dark?`"
    assert said.details == "**Asked:**\n\n```\nWhy is s-7\n dark?\n```"


def test_labels_are_told_in_the_details() -> None:
    """They are in no list; a screen tells them beside what was asked."""
    said = introduce(run_of(Message.user("Hi"), labels={"branch": "north", "x": "*y*"}))
    assert said.details == "**Asked:**\n\n```\nHi\n```\n\n**Labels:**\n\n```\nbranch: north\nx: *y*\n```"


def test_a_child_run_is_introduced_by_its_tool() -> None:
    """Its summary says which call it answers; what it was asked is in its memo and details."""
    said = introduce(run_of(Message.user("Hi")), "ops.agents.ask")
    assert said.summary == "ops.assistant: ops.agents.ask"
    assert said.memo == {"message": "Hi"}


@pytest.mark.parametrize("messages", [[], [Message.system("Be brief.")], [Message.user("")]])
def test_a_run_that_was_asked_nothing_has_only_its_agent(messages: list[Message]) -> None:
    """No empty memo, summary or details."""
    said = introduce(run_of(*messages))
    assert (said.memo, said.summary, said.details) == ({}, "ops.assistant", None)


@given(TEXTS, TEXTS)
def test_what_was_asked_is_never_markup(asked: str, label: str) -> None:
    """It stands in a code span and in code blocks that it cannot leave, without control characters."""
    said = introduce(run_of(Message.user(asked), labels={"name": label}))
    name, _, span = said.summary.partition(": ")
    assert name == "ops.assistant"
    assert said.summary.isprintable()
    ticks = span[: len(span) - len(span.lstrip("`"))]
    assert not span or (ticks and span.endswith(ticks) and ticks not in span[len(ticks) : -len(ticks)])
    assert all(line.isprintable() for line in (said.details or "").split("\n"))


@given(st.text(alphabet='\U0001f600"\\`a\x01é ', min_size=100, max_size=4_000))
def test_all_is_bounded_in_bytes(asked: str) -> None:
    """Temporal takes summaries of 400 bytes, and details of 20,000, as JSON; so many characters are four bytes each."""
    said = introduce(run_of(Message.user(asked), labels={f"{n}": "\U0001f600" * 256 for n in range(20)}))
    assert len(json.dumps(said.summary, ensure_ascii=False).encode()) < 250
    assert len(json.dumps(said.details, ensure_ascii=False).encode()) < 10_000
    assert len(said.memo.get("message", "")) <= 200


def test_what_is_cut_says_so() -> None:
    """An ellipsis ends what is longer than a screen shows."""
    said = introduce(run_of(Message.user("x" * 5_000)))
    assert said.memo["message"].endswith("x…")
    assert said.summary.endswith("x…`")
    assert said.details is not None
    assert "x…\n```" in said.details
