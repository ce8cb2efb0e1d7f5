"""Render templates, which escape every text.

It also has their filters for moments, amounts and texts from outside.
"""

import uuid
from datetime import UTC, datetime
from functools import cache
from typing import Any, cast

from jinja2 import Environment, PackageLoader, StrictUndefined

from sojourn.console.assets import name_of
from sojourn.console.views.amounts import ago, exact, money, short_number, size
from sojourn.console.views.artifacts import artifact_place
from sojourn.console.views.attachments import attachments_of
from sojourn.console.views.entries import end_title, note_text
from sojourn.console.views.health import parted
from sojourn.console.views.markdown import rendered, rendered_draft
from sojourn.console.views.run_rows import doing
from sojourn.console.views.states import word_of
from sojourn.console.views.talk import (
    call_text,
    end_text,
    json_text,
    newest_entries,
    note_line,
    outcome_of,
    request_text,
    turn_facts,
)
from sojourn.console.views.text import lines_of, shown
from sojourn.console.views.wait_view import wait_form
from sojourn.contracts.message import Message
from sojourn.values.visible import one_line, readable, took

__all__ = ["new_mark", "render"]


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
        "end_title": end_title,
        "exact": exact,
        "json_text": json_text,
        "lasted": took,
        "lines": lines_of,
        "markdown": rendered,
        "markdown_draft": rendered_draft,
        "money": money,
        "newest_entries": newest_entries,
        "note_line": note_line,
        "note_text": note_text,
        "outcome": outcome_of,
        "request_text": request_text,
        "turn_facts": turn_facts,
        "user_message": Message.user,
        "one_line": one_line,
        "parted": parted,
        "readable": readable,
        "short_number": short_number,
        "shown": shown,
        "size": size,
        "status_word": word_of,
        "wait_form": wait_form,
    }
    made.filters.update(words)
    cast("dict[str, Any]", made.globals).update(asset=name_of, new_mark=new_mark)
    return made


def new_mark() -> str:
    """Return a unique mark for a form, which makes sending it idempotent."""
    return uuid.uuid4().hex


def render(name: str, **values: Any) -> str:
    """Render a template as HTML.

    The template gets `now`, unless it is among the values.

    Args:
        name: The file in `templates/`.
        **values: The template's variables.
    """
    return _templates().get_template(name).render({"now": datetime.now(UTC), **values})
