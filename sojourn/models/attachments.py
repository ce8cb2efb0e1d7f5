"""Show the attachments of messages to a model.

A line names each, and the content follows if providers take it.

Providers limit the bytes of a request, so the newest files are sent. Every file keeps its line, with the id by
which the model passes it to a tool.
"""

import codecs
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from pydantic_ai.messages import BinaryContent, BinaryImage, TextContent
from pydantic_ai.models import Model
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.profiles import ModelProfile

from sojourn.contracts.attachment import PICTURE_TYPES, AttachmentRecord
from sojourn.contracts.message import Message
from sojourn.contracts.tool_result import ToolResult
from sojourn.errors import ArtifactNotFound
from sojourn.models.files import MAX_BYTES, MAX_PICTURES, media_type_of
from sojourn.pictures import MAX_PICTURE_BYTES, can_reduce, reduced_in_turn
from sojourn.serving.artifact_reader import current_attachment_reader

__all__ = [
    "Shown",
    "Takes",
    "introduction",
    "load_attachments",
    "notes_on",
    "taken_by",
    "with_files_of_result",
]

Shown = BinaryContent | TextContent | str
"""The content of a file that a model gets, or why it gets none."""

Takes = Callable[[str], bool]
"""Returns whether a model takes files of a media type."""

MAX_REQUEST_BYTES = 22_000_000
"""Bytes of the files of one request: with base64, what the strictest provider takes (32 MB)."""

MAX_TEXT_BYTES = 100_000
"""Largest text file that a model reads whole."""

LONGEST_SIDE = 2_048
"""Pixels to which a picture that is too large is reduced; providers do so too."""

_TEXTS = ("application/json", "application/xml", "application/yaml")
_FOR_TOOLS = "tools can read it"


def taken_by(model: Model) -> Takes:
    """Return which files a model takes, by its profile.

    With fallbacks, all of the models have to take a file. The adapters of pydantic-ai raise an error for other files. No request is then sent, so no refusal says
    which file it was.
    """
    profiles = [*_profiles(model)]
    return lambda media_type: all(_takes(profile, media_type) for profile in profiles)


def _profiles(model: Model) -> Iterator[ModelProfile]:
    if isinstance(model, FallbackModel):
        for each in model.models:
            yield from _profiles(each)
    elif isinstance(model, WrapperModel):
        yield from _profiles(model.wrapped)
    else:
        yield model.profile


def _takes(profile: ModelProfile, media_type: str) -> bool:
    if media_type in PICTURE_TYPES:
        return profile.get("supports_image_input", True)
    kinds = profile.get("supported_document_media_types")
    return profile.get("supports_document_input", True) and (kinds is None or media_type in kinds)


async def load_attachments(
    messages: Sequence[Message], known: Mapping[str, Shown], takes: Takes
) -> dict[str, Shown]:
    """Return what a model gets of each attachment of these messages, by id."""
    read = current_attachment_reader()
    files = {file.id: file for message in messages for file in message.attachments}
    hidden = _hidden(messages)
    shown: dict[str, Shown] = {}
    room, pictures = MAX_REQUEST_BYTES, MAX_PICTURES
    for file in reversed(files.values()):
        is_picture = file.media_type in PICTURE_TYPES
        if file.id in hidden:
            shown[file.id] = hidden[file.id]
            continue
        if why := _refusal(file, room, pictures if is_picture else 1, takes):
            shown[file.id] = why
            continue
        if file.id in known:
            content = known[file.id]
        elif read is None:
            content = "it cannot be read here"
        else:
            try:
                content = await _content(file, await read(file), takes)
            except ArtifactNotFound as error:
                content = str(error)
        if isinstance(content, BinaryContent):
            room -= len(content.data)
            pictures -= is_picture
        shown[file.id] = content
    return shown


def _hidden(messages: Sequence[Message]) -> dict[str, str]:
    """Return why models get only the lines of some files that tools made, by id."""
    made = [
        artifact
        for message in messages
        if message.role == "tool"
        for result in message.tool_results
        for artifact in result.artifacts
        if artifact.attachment
    ]
    if not made:
        return {}
    found = {
        artifact.attachment.id: f"a child run made it; {_FOR_TOOLS}"
        if artifact.run_link
        else "it is for people"
        for artifact in made
        if artifact.attachment and (artifact.run_link or not artifact.media_type)
    }
    sent = {file.id for message in messages if message.role == "user" for file in message.attachments}
    return {id: why for id, why in found.items() if id not in sent}


def with_files_of_result(content: Any, result: ToolResult, shown: Mapping[str, Shown]) -> Any:
    """Return a result's content with the files that the call made.

    Each has a line, and the content that a model gets follows.
    """
    files = [artifact.attachment for artifact in result.artifacts if artifact.attachment]
    if not files:
        return content
    text, *rest = cast("list[Any]", content) if isinstance(content, list) else [content]
    lines = [introduction(file, shown.get(file.id)) for file in files]
    lines += [each.content for file in files if isinstance(each := shown.get(file.id), TextContent)]
    contents = [each for file in files if isinstance(each := shown.get(file.id), BinaryContent)]
    made = ["\n".join([str(text), *lines]), *rest, *contents]
    return made if len(made) > 1 else made[0]


def _refusal(file: AttachmentRecord, room: int, pictures: int, takes: Takes) -> str | None:
    if not file.size:
        return "it is empty"
    if file.media_type in PICTURE_TYPES:
        if file.size > MAX_BYTES and not can_reduce():
            return f"a picture has at most {MAX_BYTES:,} bytes, and no Pillow is installed to reduce it; {_FOR_TOOLS}"
        if file.size > MAX_PICTURE_BYTES:
            return f"a picture has at most {MAX_PICTURE_BYTES:,} bytes; {_FOR_TOOLS}"
        needed = min(file.size, MAX_BYTES)
    elif _is_text(file.media_type):
        if file.size > MAX_TEXT_BYTES:
            return f"a text has at most {MAX_TEXT_BYTES:,} bytes; {_FOR_TOOLS}"
        needed = file.size
    elif file.media_type == "application/pdf":
        needed = file.size
    else:
        return f"models read no {file.media_type}; {_FOR_TOOLS}"
    if not (_is_text(file.media_type) or takes(file.media_type)):
        return f"this model takes no {file.media_type}; {_FOR_TOOLS}"
    if needed > room or not pictures:
        return f"newer files fill the request; {_FOR_TOOLS}"
    return None


def _is_text(media_type: str) -> bool:
    return media_type.startswith("text/") or media_type in _TEXTS


async def _content(file: AttachmentRecord, data: bytes, takes: Takes) -> Shown:
    if file.media_type == "application/pdf":
        if b"%PDF-" not in data[:1024]:
            return f"its bytes are no PDF; {_FOR_TOOLS}"
        return BinaryContent(data, media_type="application/pdf", identifier=file.name)
    if file.media_type not in PICTURE_TYPES:
        text = _decoded(data)
        if text is None:
            return f"its bytes are no text; {_FOR_TOOLS}"
        if not takes("text/plain"):
            return TextContent(f"The text of {file.id}:\n{text}")
        return BinaryContent(text.encode(), media_type="text/plain", identifier=file.name)
    if len(data) > MAX_BYTES:
        smaller = await reduced_in_turn(data, LONGEST_SIDE)
        if isinstance(smaller, str):
            return f"{smaller}; {_FOR_TOOLS}"
        data = smaller
    kind = media_type_of(data)
    return BinaryImage(data, media_type=kind) if kind else f"its bytes are no picture; {_FOR_TOOLS}"


def _decoded(data: bytes) -> str | None:
    """Return the text that bytes are, or None.

    Adapters read UTF-8 only, and people send other encodings too.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", errors="replace")
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")


def introduction(file: AttachmentRecord, shown: Shown | None) -> str:
    """Return the line of a request that names a file."""
    why = f"; not shown to you: {shown}" if isinstance(shown, str) else ""
    return f"[Attachment {file.id}: {file.name!r}, {file.media_type}, {file.size:,} bytes{why}]"


def notes_on(messages: Sequence[Message], shown: Mapping[str, Shown]) -> list[str]:
    """Return notes of the new files that the model does not get."""
    last = max((at for at, each in enumerate(messages) if each.role == "assistant"), default=-1)
    new = {file.id: file for message in messages[last + 1 :] for file in message.attachments}
    return [
        f"the model does not see attachment {id} ({file.name}): {why}"
        for id, file in new.items()
        if isinstance(why := shown.get(id), str)
    ]
