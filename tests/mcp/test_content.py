"""Content: the blocks of an answer become a result and artifacts."""

import base64

import mcp_types as types
import pytest

from sojourn.mcp.content import ABSENT, NOT_STRUCTURED, error_code, error_text, to_parts, to_result

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


PICTURE = types.ImageContent(data="aGk=", mime_type="image/png")


def test_a_text_beside_the_structure_is_kept_once(subtests: pytest.Subtests) -> None:
    """Texts beside structured content are remarks, unless they are its JSON, whole or item by item."""
    rows = [
        (["line 1\nline 2"], {"fileName": "a.txt", "lines": 2}, ["line 1\nline 2"]),
        (['{"a": 1, "b": [2]}'], {"b": [2], "a": 1.0}, []),
        (["ok"], {"a": 1}, ["ok"]),
        ([], {"a": 1}, []),
        (["  \n"], {"a": 1}, []),
        (["five"], {"result": "five"}, []),
        (["a text"], {"content": "a text"}, []),
        (["a text"], {"name": "a.txt", "content": "a text"}, []),
        (["a text"], {"content": [{"type": "text", "text": "a text"}]}, []),
        (["a text"], {"deep": [[[[["a text"]]]]]}, ["a text"]),
        (["[1]"], {"rows": [1]}, []),
        (["5"], {"result": 5}, []),
        (["[1, 2]"], {"result": [1, 2]}, []),
        (["1", "2"], {"result": [1, 2]}, []),
        (["a", "b"], {"result": ["a", "b"]}, []),
        (['{"a": 1}', "read page 2 too"], {"a": 1}, ["read page 2 too"]),
    ]
    for texts, structured, remarks in rows:
        with subtests.test(texts=texts, structured=structured, remarks=remarks):
            blocks = [types.TextContent(text=text) for text in texts]
            content = to_result(blocks, structured, is_structured=True)
            assert (content.result, content.remarks, content.artifacts) == (structured, remarks, {})


def test_links_and_texts_of_resources_beside_the_structure_are_kept():
    """A link is told as JSON, the text of an embedded resource as it is; a picture is an artifact."""
    link = types.ResourceLink(uri="file:///y", name="y")
    inside = types.EmbeddedResource(resource=types.TextResourceContents(uri="note://1", text="short"))
    content = to_result([PICTURE, link, inside], {"a": 1}, is_structured=False)
    assert content.remarks == ['{"type": "resource_link", "uri": "file:///y", "name": "y"}', "short"]
    assert content.artifacts.keys() == {"image"}


def test_null_is_structured_content_only_where_a_shape_is_declared():
    """Some servers write `structuredContent: null` beside their text; it does not hide the text."""
    assert to_result([TEXT, PICTURE], None, is_structured=False).result == to_parts([TEXT, PICTURE])[0]
    content = to_result([TEXT], None, is_structured=True)
    assert (content.result, content.remarks) == (None, ["one"])


def test_a_long_text_beside_the_structure_is_an_artifact_too():
    """Of a text over the limit the result has the beginning, and the artifact all."""
    content = to_result([types.TextContent(text="x" * 250_000)], {"a": 1}, is_structured=False)
    (remark,) = content.remarks
    assert len(remark) < 100_100
    assert remark.endswith("[150,000 more characters are in artifact text]")
    assert content.artifacts["text"]["text"] == "x" * 250_000


PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 900).decode()


def test_base64_in_a_structure_is_an_artifact_and_a_description(subtests: pytest.Subtests) -> None:
    """A model reads what the base64 is, not the base64; once beside a block with the same data; a long word is no base64."""
    rows = [
        (
            [types.ImageContent(data=PNG, mime_type="image/png")],
            {"content": [{"type": "image", "data": PNG, "mimeType": "image/png"}]},
            {
                "content": [
                    {
                        "type": "image",
                        "data": "[image/png, 908 bytes, in artifact image]",
                        "mimeType": "image/png",
                    }
                ]
            },
        ),
        ([PICTURE], {"word": "aGk="}, {"word": "aGk="}),
        ([], {"shot": PNG}, {"shot": "[image/png, 908 bytes, in artifact image]"}),
        ([], {"shot": f"data:image/png;base64,{PNG}"}, {"shot": "[image/png, 908 bytes, in artifact image]"}),
        (
            [],
            {"mimeType": "application/x-new", "blob": "QUJD" * 150, "text": "QUJE" * 150},
            {
                "mimeType": "application/x-new",
                "blob": "[application/x-new, 450 bytes, in artifact resource]",
                "text": "QUJE" * 150,
            },
        ),
        ([], {"sequence": "ACGT" * 500}, {"sequence": "ACGT" * 500}),
        (
            [],
            {"mimeType": "image/png", "data": "not base64 " * 50},
            {"mimeType": "image/png", "data": "not base64 " * 50},
        ),
    ]
    for content, structured, result in rows:
        with subtests.test(content=content, structured=structured, result=result):
            made = to_result(content, structured, is_structured=True)
            assert made.result == result
            assert len(made.artifacts) == ("in artifact" in str(result) or len(content))
            assert not made.remarks


def test_json_in_a_text_is_read_only_where_a_shape_is_declared():
    """Without an `outputSchema` a text stays a text, even if it is JSON."""
    number = types.TextContent(text="5")
    assert to_result([number], ABSENT, is_structured=False).result == "5"
    assert to_result([number], ABSENT, is_structured=True).result == 5
    for text in ("no JSON", "[" * 100_000):
        content = to_result([types.TextContent(text=text)], ABSENT, is_structured=True)
        assert (content.result, content.fault) == (text, NOT_STRUCTURED)


def test_an_error_says_what_any_part_of_its_answer_says(subtests: pytest.Subtests) -> None:
    """The cause may be in the structure, in a resource or behind a link; the structure's code is the error's."""
    rows = [
        (
            [],
            {"error": {"code": "NEEDS_HUMAN", "hint": "sign in", "url": "https://x.example"}},
            '{"error": {"code": "NEEDS_HUMAN", "hint": "sign in", "url": "https://x.example"}}',
            "NEEDS_HUMAN",
        ),
        ([TEXT], {"code": 404}, 'one\n{"code": 404}', "mcp_404"),
        (
            [types.TextContent(text='{"code": "denied"}')],
            {"code": "denied"},
            '{"code": "denied"}',
            "mcp_denied",
        ),
        ([types.TextContent(text="why")], ABSENT, "why", None),
        (
            [types.EmbeddedResource(resource=types.TextResourceContents(uri="log://1", text="disk full"))],
            ABSENT,
            "disk full",
            None,
        ),
        (
            [types.ResourceLink(uri="log://2", name="log")],
            ABSENT,
            '{"type": "resource_link", "uri": "log://2", "name": "log"}',
            None,
        ),
        ([PICTURE], {}, '{"type": "image", "mime_type": "image/png", "bytes": 2}', None),
        ([TEXT], {"code": "has spaces"}, 'one\n{"code": "has spaces"}', None),
    ]
    for content, structured, text, code in rows:
        with subtests.test(content=content, structured=structured, text=text, code=code):
            assert error_text(content, structured) == text
            assert error_code(structured) == code


def test_an_error_without_a_text_says_so():
    """The texts of an error are joined by lines; without any content, a sentence says so."""
    assert error_text([TEXT, TEXT]) == "one\none"
    assert "did not say why" in error_text([])


def test_a_secret_at_the_end_of_a_long_error_is_hidden():
    """Secrets are masked before the text is cut, so that no part of a secret remains."""
    text = error_text(
        [types.TextContent(text="x" * 1_990 + "secret-token" + "y" * 100)], secrets=["secret-token"]
    )
    assert "secr" not in text
    assert "***" in text


def test_artifacts_of_a_kind_are_numbered():
    """The first artifact has its kind as name, further ones a number; each kind is counted separately."""
    picture = types.ImageContent(data="AAAA", mime_type="image/png")
    sound = types.AudioContent(data="AAAA", mime_type="audio/wav")
    _, artifacts = to_parts([picture, picture, sound, picture])
    assert list(artifacts) == ["image", "image_2", "audio", "image_3"]
