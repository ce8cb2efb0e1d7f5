"""Images and documents as content for a model; no URL is ever downloaded here."""

import base64
from typing import Any

import pytest
from pydantic_ai import messages as theirs
from pydantic_ai.direct import model_request
from pydantic_ai.models import Model, download_item
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.providers.google import GoogleProvider

from sojourn import Message
from sojourn.contracts.message import DocumentPart, ImagePart
from sojourn.models.files import UrlNotFetched, user_file
from sojourn.models.messages import Converter
from sojourn.models.names import Names

PNG = b"\x89PNG\r\n\x1a\n picture"
DATA = base64.b64encode(PNG).decode()


def image(media_type: str = "image/png", **fields: Any) -> ImagePart:
    return ImagePart(type="image", media_type=media_type, **fields)


def document(media_type: str = "application/pdf", **fields: Any) -> DocumentPart:
    return DocumentPart(type="document", media_type=media_type, **fields)


def messages_with(*parts: Any) -> list[theirs.ModelMessage]:
    return Converter(Names([]), str).messages([Message(role="user", parts=list(parts))])


def test_data_is_sent_as_bytes() -> None:
    """The bytes, the type and the title of an image or a document reach the model's adapter."""
    picture = user_file(image(data=DATA, url="https://example.org/a.png"))
    assert picture == theirs.BinaryImage(PNG, media_type="image/png")
    paper = user_file(document(data=DATA, title="Rules"))
    assert isinstance(paper, theirs.BinaryContent)
    assert (paper.data, paper.media_type, paper.identifier) == (PNG, "application/pdf", "Rules")


def test_an_image_has_the_type_of_its_bytes(subtests: pytest.Subtests) -> None:
    """Providers refuse a picture whose media type is not that of its bytes; of unknown bytes the given type stays."""
    rows = [
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x01\x02\x03\x04WEBP", "image/webp"),
        (PNG, "image/png"),
        (b"BM anything else", "image/png"),
    ]
    for begins, actual in rows:
        with subtests.test(begins=begins, actual=actual):
            picture = user_file(image(data=base64.b64encode(begins).decode()))
            assert isinstance(picture, theirs.BinaryImage)
            assert picture.media_type == actual


def test_base64_in_lines_is_read() -> None:
    """Base64 with line breaks, as the `base64` command writes it, is decoded."""
    picture = user_file(image(data=base64.encodebytes(PNG * 20).decode()))
    assert isinstance(picture, theirs.BinaryImage)
    assert picture.data == PNG * 20


def test_a_file_that_cannot_be_read_becomes_a_text(subtests: pytest.Subtests) -> None:
    """In place of a file without valid data or URL, the model gets a text that says so."""
    rows = [
        image(),
        image(data="!"),
        image(data="abc"),
        image(url=""),
        image("text/plain", data=DATA),
        document(data=""),
    ]
    for part in rows:
        with subtests.test(part=part):
            assert user_file(part) == f"({part.type} that cannot be read)"


def test_a_url_keeps_its_type() -> None:
    """The media type of a URL is that of the part, not guessed from the URL's ending."""
    file = user_file(image(url="https://example.org/picture"))
    assert isinstance(file, theirs.ImageUrl)
    assert (file.url, file.media_type) == ("https://example.org/picture", "image/png")


async def test_a_download_is_refused() -> None:
    """pydantic-ai's function by which every adapter downloads files raises before it looks up the host."""
    for part in (image(url="https://example.org/a.png"), document(url="https://example.org/a.pdf")):
        file = user_file(part)
        assert isinstance(file, theirs.FileUrl)
        with pytest.raises(UrlNotFetched, match="send the file's `data` in its place"):
            await download_item(file)


@pytest.mark.parametrize("kind", ["openai-responses", "openai-chat", "anthropic"])
async def test_a_provider_that_accepts_urls_gets_the_url(standin: Any, kind: Any) -> None:
    """An image's URL is in the request unchanged."""
    standin.script = ["A dog."]
    url = "https://example.org/a.png"
    messages = messages_with(image(url=url))
    await model_request(standin.model(kind), messages, model_settings={"max_tokens": 100})
    assert url in str(standin.requests[0].body)


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("openai-chat", document(url="https://example.org/a.pdf")),
        ("anthropic", document("text/plain", url="https://example.org/a.txt")),
        ("google", image(url="https://example.org/a.png")),
    ],
)
async def test_nothing_is_downloaded_for_a_provider_that_accepts_no_urls(
    standin: Any, kind: Any, part: Any
) -> None:
    """Where the adapter would download the file, `UrlNotFetched` is raised, and nothing is sent."""
    model: Model = (
        standin.model(kind)
        if kind != "google"
        else GoogleModel("gemini-3-pro", provider=GoogleProvider(api_key="k"))
    )
    with pytest.raises(UrlNotFetched):
        await model_request(model, messages_with(part), model_settings={"max_tokens": 100})
    assert not standin.requests
