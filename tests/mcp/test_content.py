"""Content: the blocks of an answer become a result and artifacts."""

import mcp_types as types
import pytest

from sojourn.mcp.content import ABSENT, error_text, to_parts, to_result

TEXT = types.TextContent(text="one")


def test_one_text_is_a_text_and_several_are_a_list():
    """A single text is the result itself, several are a list, and no content is None."""
    assert to_parts([]) == (None, {})
    assert to_parts([TEXT]) == ("one", {})
    assert to_parts([TEXT, TEXT]) == (["one", "one"], {})


def test_a_lone_picture_is_described():
    """The result says how many bytes an image has, not how many characters its base64 has."""
    result, artifacts = to_parts([types.ImageContent(data="aGk=", mime_type="image/png")])
    assert result == {"type": "image", "mime_type": "image/png", "bytes": 2}
    assert artifacts == {"image": {"mime_type": "image/png", "base64": "aGk="}}


def test_a_long_text_of_a_resource_is_an_artifact():
    """A text of over 20,000 characters becomes an artifact, and the result has its size."""
    long = types.TextResourceContents(uri="note://1", text="é" * 20_001)
    result, artifacts = to_parts([types.EmbeddedResource(resource=long)])
    assert result == {"type": "resource", "uri": "note://1", "bytes": 40_002}
    assert artifacts == {"resource": {"uri": "note://1", "text": long.text}}


def test_structured_content_wins_and_its_text_is_dropped():
    """Null is structured content too; the artifacts of the blocks are kept."""
    picture = types.ImageContent(data="aGk=", mime_type="image/png")
    assert to_result([TEXT, picture], {"a": 1}, is_structured=True)[0] == {"a": 1}
    assert to_result([TEXT, picture], None, is_structured=False) == (None, to_parts([picture])[1])


def test_json_in_a_text_is_read_only_where_a_shape_is_declared():
    """Without an `outputSchema` a text stays a text, even if it is JSON."""
    number = types.TextContent(text="5")
    assert to_result([number], ABSENT, is_structured=False)[0] == "5"
    assert to_result([number], ABSENT, is_structured=True)[0] == 5
    for text in ("no JSON", "[" * 100_000):
        with pytest.raises(ValueError, match="is not JSON"):
            to_result([types.TextContent(text=text)], ABSENT, is_structured=True)


def test_an_error_without_a_text_says_so():
    """The texts of an error are joined by lines; without a text, a sentence says so."""
    assert error_text([TEXT, TEXT]) == "one\none"
    assert "did not say why" in error_text([types.ImageContent(data="", mime_type="image/png")])


def test_a_secret_at_the_end_of_a_long_error_is_hidden():
    """Secrets are masked before the text is cut, so that no part of a secret remains."""
    text = error_text([types.TextContent(text="x" * 1_990 + "secret-token" + "y" * 100)], ["secret-token"])
    assert "secr" not in text
    assert "***" in text


def test_artifacts_of_a_kind_are_numbered():
    """The first artifact has its kind as name, further ones a number; each kind is counted separately."""
    picture = types.ImageContent(data="AAAA", mime_type="image/png")
    sound = types.AudioContent(data="AAAA", mime_type="audio/wav")
    _, artifacts = to_parts([picture, picture, sound, picture])
    assert list(artifacts) == ["image", "image_2", "audio", "image_3"]
