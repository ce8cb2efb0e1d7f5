"""A notice as a message for people: in Slack, in Teams, and as an e-mail.

Models, tools and users write part of what a notice says. So a message has their words only in elements
that read no markup (`rich_text` of Slack, `RichTextBlock` of Teams, plain text in an e-mail), with hidden
characters written out. Its one link opens a page of the console; to open it decides nothing.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Any, Literal, get_args
from urllib.parse import quote

from sojourn.contracts.run import Notice
from sojourn.core.awaits.kinds import KINDS
from sojourn.errors import DefinitionError
from sojourn.values.text import clip
from sojourn.values.visible import one_line, shell_word, visible

__all__ = ["NoticeMessage", "Outcome", "check_outcomes", "is_told", "message_of", "slack_body", "teams_body"]

Outcome = Literal["answered", "gave_up", "failed", "canceled", "closed"]
"""How a run, or a turn of a conversation, ended."""

MAX_ASKED = 1_500
"""Longest question or answer in a message, in characters."""

MAX_ARGUMENTS = 2_500
"""Longest arguments in a message, in characters. Slack takes about 10,000 in all, Teams 28 KB."""


@dataclass(frozen=True, slots=True)
class NoticeMessage:
    """What a message says. Its texts are all safe to print."""

    title: str
    text: str
    """The question, the answer, or the error."""
    arguments: tuple[str, ...]
    facts: Mapping[str, str]
    """Agent, tenant, principal, tool, run, and until when, by their titles."""
    link: str
    """The address of the page, or empty if no public address is set."""
    link_text: str
    command: str
    """The command that shows the run, for a message without a link."""

    @property
    def plain(self) -> str:
        """The message as plain text."""
        parts = [
            self.text,
            "\n".join(f"  {line}" for line in self.arguments),
            "\n".join(f"{name}: {value}" for name, value in self.facts.items()),
            f"{self.link_text}: {self.link}" if self.link else f"In a terminal: {self.command}",
        ]
        return "\n\n".join(part for part in parts if part) + "\n"


def message_of(notice: Notice, public_url: str = "") -> NoticeMessage:
    """Return the message for a notice. Its link is below the console's address."""
    path = f"/inbox/{notice.run_id}/{notice.await_id}" if notice.kind == "wait" else f"/runs/{notice.run_id}"
    facts = {
        "Agent": notice.agent_id,
        "Tenant": notice.tenant,
        "For": notice.principal.subject if notice.principal else "",
        "Tool": notice.tool,
        "Run": notice.run_id,
        "Escalated to": " or ".join(notice.escalated_to),
        "Until": f"{notice.expires_at.astimezone(UTC):%Y-%m-%d %H:%M UTC}" if notice.expires_at else "",
    }
    return NoticeMessage(
        title=one_line(f"{notice.agent_id} {_what_happened(notice)}", 140),
        text=_readable("\n".join(filter(None, (notice.error or notice.text, notice.taint))), MAX_ASKED),
        arguments=tuple(_fit(filter(None, map(visible, [*notice.arguments, *notice.files])), MAX_ARGUMENTS)),
        facts={name: one_line(value, 200) for name, value in facts.items() if value},
        link=f"{public_url}{quote(path, safe='/@:=,;+~!$*()')}" if public_url else "",
        link_text="Open what waits" if notice.kind == "wait" else "Open the run",
        command=f"sojourn show {shell_word(notice.run_id)}",
    )


def check_outcomes(outcomes: Collection[str] | None) -> frozenset[str] | None:
    """Return the outcomes to tell, None for all of them.

    Raises:
        DefinitionError: One of them is none.
    """
    known = get_args(Outcome)
    if unknown := sorted(set(outcomes or ()) - set(known)):
        raise DefinitionError(f"outcomes={unknown[0]!r} is none of {', '.join(known)}")
    return None if outcomes is None else frozenset(outcomes)


def is_told(notice: Notice, outcomes: frozenset[str] | None) -> bool:
    """Return whether a notice is of a wait, or of one of these outcomes."""
    return notice.kind == "wait" or outcomes is None or _outcome(notice) in outcomes


def slack_body(message: NoticeMessage) -> dict[str, Any]:
    """Return the body for an incoming webhook of Slack.

    `text` is what a notification shows. Slack reads markup in it, but none in `rich_text`.
    """

    def section(*elements: dict[str, Any]) -> dict[str, Any]:
        return {"type": "rich_text_section", "elements": list(elements)}

    def text(words: str, **style: bool) -> dict[str, Any]:
        return {"type": "text", "text": words, **({"style": style} if style else {})}

    elements = [
        section(text(f"{message.title}\n", bold=True), *([text(message.text)] if message.text else []))
    ]
    if message.arguments:
        lines = text("\n".join(message.arguments))
        elements.append({"type": "rich_text_preformatted", "elements": [lines]})
    facts = [
        part
        for name, value in message.facts.items()
        for part in (text(f"{name}: ", bold=True), text(f"{value}\n"))
    ]
    link = {"type": "link", "url": message.link, "text": message.link_text}
    elements.append(section(*facts, link if message.link else text(message.command, code=True)))
    notification = f"{message.title}: {message.text[:300]}" if message.text else message.title
    for sign, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        notification = notification.replace(sign, name)
    return {
        "text": notification,
        "mrkdwn": False,
        "unfurl_links": False,
        "unfurl_media": False,
        "blocks": [{"type": "rich_text", "elements": elements}],
    }


def teams_body(message: NoticeMessage) -> dict[str, Any]:
    """Return the body for a workflow of Teams that posts an Adaptive Card."""

    def line(*runs: dict[str, Any], spacing: str = "None") -> dict[str, Any]:
        inlines = [{"type": "TextRun", **run} for run in runs]
        return {"type": "RichTextBlock", "spacing": spacing, "inlines": inlines}

    def lines(texts: Iterable[str], **style: str) -> list[dict[str, Any]]:
        written = [each for each in texts if each]
        return [
            line({"text": each, **style}, spacing="None" if at else "Medium")
            for at, each in enumerate(written)
        ]

    body = [line({"text": message.title, "weight": "Bolder", "size": "Medium"})]
    body += lines(message.text.split("\n"))
    body += lines(message.arguments, fontType="Monospace")
    for at, (name, value) in enumerate(message.facts.items()):
        fact = {"text": f"{name}: ", "weight": "Bolder"}, {"text": value}
        body.append(line(*fact, spacing="None" if at else "Medium"))
    if not message.link:
        body += lines([message.command], fontType="Monospace")
    opening = {"type": "Action.OpenUrl", "title": message.link_text, "url": message.link}
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
        "actions": [opening] if message.link else [],
        "msteams": {"width": "Full"},
    }
    attachment = {
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": None,
        "content": card,
    }
    return {"type": "message", "attachments": [attachment]}


def _what_happened(notice: Notice) -> str:
    if notice.kind == "wait":
        rows = (row for row in KINDS.values() if row.event.model_fields["type"].default == notice.await_type)
        waits = "still waits" if notice.escalated else "waits"
        return f"{waits} for {noun}" if (noun := next((row.record.noun for row in rows), "")) else waits
    match _outcome(notice):
        case "canceled":
            return "was canceled"
        case "closed":
            return "closed its conversation"
        case "gave_up":
            return f"gave up: {notice.reason.replace('_', ' ')}"
        case outcome:
            return outcome


def _outcome(notice: Notice) -> str:
    return notice.reason if notice.reason in get_args(Outcome) else "gave_up"


def _readable(text: str, most: int) -> str:
    return clip(visible(text.strip(), keep="\n"), most)


def _fit(lines: Iterable[str], most: int) -> Iterable[str]:
    for line in lines:
        most -= len(line) + 1
        if most < 0:
            yield "…"
            return
        yield line
