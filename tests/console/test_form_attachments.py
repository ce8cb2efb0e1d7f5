"""Files of messages: which a page shows as a picture, and what becomes of those that a person attaches."""

import base64

import pytest

from sojourn import Message
from sojourn.console.form import File, attachments_of, part_of
from sojourn.contracts.message import DocumentPart, ImagePart

DATA = base64.b64encode(b"<svg onload='hacked=1'/>").decode()


def test_only_pictures_that_hold_no_script_are_shown(subtests: pytest.Subtests) -> None:
    """A picture of a known kind, in Base64, is in the page; an SVG, which may hold scripts, and other texts are not."""
    rows = [
        ("image/png", DATA, True),
        ("image/webp", DATA, True),
        ("image/svg+xml", DATA, False),
        ("image/png", "AAAA' onload='hacked=1", False),
        ("image/png", "", False),
    ]
    for media_type, data, is_shown in rows:
        with subtests.test(media_type=media_type, data=data, is_shown=is_shown):
            image = ImagePart(type="image", media_type=media_type, data=data)
            (shown,) = attachments_of(Message(role="user", parts=[image]))
            assert shown.picture == (f"data:{media_type};base64,{data}" if is_shown else "")


def test_a_document_is_named_and_not_shown() -> None:
    """A document has its title, whatever its kind says of itself."""
    part = DocumentPart(type="document", media_type="image/png", data=DATA, title="plan.png")
    (shown,) = attachments_of(Message(role="user", parts=[part]))
    assert (shown.title, shown.picture) == ("plan.png", "")


@pytest.mark.parametrize(
    ("given", "kind", "media_type"),
    [
        ("image/png", ImagePart, "image/png"),
        ("Image/PNG; charset=x", ImagePart, "image/png"),
        ("image/svg+xml", DocumentPart, "image/svg+xml"),
        ("no type", DocumentPart, "application/octet-stream"),
    ],
)
def test_what_a_person_attaches(given: str, kind: type, media_type: str) -> None:
    """A picture is sent as an image and all else as a document, with the type that the browser names if it is one."""
    part = part_of(File("a.png", given, b"x"))
    assert (type(part), part.media_type, part.data) == (kind, media_type, "eA==")
