"""Messages of notices: what Slack, Teams and a mail show, and that no text from outside is markup there."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn import Notice, Principal
from sojourn.errors import DefinitionError
from sojourn.notice_message import check_outcomes, is_told, message_of, slack_body, teams_body

ASKED = Notice(
    id="r-1/wait/confirm-c1",
    kind="wait",
    at=datetime(2026, 3, 2, 9, 14, tzinfo=UTC),
    expires_at=datetime(2026, 3, 2, 10, 14, tzinfo=UTC),
    run_id="r-1",
    agent_id="desk.clerk",
    principal=Principal(subject="ana", tenant="acme"),
    tenant="acme",
    await_id="confirm-c1",
    await_type="await_confirmation",
    tool="desk.orders.cancel",
    text="Cancel order A-1?",
    arguments=['order = "A-1"'],
    files=['att_1: "plan.pdf" (application/pdf, 12 bytes)'],
)
CONSOLE = "https://agents.example.com/ops"


def ended(reason: str, **fields: Any) -> Notice:
    return Notice(
        id="r-1/end", kind="end", at=ASKED.at, run_id="r-1", agent_id="desk.clerk", reason=reason, **fields
    )


def texts_in(value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each text that a reader sees, with the object that has it."""
    if isinstance(value, list):
        for each in value:
            yield from texts_in(each)
    elif isinstance(value, dict):
        if isinstance(value.get("text"), str):
            yield value["text"], value
        for each in value.values():
            yield from texts_in(each)


def test_each_message_has_what_a_person_needs() -> None:
    """Agent, tenant, principal, question, arguments and expiry are in all three, with one link, to the page of the wait."""
    message = message_of(ASKED, CONSOLE)
    needed = (
        "desk.clerk",
        "acme",
        "ana",
        "Cancel order A-1?",
        'order = "A-1"',
        "plan.pdf",
        "2026-03-02 10:14 UTC",
    )
    for shown in (message.plain, slack_body(message), teams_body(message)):
        words = shown if isinstance(shown, str) else "\n".join(text for text, _ in texts_in(shown))
        assert [each for each in needed if each not in words] == []
        assert json.dumps(shown).count("https://agents") == 1
        assert f"{CONSOLE}/inbox/r-1/confirm-c1" in json.dumps(shown)
    assert message.title == "desk.clerk waits for an approval"


def test_without_a_public_address_a_message_names_the_command() -> None:
    """It has no link then, and says how to look at the run in a terminal."""
    message = message_of(ASKED)
    for shown in (message.plain, json.dumps(slack_body(message)), json.dumps(teams_body(message))):
        assert "sojourn show r-1" in shown
        assert '"url"' not in shown
        assert "OpenUrl" not in shown


@pytest.mark.parametrize(
    ("notice", "title"),
    [
        (ended("answered", text="Done."), "desk.clerk answered"),
        (ended("failed", error="bank: down"), "desk.clerk failed"),
        (ended("max_rounds", error="no answer"), "desk.clerk gave up: max rounds"),
        (ended("canceled"), "desk.clerk was canceled"),
        (ended("closed"), "desk.clerk closed its conversation"),
        (ASKED.model_copy(update={"await_type": "await_of_tomorrow"}), "desk.clerk waits"),
    ],
)
def test_the_title_says_what_happened(notice: Notice, title: str) -> None:
    """Ends lead to the page of the run, and only the outcomes that are asked for are told."""
    message = message_of(notice, CONSOLE)
    assert message.title == title
    assert message.link == (
        f"{CONSOLE}/runs/r-1" if notice.kind == "end" else f"{CONSOLE}/inbox/r-1/confirm-c1"
    )
    failures = check_outcomes(["failed", "gave_up"])
    assert is_told(notice, failures) == (notice.kind == "wait" or notice.reason in ("failed", "max_rounds"))
    assert is_told(notice, None)


def test_an_outcome_that_there_is_not_is_refused() -> None:
    with pytest.raises(DefinitionError, match="'gave up' is none of answered, gave_up"):
        check_outcomes(["gave up"])


HOSTILE = st.text(max_size=40) | st.sampled_from(
    [
        "<!channel>",
        "<https://evil.example|Approve>",
        "[Approve](https://evil.example)",
        "*b* `c`",
        "\u202e\u200b",
        "a\n\nb",
    ]
)


@given(HOSTILE, HOSTILE, HOSTILE)
def test_text_from_outside_is_never_markup(text: str, argument: str, subject: str) -> None:
    """Slack and Teams get it only in elements without markup, with hidden characters written out; Slack's notification is escaped."""
    changes = {"text": text, "arguments": [argument], "run_id": f"r {text}", "await_id": argument or "w"}
    message = message_of(
        ASKED.model_copy(update={**changes, "principal": Principal(subject=subject or "a")}), CONSOLE
    )
    slack, teams = slack_body(message), teams_body(message)
    assert not {"<", ">"} & set(slack["text"])
    for shown, holder in texts_in(slack["blocks"]):
        assert holder["type"] in ("text", "link")
        assert shown
        assert shown.replace("\n", "").isprintable()
    for shown, holder in texts_in(teams):
        assert holder["type"] == "TextRun"
        assert shown.isprintable()
    assert message.link.isascii()
    assert not set(message.link) & set(' <>|"\\')


def test_a_message_is_bounded() -> None:
    """The longest notice fits into what Slack and Teams take."""
    long = ["\U0001f600" * 500] * 30
    message = message_of(
        ASKED.model_copy(update={"text": "é" * 2_000, "arguments": long, "tool": "t" * 5_000}), CONSOLE
    )
    assert len(json.dumps(slack_body(message), ensure_ascii=False)) < 10_000
    assert len(json.dumps(teams_body(message), ensure_ascii=False).encode()) < 28_000
    assert "…" in message.arguments[-1]


def test_an_approval_that_escalates_says_to_whom() -> None:
    """The message of a call that nobody decided names the roles that may decide now."""
    message = message_of(ASKED.model_copy(update={"escalated": True, "escalated_to": ["director", "owner"]}))
    assert message.title == "desk.clerk still waits for an approval"
    assert "Escalated to: director or owner" in message.plain
