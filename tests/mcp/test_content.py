"""Content: blocks of an answer, as a result and artifacts; and lines of a stream."""

import mcp_types as types
import pytest

from sojourn.mcp.content import ABSENT, error_text, to_parts, to_result
from sojourn.mcp.lines import Lines, Overlong
from sojourn.mcp.progress import told
from sojourn.mcp.text import cleaned, masked

TEXT = types.TextContent(text="one")


def test_one_text_is_a_text_and_several_are_a_list():
    """No content is None."""
    assert to_parts([]) == (None, {})
    assert to_parts([TEXT]) == ("one", {})
    assert to_parts([TEXT, TEXT]) == (["one", "one"], {})


def test_a_lone_picture_is_described():
    """Its bytes are those it has, not those of its base64."""
    result, artifacts = to_parts([types.ImageContent(data="aGk=", mime_type="image/png")])
    assert result == {"type": "image", "mime_type": "image/png", "bytes": 2}
    assert artifacts == {"image": {"mime_type": "image/png", "base64": "aGk="}}


def test_a_long_text_of_a_resource_is_an_artifact():
    """A short one is part of the result."""
    long = types.TextResourceContents(uri="note://1", text="é" * 20_001)
    result, artifacts = to_parts([types.EmbeddedResource(resource=long)])
    assert result == {"type": "resource", "uri": "note://1", "bytes": 40_002}
    assert artifacts == {"resource": {"uri": "note://1", "text": long.text}}


def test_structured_content_wins_and_its_text_is_dropped():
    """Null is structured content too; artifacts stay."""
    picture = types.ImageContent(data="aGk=", mime_type="image/png")
    assert to_result([TEXT, picture], {"a": 1}, is_structured=True)[0] == {"a": 1}
    assert to_result([TEXT, picture], None, is_structured=False) == (None, to_parts([picture])[1])


def test_json_in_a_text_is_read_only_where_a_shape_is_declared():
    """Elsewhere a text is a text, whatever it looks like."""
    number = types.TextContent(text="5")
    assert to_result([number], ABSENT, is_structured=False)[0] == "5"
    assert to_result([number], ABSENT, is_structured=True)[0] == 5
    for text in ("no JSON", "[" * 100_000):
        with pytest.raises(ValueError, match="no JSON"):
            to_result([types.TextContent(text=text)], ABSENT, is_structured=True)


def test_an_error_without_a_text_says_so():
    """A picture is no explanation."""
    assert error_text([TEXT, TEXT]) == "one\none"
    assert "did not say why" in error_text([types.ImageContent(data="", mime_type="image/png")])


def test_lines_are_cut_wherever_the_chunks_are():
    """Chunks of one byte and of everything give the same lines."""
    data = b"one\n\ntwo\nrest"
    for size in (1, 2, 5, 100):
        lines = Lines(10)
        found = [line for at in range(0, len(data), size) for line in lines.feed(data[at : at + size])]
        assert found == [b"one", b"", b"two"]


def test_a_long_line_is_counted_and_not_kept():
    """Its two ends are known, and the line after it is whole."""
    lines = Lines(1_000)
    found = []
    for chunk in [b"head" + b"x" * 996, *[b"y" * 5_000] * 100, b"tail\nnext\n"]:
        found += lines.feed(chunk)
        assert len(lines._kept) <= 1_000
    long, after = found
    assert isinstance(long, Overlong)
    assert (long.head[:4], long.tail[-4:], long.size) == (b"head", b"tail", 501_004)
    assert after == b"next"


def test_texts_are_made_fit_to_be_shown():
    """Line breaks stay; what acts on a terminal, hides or is too long does not."""
    assert cleaned("a\tb\nc\x1b[31m\x00\u202ed\u200b ", 100) == "a\tb\nc [31m  d"
    assert len(cleaned("x" * 5_000, 100)) == 100
    assert masked("the key is abcdef", ["abcdef", "key"]) == "the key is ***"
    assert told(1, None, None) == "1"
    assert told(0.5, 1, "a\nb") == "0.5 of 1: a b"
