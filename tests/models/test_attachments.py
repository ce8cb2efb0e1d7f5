"""Attachments in runs: what a model receives of each file, over each protocol, and what it reads of the others."""

import base64
import json
import re
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic_ai.messages import BinaryContent, ModelMessage, ModelResponse, TextContent, UserPromptPart
from pydantic_ai.messages import TextPart as ModelText
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.profiles import ModelProfile

from sojourn import Agent, App, Attachment, ModelPlanner, ToolCallMeta, Toolset
from sojourn.errors import StorageUnavailable
from sojourn.models import attachments
from sojourn.testing.providers import ProviderServer, calls, says
from tests.models.test_pictures_in_runs import PNG
from tests.storage.away import AwayStorage

PDF = b"%PDF-1.4 a scan of a bill\n" * 40


@pytest.fixture
async def asked(serve, standin: ProviderServer, protocol):
    """Ask a model about files, and return the body of its request as text and the notes of the run."""

    async def ask(*files: Path) -> tuple[str, list[str]]:
        standin.script = [says("seen")]
        planner = ModelPlanner(standin.model(protocol), settings={"max_tokens": 1000})
        client = await serve(planner=planner)
        run = await client.start("test.agent", "what is this?", attachments=files)
        assert (await run.result()).text == "seen"
        (request,) = standin.requests
        notes = [event.text async for event in run.events() if event.type == "planner_note"]
        return json.dumps(request.body), notes

    return ask


def write(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def has(body: str, content: bytes) -> bool:
    """Return whether a request has a file: as base64, Google's with the alphabet of URLs, or a text as it is."""
    encoded = base64.b64encode(content).decode()
    plain = json.dumps(content.decode(errors="replace"))[1:-1]
    return encoded in body.replace("-", "+").replace("_", "/") or plain in body


async def test_a_model_receives_pictures_pdfs_and_texts(asked, tmp_path):
    """Each file has a line with its id, name, type and size, and its content follows; no note is made."""
    picture, text = base64.b64decode(PNG), b"the lamp of site s-1 is dark"
    body, notes = await asked(
        write(tmp_path, "lamp.png", picture),
        write(tmp_path, "bill.pdf", PDF),
        write(tmp_path, "notes.txt", text),
    )
    for name, kind, size in (
        ("lamp.png", "image/png", len(picture)),
        ("bill.pdf", "application/pdf", len(PDF)),
        ("notes.txt", "text/plain", len(text)),
    ):
        assert f": '{name}', {kind}, {size:,} bytes]" in body
    assert body.count("[Attachment att_") == 3
    assert all(has(body, content) for content in (picture, PDF, text))
    assert notes == []


async def test_of_other_files_a_model_reads_a_line(asked, tmp_path, monkeypatch):
    """A file of another type, a text or a picture that is too large, and a PDF for which newer files leave no room: the line and a note say why."""
    monkeypatch.setattr(attachments, "MAX_REQUEST_BYTES", 1_500)
    monkeypatch.setattr(attachments, "MAX_PICTURE_BYTES", 2_000)
    large = b"x" * (attachments.MAX_TEXT_BYTES + 1)
    body, notes = await asked(
        write(tmp_path, "old.pdf", PDF),
        write(tmp_path, "new.pdf", b"%PDF-1.4 the newest\n" * 40),
        write(tmp_path, "disk.bin", b"some bytes of a disk"),
        write(tmp_path, "log.txt", large),
        write(tmp_path, "map.png", b"\x89PNG\r\n\x1a\n" + bytes(2_000)),
    )
    reasons = {
        "old.pdf": "newer files fill the request; tools can read it",
        "disk.bin": "models read no application/octet-stream; tools can read it",
        "log.txt": "a text has at most 100,000 bytes; tools can read it",
        "map.png": "a picture has at most 2,000 bytes; tools can read it",
    }
    for name, why in reasons.items():
        assert f"not shown to you: {why}]" in body
        assert any(f"({name}): {why}" in note for note in notes)
    assert len(notes) == 4
    assert has(body, b"%PDF-1.4 the newest\n" * 40)
    assert not any(has(body, each) for each in (PDF, large, b"some bytes of a disk"))


makers = Toolset("test.makers")


@makers.tool(read_only=True)
async def draw(meta: ToolCallMeta) -> list[Attachment]:
    """Draw a chart, and write a bill and a sound."""
    return [
        await meta.attach("chart.png", "image/png", base64.b64decode(PNG)),
        await meta.attach("bill.pdf", "application/pdf", PDF),
        await meta.attach("beep.wav", "audio/wav", b"RIFF"),
    ]


async def test_a_model_sees_the_files_that_a_tool_made(serve, standin: ProviderServer, protocol):
    """With the result each has a line with its id, and the content follows as far as the provider takes it."""
    standin.script = [calls(draw.call()), says("seen")]
    planner = ModelPlanner(standin.model(protocol), settings={"max_tokens": 1000})
    client = await serve(App(agents=[Agent("test.agent", planner=planner, uses=[makers])]))
    run = await client.start("test.agent", "draw")
    assert (await run.result()).text == "seen"
    body = json.dumps(standin.requests[1].body)
    assert "'chart.png', image/png, " in body
    assert "'beep.wav', audio/wav, 4 bytes; not shown to you: models read no audio/wav" in body
    assert has(body, base64.b64decode(PNG))
    assert has(body, PDF)
    assert "kept for the people" not in body
    assert standin.refusals == []


class Seen:
    """A model in this process that takes the kinds of files of a profile, and notes what it is asked."""

    def __init__(self, profile: ModelProfile) -> None:
        self.content: list[object] = []
        self.model = FunctionModel(self._answer, profile=profile)

    def _answer(self, messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        self.content = [
            each
            for message in messages
            for part in message.parts
            if isinstance(part, UserPromptPart)
            for each in ([part.content] if isinstance(part.content, str) else part.content)
        ]
        return ModelResponse(parts=[ModelText("seen")])

    @property
    def texts(self) -> str:
        return "\n".join(
            each if isinstance(each, str) else each.content
            for each in self.content
            if isinstance(each, (str, TextContent))
        )

    @property
    def kinds(self) -> list[str]:
        return [each.media_type for each in self.content if isinstance(each, BinaryContent)]


ONLY_TEXT = ModelProfile(supports_image_input=False, supports_document_input=False)
"""What the adapter of Cohere says of itself."""

ONLY_PICTURES = ModelProfile(supports_document_input=False)
"""What those of Groq and Hugging Face say."""

TEXT_DOCUMENTS = ModelProfile(supported_document_media_types=frozenset({"text/plain"}))
"""What that of OpenAI says of Azure and other servers."""


@pytest.mark.parametrize(
    ("profiles", "kinds", "unseen"),
    [
        ([ModelProfile()], ["image/png", "application/pdf", "text/plain"], []),
        ([TEXT_DOCUMENTS], ["image/png", "text/plain"], ["bill.pdf"]),
        ([ONLY_PICTURES], ["image/png"], ["bill.pdf"]),
        ([ModelProfile(), ONLY_PICTURES], ["image/png"], ["bill.pdf"]),
        ([ONLY_TEXT], [], ["lamp.png", "bill.pdf"]),
    ],
    ids=["everything", "text documents", "pictures", "a fallback", "text"],
)
async def test_a_model_gets_no_file_that_it_does_not_take(serve, tmp_path, profiles, kinds, unseen):
    """Its line says so, before a request is made that its adapter or its provider refuses; a text is then a part of the message."""
    seen = [Seen(each) for each in profiles]
    client = await serve(planner=ModelPlanner(seen[0].model, fallbacks=[each.model for each in seen[1:]]))
    files = [
        write(tmp_path, "lamp.png", base64.b64decode(PNG)),
        write(tmp_path, "bill.pdf", PDF),
        write(tmp_path, "notes.txt", b"the lamp is dark"),
    ]
    run = await client.start("test.agent", "what is this?", attachments=files)
    assert (await run.result()).text == "seen"
    (asked, *_) = seen
    assert asked.kinds == kinds
    assert ("the lamp is dark" in asked.texts) == ("text/plain" not in kinds)
    notes = [event.text async for event in run.events() if event.type == "planner_note"]
    assert len(notes) == len(unseen)
    for note, name in zip(notes, unseen, strict=True):
        kind = "image/png" if name == "lamp.png" else "application/pdf"
        assert f"({name}): this model takes no {kind}; tools can read it" in note


async def test_a_model_reads_texts_of_every_encoding(serve, tmp_path):
    """A table in the encoding of Windows, as a spreadsheet saves it; adapters decode UTF-8 only, and the plan failed."""
    asked = Seen(ONLY_PICTURES)
    plain = Seen(ModelProfile())
    files = [
        write(tmp_path, "latin.csv", "Größe;7 €".encode("cp1252")),
        write(tmp_path, "utf16.txt", "Höhe".encode("utf-16")),
        write(tmp_path, "bom.txt", "Tiefe".encode("utf-8-sig")),
        write(tmp_path, "disk.txt", b"\x7fELF\0\0"),
        write(tmp_path, "page.pdf", b"<html>no PDF</html>"),
        write(tmp_path, "empty.txt", b""),
    ]
    for model in (asked, plain):
        client = await serve(planner=ModelPlanner(model.model))
        run = await client.start("test.agent", "what is this?", attachments=files)
        assert (await run.result()).text == "seen"
    assert re.findall(r"The text of att_\w+:\n(.*)", asked.texts) == ["Größe;7 €", "Höhe", "Tiefe"]
    read = [each.data.decode() for each in plain.content if isinstance(each, BinaryContent)]
    assert read == ["Größe;7 €", "Höhe", "Tiefe"]
    for why in ("its bytes are no text", "its bytes are no PDF", "it is empty"):
        assert f"not shown to you: {why}" in plain.texts


async def test_a_plan_waits_for_its_files(serve, tmp_path, monkeypatch):
    """A model whose files cannot be read for a moment is asked once they can, and not without them."""
    monkeypatch.setattr(StorageUnavailable, "retry_after", timedelta(milliseconds=50))
    storage, seen = AwayStorage(tmp_path / "storage"), Seen(ModelProfile())
    app = App(agents=[Agent("test.agent", planner=ModelPlanner(seen.model))], storage=storage)
    client = await serve(app, storage=storage)
    storage.failing_reads = 7
    output = await client.execute("test.agent", "what?", attachments=[write(tmp_path, "bill.pdf", PDF)])
    assert output.text == "seen"
    assert storage.failing_reads == 0
    assert seen.kinds == ["application/pdf"]
