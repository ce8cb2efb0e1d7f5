"""The values of a line are masked and printable, wherever in the line they are."""

from sojourn.logs.values import call_context, hide, mask_event


def hidden(text: str) -> str:
    """Mask one secret, as the mask of a call does."""
    return text.replace("hunter2", "[token]")


def test_names_of_fields_are_masked_and_printable():
    """A secret in a field's name is masked as in a value, and the name is cut only after it is masked."""
    with call_context(run_id="r"):
        hide(hidden)
        line = mask_event(None, "", {"event": "hunter2", "seen": {"hunter2": 1, "a\x1b[31m": ["hunter2"]}})
        assert line == {"event": "[token]", "seen": {"[token]": 1, "a [31m": ["[token]"]}}
        (name,) = mask_event(None, "", {"x" * 96 + "hunter2": 1})
    assert "hunt" not in name
    assert len(name) == 100
