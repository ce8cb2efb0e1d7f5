"""Opening: what a form gives to an agent: a message with its files, or what one of its tools takes; and the labels of a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sojourn.authoring.agent import ExportedTool
from sojourn.authoring.app import App
from sojourn.console.form import Form
from sojourn.console.views.answer_form import PREFIX, AnswerField, fields_in, values_in
from sojourn.console.views.attachments import MOST_BYTES, File, part_of
from sojourn.contracts.message import Message, TextPart
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.errors import InvalidInput
from sojourn.http.problems import Problem
from sojourn.http.routes.runs import labels_of

__all__ = ["Way", "labels_in", "message_in", "ways_of"]


@dataclass(frozen=True, slots=True)
class Way:
    """A way to give an agent its task: the fields of a tool by which other agents use it."""

    tool: ExportedTool[..., Any]

    @property
    def id(self) -> str:
        """The tool's id."""
        return self.tool.id

    @property
    def title(self) -> str:
        """Its title."""
        return self.tool.spec.title

    @property
    def description(self) -> str:
        """What it says of itself."""
        return self.tool.spec.description

    @property
    def fields(self) -> Sequence[AnswerField]:
        """What it takes."""
        return fields_in(self.tool.spec.payload.json_schema, [], self.tool.declared.example or {})

    def message_in(self, form: Form) -> str:
        """The message that another agent's call would be, of the fields that a form sends.

        Raises:
            InvalidInput: They do not fit the tool.
        """
        given = {
            each.removeprefix(PREFIX): form.text(each) for each in form.names() if each.startswith(PREFIX)
        }
        call = ToolRequest(name=self.id, payload=values_in(self.fields, given))
        payload = self.tool.check(call)
        if isinstance(payload, ToolResult):
            raise InvalidInput(str(payload.error))
        return self.tool.messages(payload)[-1].text


def ways_of(app: App, agent_id: str) -> list[Way]:
    """The tools by which agents of the app use an agent, of those whose calls are a message and nothing else."""
    found: dict[str, Way] = {}
    for user in app.list_agents():
        for tool in app.tools_of(user).values():
            if isinstance(tool, ExportedTool) and tool.agent.id == agent_id and tool.declared.system is None:
                found[tool.id] = Way(tool)
    return list(found.values())


def message_in(form: Form, files: list[File]) -> str | Message:
    """The message of a form's field `text`, with its files.

    Raises:
        Problem: There is nothing in it, or the files are too large.
    """
    text = form.text("text")
    if sum(len(file.body) for file in files) > MOST_BYTES:
        raise Problem(
            413,
            "too_large",
            f"the files have more than {MOST_BYTES // 1000} kB together",
            then="Attach smaller ones, or say where they are.",
        )
    if not text.strip() and not files:
        raise Problem(422, "invalid_input", "there is no message", then="Write something, and send it again.")
    if not files:
        return text
    texts = [TextPart(type="text", text=text)] if text.strip() else []
    return Message(role="user", parts=[*texts, *(part_of(file) for file in files)])


def labels_in(form: Form) -> dict[str, str]:
    """The labels of a form's field `labels`, one `name=value` a line or between commas; raises as `labels_of`."""
    given = form.text("labels").replace(",", "\n").split("\n")
    return labels_of([each.strip() for each in given if each.strip()])
