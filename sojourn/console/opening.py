"""Read the form that starts a run.

It has a message with its files, or the payload of one of the agent's tools, and the run's labels.
"""

from dataclasses import dataclass
from typing import Any

from sojourn.authoring.agent import ExportedTool
from sojourn.authoring.app import App
from sojourn.console.form import Form
from sojourn.console.views.attachments import MOST_BYTES, File, part_of
from sojourn.contracts.message import Message, TextPart
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.errors import InvalidInput
from sojourn.forms import FormField, form_fields, read_value, whole_field
from sojourn.http.problems import Problem
from sojourn.http.routes.runs import labels_of

__all__ = ["Way", "labels_in", "message_in", "ways_of"]


@dataclass(frozen=True, slots=True)
class Way:
    """A way to give an agent its task: the fields of a tool that wraps the agent.

    Other agents call the agent with this tool.
    """

    tool: ExportedTool[..., Any]

    @property
    def id(self) -> str:
        """The tool's id."""
        return self.tool.id

    @property
    def title(self) -> str:
        """Title of the tool, as people see it."""
        return self.tool.spec.title

    @property
    def description(self) -> str:
        """Description of the tool."""
        return self.tool.spec.description

    @property
    def fields(self) -> tuple[FormField, ...]:
        """Fields of the payload: one for each value, or one for all of them as JSON."""
        schema, example = self.tool.spec.payload.json_schema, self.tool.declared.example
        return form_fields(schema, "field", example) or (whole_field(schema, "whole", "Arguments", example),)

    def read(self, form: Form) -> tuple[tuple[FormField, ...], dict[str, Any]]:
        """Return the fields with the form's values and faults, and the payload."""
        is_flat = self.fields[0].key != "whole"
        return read_value(self.fields, self.tool.spec.payload.json_schema, form, is_flat=is_flat)

    def message_of(self, payload: dict[str, Any]) -> str:
        """Return the message that another agent's call with a payload would be.

        Raises:
            InvalidInput: It does not fit the tool.
        """
        checked = self.tool.check(ToolRequest(name=self.id, payload=payload))
        if isinstance(checked, ToolResult):
            raise InvalidInput(str(checked.error))
        return self.tool.messages(checked)[-1].text


def ways_of(app: App, agent_id: str) -> list[Way]:
    """Return the tools that other agents of the app use to call an agent.

    Only tools whose calls are a message and nothing else are included.
    """
    found: dict[str, Way] = {}
    for user in app.list_agents():
        for tool in app.tools_of(user).values():
            if isinstance(tool, ExportedTool) and tool.agent.id == agent_id and tool.declared.system is None:
                found[tool.id] = Way(tool)
    return list(found.values())


def message_in(form: Form, files: list[File]) -> str | Message:
    """Return the message of a form's field `text`, with its files.

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
    """Return the labels of a form's field `labels`. Raises as `labels_of`.

    The field has one `name=value` per line, or several between commas.
    """
    given = form.text("labels").replace(",", "\n").split("\n")
    return labels_of([each.strip() for each in given if each.strip()])
