"""docs/mcp.md: its toolsets can be declared, and its figures are those of the code."""

import re
from pathlib import Path

import pytest

from sojourn.forms import elicitation
from sojourn.mcp import McpToolset, limits

PAGE = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_its_toolsets_are_declared_as_they_stand():
    """Each block that declares toolsets runs, in order, and starts nothing."""
    scope: dict = {}
    for block in BLOCKS:
        if "await" not in block:
            exec(block, scope)
    declared = {name: value for name, value in scope.items() if isinstance(value, McpToolset)}
    assert declared.keys() == {
        *("everything", "search", "older", "files", "inventory", "shop"),
        *("crm", "stock", "github", "hr"),
    }
    assert declared["files"]["delete_all"].spec.confirmation == "Delete {path}?"
    assert declared["inventory"]["count"].spec.trusted


@pytest.mark.parametrize(
    "text",
    [
        f"over {elicitation.MAX_FORM_FIELDS} fields or {elicitation.MAX_FORM_BYTES // 1_000} KB",
        f"more than {limits.MAX_MESSAGE_BYTES // 1_000_000} MB",
        f"({limits.TTL.total_seconds() / 60:g} minutes)",
        f"`session_idle` ({limits.SESSION_IDLE.total_seconds() / 60:g} minutes), or when `max_sessions` ({limits.MAX_SESSIONS})",
    ],
)
def test_its_figures_are_those_of_the_code(text):
    """A limit that changes in the code must change on the page."""
    assert text in PAGE


def test_its_number_of_rounds_is_that_of_the_code():
    """The page writes the number as a word."""
    assert limits.MAX_INPUT_ROUNDS == 10
    assert "ten times in a row" in PAGE
