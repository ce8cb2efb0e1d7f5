"""Render templates, which escape every text, and serve the files that pages load."""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any, cast

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sojourn.answers import describe_taint, wait_view
from sojourn.console.form import attachments_of
from sojourn.console.views.entries import (
    call_text,
    end_look,
    end_text,
    end_title,
    newest_entries,
    note_line,
    note_text,
    outcome_of,
    request_text,
    turn_facts,
)
from sojourn.console.views.markdown import render_draft, render_markdown
from sojourn.console.views.runs import doing
from sojourn.console.views.text import (
    ago,
    escape_hidden,
    exact,
    lines_of,
    short_number,
    size,
    split_advice,
    word_of,
)
from sojourn.console.views.values import artifact_place, json_beginning, line_of, view_value
from sojourn.console.views.waits import form_in_place, kind_word, waits_of
from sojourn.contracts.attachment import PICTURE_TYPES
from sojourn.contracts.message import Message
from sojourn.http.problems import redact_sender
from sojourn.values.visible import format_duration, format_money, one_line, readable

__all__ = ["asset_routes", "render"]

_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class Asset:
    body: bytes
    media_type: str
    digest: str


@cache
def _assets() -> dict[str, Asset]:
    found: dict[str, Asset] = {}
    for file in files("sojourn.console").joinpath("static").iterdir():
        suffix = file.name.rpartition(".")[2]
        if suffix in _TYPES:
            body = file.read_bytes()
            found[file.name] = Asset(body, _TYPES[suffix], hashlib.sha256(body).hexdigest()[:16])
    return found


def asset(name: str) -> Asset | None:
    return _assets().get(name)


def name_of(name: str) -> str:
    """Return the path of a file, below `/static/`, with its digest.

    Raises:
        KeyError: There is none.
    """
    return f"{name}?v={_assets()[name].digest}"


@cache
def _templates() -> Environment:
    made = Environment(
        loader=PackageLoader("sojourn.console"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        auto_reload=False,
    )
    words: dict[str, Any] = {
        "ago": ago,
        "artifact_place": artifact_place,
        "attachments": attachments_of,
        "call_text": call_text,
        "doing": doing,
        "end_text": end_text,
        "end_look": end_look,
        "end_title": end_title,
        "exact": exact,
        "json_text": json_beginning,
        "lasted": format_duration,
        "kind_word": kind_word,
        "line_of": line_of,
        "lines": lines_of,
        "markdown": render_markdown,
        "markdown_draft": render_draft,
        "money": format_money,
        "newest_entries": newest_entries,
        "note_line": note_line,
        "note_text": note_text,
        "outcome": outcome_of,
        "request_text": request_text,
        "turn_facts": turn_facts,
        "user_message": Message.user,
        "one_line": one_line,
        "split_advice": split_advice,
        "readable": readable,
        "short_number": short_number,
        "escape_hidden": escape_hidden,
        "view_value": view_value,
        "size": size,
        "status_word": word_of,
        "wait_form": form_in_place,
        "wait_view": wait_view,
        "taint_in_words": describe_taint,
        "waits_of": waits_of,
        "without_sender": redact_sender,
    }
    made.filters.update(words)
    cast("dict[str, Any]", made.globals).update(asset=name_of, pictures=PICTURE_TYPES)
    return made


def render(name: str, **values: Any) -> str:
    return _templates().get_template(name).render({"now": datetime.now(UTC), **values})


_FOR_GOOD = {"Cache-Control": "public, max-age=31536000, immutable"}


def asset_routes(prefix: str) -> list[Route]:
    """Return the route at `{prefix}/static/{name}`."""
    return [Route(f"{prefix}/static/{{name}}", _file, methods=["GET"])]


async def _file(request: Request) -> Response:
    found = asset(request.path_params["name"])
    if found is None:
        return Response("there is no such file\n", 404, media_type="text/plain")
    kept = _FOR_GOOD if request.query_params.get("v") == found.digest else {}
    return Response(found.body, headers={"Content-Type": found.media_type, **kept})
