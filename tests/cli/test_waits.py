"""The printed command lines that answer a wait: a shell reads them as intended, and every character is visible."""

import subprocess

import pytest

from sojourn import AwaitClarification, AwaitConfirmation, AwaitExternalTools, ExternalCall
from sojourn.answers import wait_view
from sojourn.cli.screen.text import shell_word
from sojourn.cli.waits import answer_lines

HOSTILE = [
    "",
    "plain",
    "a b",
    "it's",
    "$(reboot)",
    "a\u200bb",
    "\x1b[31m'\\u200b\\",
    "a\n\u202e\U000e0041",
    "größe ☃",
]


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_a_shell_reads_the_original_word(text: str) -> None:
    """Invisible characters are written as escapes, which the shell decodes."""
    shown = shell_word(text)
    assert shown.isprintable()
    read = subprocess.run(["bash", "-c", f"printf %s {shown}"], capture_output=True, check=True)
    assert read.stdout.decode() == text


def test_each_kind_has_its_lines() -> None:
    """Each kind of wait has its command lines, the usual one first; words in capitals are placeholders."""
    question = AwaitClarification(id="q\u200b", question="Which?")
    assert answer_lines(wait_view(question, "r 1"))[0] == r"sojourn answer 'r 1' $'q\u200b' 'YOUR ANSWER'"
    call = AwaitConfirmation(id="confirm-c1", tool_call_id="c1", tool="a.b.c")
    assert answer_lines(wait_view(call, "r")) == [
        "sojourn approve r confirm-c1",
        "sojourn deny r confirm-c1 --why WHY",
    ]
    outside = AwaitExternalTools(id="out", items=[ExternalCall(tool_call_id="c1", tool="a.b.c")])
    assert answer_lines(wait_view(outside, "r")) == [
        "sojourn provide r FILE",
        "sojourn provide r --result 'c1=JSON'",
    ]
