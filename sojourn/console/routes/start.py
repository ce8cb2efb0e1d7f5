"""Form at `/start` that starts a run, made from the agent's input schema."""

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from starlette.responses import Response

from sojourn.authoring.agent import ExportedTool
from sojourn.authoring.app import App
from sojourn.client.start import generate_id
from sojourn.console.form import Form, form_with_files, labels_in, message_in, most_bytes, split_uploads
from sojourn.console.page import Pages, Visit
from sojourn.contracts.message import Message
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.errors import InvalidInput, RunAlreadyExists, SojournError
from sojourn.forms import FormField, edit_rows, form_fields, read_number, read_value, whole_field
from sojourn.http.bodies import StartBody
from sojourn.http.problems import Problem, problem_of

__all__ = ["pages"]

pages = Pages()


@dataclass(frozen=True, slots=True)
class Way:
    """A way to give an agent its task: the fields of a tool that wraps the agent.

    Other agents call the agent with this tool.
    """

    tool: ExportedTool[..., Any]

    @property
    def id(self) -> str:
        return self.tool.id

    @property
    def title(self) -> str:
        return self.tool.spec.title

    @property
    def description(self) -> str:
        return self.tool.spec.description

    @property
    def fields(self) -> tuple[FormField, ...]:
        """Fields of the payload: one for each value, or one for all of them as JSON."""
        schema, example = self.tool.spec.payload.json_schema, self.tool.declared.example
        return form_fields(schema, "field", example) or (whole_field(schema, "whole", "Arguments", example),)

    def read(self, form: Form) -> tuple[tuple[FormField, ...], dict[str, Any]]:
        """Return the fields with the form's values and faults, and the payload.

        After a button that adds or removes a row, there are no faults.
        """
        is_flat = self.fields[0].key != "whole"
        if edited := edit_rows(self.fields, form, form.text("do")):
            return edited, {}
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


LIMITS = {"max_tool_calls": True, "max_tool_rounds": True, "max_tokens": True, "max_cost": False}
"""Limits that the form has, and whether they are whole numbers."""


@pages.get("/start")
async def start(visit: Visit) -> Response:
    """The form: first which agent."""
    agents = visit.service.app.list_agents()
    agent_id = visit.query("agent") or (agents[0] if len(agents) == 1 else "")
    return _form(visit, agent_id)


@pages.post("/start", role="user")
async def start_run(visit: Visit) -> Response:
    """Start the run, and go on to its page; a form that is sent again goes on to the same run."""
    form, files = await form_with_files(visit)
    agent_id, service = form.text("agent"), visit.service
    try:
        service.agent(agent_id)
        if way := _way(visit, agent_id, form.text("way")):
            fields, payload = way.read(form)
            if form.text("do"):
                return _form(visit, agent_id, given=form)
            if any(field.has_fault for field in fields):
                return _form(visit, agent_id, given=form, http_status=422)
            message = way.message_of(payload)
        else:
            message = message_in(form, files)
        body = _body(form, agent_id, message)
        run_id = service.choose_run_id(visit.asking, form.text("made") or generate_id(agent_id))
        assert run_id is not None
        try:
            await service.start(visit.asking, body, run_id)
        except RunAlreadyExists:
            if not await service.has_started(visit.asking, run_id, body):
                raise
    except (Problem, SojournError) as error:
        return _form(visit, agent_id, problem=problem_of(error), given=form)
    return visit.go(f"/runs/{run_id}")


def _way(visit: Visit, agent_id: str, way_id: str) -> Way | None:
    return next((way for way in ways_of(visit.service.app, agent_id) if way.id == way_id), None)


def _body(form: Form, agent_id: str, message: str | Message) -> StartBody:
    message, attachments = split_uploads(message)
    try:
        return StartBody(
            attachments=attachments,
            agent_id=agent_id,
            input=message if isinstance(message, str) else message.model_dump(mode="json"),  # pyright: ignore[reportArgumentType] - as JSON
            session_id=form.text("session").strip(),
            labels=labels_in(form),
            policy=_policy(form),  # pyright: ignore[reportArgumentType] - as JSON
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise InvalidInput(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def _policy(form: Form) -> dict[str, Any] | None:
    limits: dict[str, Any] = {}
    for name, is_whole in LIMITS.items():
        if text := form.text(name).strip():
            try:
                limits[name] = read_number(text, is_whole=is_whole)
            except ValueError as error:
                raise InvalidInput(f"{name.replace('_', ' ')}: {text[:40]!r} is no number") from error
    if any(value <= 0 for value in limits.values()):
        raise InvalidInput("a limit is above zero")
    return limits or None


def _form(
    visit: Visit,
    agent_id: str,
    *,
    problem: Problem | None = None,
    given: Form | None = None,
    http_status: int = 200,
) -> Response:
    app = visit.service.app
    agent = visit.service.agent(agent_id) if agent_id else None
    text = (given or Form({})).text
    way = _way(visit, agent_id, text("way") or visit.query("way")) if agent else None
    return visit.page(
        "start.html",
        http_status=problem.status if problem else http_status,
        agent=agent,
        agents=[app.agent(each) for each in app.list_agents()],
        tools=app.catalog(agent_id) if agent else [],
        ways=ways_of(app, agent_id) if agent else [],
        way=way,
        fields=(way.read(given)[0] if given else way.fields) if way else [],
        made=text("made") or (generate_id(agent_id) if agent else ""),
        session_id=text("session"),
        text=text("text"),
        labels=text("labels"),
        limits={name: text(name) for name in LIMITS},
        problem=problem,
        most_bytes=most_bytes(visit.service),
    )
