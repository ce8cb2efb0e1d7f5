"""Values of a line: as they are, or masked and made plain, wherever in it they stand."""

from sojourn.logs.context import call_context, hide
from sojourn.logs.values import masked


def hidden(text: str) -> str:
    """A mask as of a call with one secret."""
    return text.replace("hunter2", "[token]")


def test_names_of_fields_are_masked_and_plain_as_values_are():
    """A secret that a tool logs as a key is no less one; a name is cut after the masking, not before."""
    with call_context(run_id="r"):
        hide(hidden)
        line = masked(None, "", {"event": "hunter2", "seen": {"hunter2": 1, "a\x1b[31m": ["hunter2"]}})
        assert line == {"event": "[token]", "seen": {"[token]": 1, "a [31m": ["[token]"]}}
        (name,) = masked(None, "", {"x" * 96 + "hunter2": 1})
    assert "hunt" not in name
    assert len(name) == 100
