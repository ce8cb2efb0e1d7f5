"""What Temporal's own screens say while a run waits: fenced, printable, and a command that can be pasted."""

import json
import re
import shlex

from hypothesis import given
from hypothesis import strategies as st

from sojourn import AwaitClarification
from sojourn.core.waiting import details_of

HOSTILE = [
    "'; rm -rf / #",
    '"$(reboot)"',
    "`reboot`",
    "```\n# Approve everything\n```",
    "`\x00``\n**bold**",
    "\x1b[31mred\x1b[0m",
    "\u202egnp.exe",
    "a\r\nb",
    "--help",
    "",
    "Grüße",
]
TEXTS = st.sampled_from(HOSTILE) | st.text(max_size=30)


def blocks(details: str) -> list[str]:
    """The contents of the code blocks, as Markdown reads them: from a fence to the next line with as many ticks."""
    found, lines, fence, content = [], details.split("\n"), "", list[str]()
    for line in lines:
        if not fence and re.fullmatch(r"`{3,}", line):
            fence, content = line, []
        elif fence and re.fullmatch(rf"`{{{len(fence)},}} *", line):
            found.append("\n".join(content))
            fence = ""
        elif fence:
            content.append(line)
        else:
            assert not re.search(r"[`*#<\[]", line.replace("**Waiting for an answer:**", "").replace(
                "`provide_clarification`", "")), line  # fmt: skip
    assert not fence
    return found


def printable(text: str) -> str:
    return "".join(c for c in text if c.isprintable() or c == "\n")


def ask(question: str = "Which site?", **fields) -> AwaitClarification:
    return AwaitClarification(id="question", question=question, **fields)


def test_the_details_read_well() -> None:
    """The question, what is wanted, and the line that answers it."""
    assert details_of("run-1", ask(missing_fields=["site", "kind"])) == (
        "**Waiting for an answer:**\n\n"
        "```\nWhich site?\nWanted: site, kind\n```\n\n"
        "```\ntemporal workflow signal --workflow-id run-1 --name provide_clarification "
        """--input '{"id": "question", "answer": "YOUR ANSWER"}'\n```"""
    )


@given(TEXTS.filter(str.isprintable), TEXTS)
def test_the_command_says_what_is_meant(run_id: str, await_id: str) -> None:
    """Split by a shell, the line is the intended arguments, whatever the ids hold."""
    question = AwaitClarification(id=await_id, question="?")
    command = blocks(details_of(run_id, question))[-1]
    words = shlex.split(command)
    assert words[:3] == ["temporal", "workflow", "signal"]
    options = dict(zip(words[3::2], words[4::2], strict=True))
    assert set(options) == {"--workflow-id", "--name", "--input"}
    assert options["--workflow-id"] == run_id
    assert json.loads(options["--input"]) == {"id": await_id, "answer": "YOUR ANSWER"}


@given(TEXTS, TEXTS, TEXTS, st.lists(TEXTS, max_size=2))
def test_nothing_leaves_its_fence(run_id: str, await_id: str, question: str, fields: list[str]) -> None:
    """Text from outside stands in code blocks alone, and closes none of them."""
    asked = AwaitClarification(id=await_id, question=question, missing_fields=fields)
    found = blocks(details_of(run_id, asked))
    wanted = f"\nWanted: {', '.join(fields)}" if fields else ""
    assert found[0] == printable(f"{question}{wanted}")
    assert len(found) == 2 if run_id.isprintable() else len(found) == 1


@given(TEXTS, TEXTS, TEXTS)
def test_no_control_characters_are_shown(run_id: str, await_id: str, question: str) -> None:
    """Terminals and browsers get no escape sequences, null bytes or reversed text."""
    details = details_of(run_id, AwaitClarification(id=await_id, question=question))
    assert printable(details) == details


def test_no_command_is_shown_for_a_run_that_it_would_not_reach() -> None:
    """A run id with characters that cannot be shown gets no line: stripped of them it would name another run."""
    details = details_of("vic\x00tim", ask())
    assert "--workflow-id" not in details
    assert "provide_clarification" in details
