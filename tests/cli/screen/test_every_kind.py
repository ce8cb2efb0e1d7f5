"""Each kind of wait, and one that the command line does not know, as the terminal prints it."""

import pytest

from sojourn.cli.screen.waits import texts_of
from sojourn.cli.waits import answer_lines, lines_of
from tests.answers.views import ASKED, OUTSIDE, VIEWS

COMMANDS = {"question": "answer", "approval": "approve", "tool_results": "provide", "reading": "answer"}
"""The command that answers a kind of wait."""


@pytest.mark.parametrize("kind", VIEWS)
def test_a_wait_is_printed_with_the_command_that_answers_it(kind):
    """In the tree of a run, in a list and in a hint."""
    view = VIEWS[kind]
    for whole in (True, False):
        lines = "\n".join(line.text for line in texts_of(view).lines(view, whole))
        assert ASKED[kind] in lines
        assert (OUTSIDE in lines) is (kind == "approval")
    listed = "\n".join(lines_of(view))
    assert listed.startswith(f"w: {view.noun}")
    assert ASKED[kind] in listed
    assert answer_lines(view)[0].startswith(f"sojourn {COMMANDS[kind]} r-1")
