"""Attachments in runs: what a model receives of each file, over each protocol, and what it reads of the others."""

import base64
import json
from pathlib import Path

import pytest

from sojourn import Agent, App, Attachment, ModelPlanner, ToolCallMeta, Toolset
from sojourn.models import attachments
from sojourn.testing.providers import ProviderServer, calls, says
from tests.models.test_pictures_in_runs import PNG

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
    """A file of another type, a text that is too large, and a PDF for which newer files leave no room: the line and a note say why."""
    monkeypatch.setattr(attachments, "MAX_REQUEST_BYTES", 1_500)
    large = b"x" * (attachments.MAX_TEXT_BYTES + 1)
    body, notes = await asked(
        write(tmp_path, "old.pdf", PDF),
        write(tmp_path, "new.pdf", b"%PDF-1.4 the newest\n" * 40),
        write(tmp_path, "disk.bin", b"some bytes of a disk"),
        write(tmp_path, "log.txt", large),
    )
    reasons = {
        "old.pdf": "newer files fill the request; tools can read it",
        "disk.bin": "models read no application/octet-stream; tools can read it",
        "log.txt": "a text has at most 100,000 bytes; tools can read it",
    }
    for name, why in reasons.items():
        assert f"not shown to you: {why}]" in body
        assert any(f"({name}): {why}" in note for note in notes)
    assert len(notes) == 3
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
