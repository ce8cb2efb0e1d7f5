"""The server of MCP: its tools are the agents, and its resources their artifacts."""

import json
from collections.abc import Iterator
from contextlib import aclosing
from functools import partial
from itertools import count
from typing import Any

from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ElicitResult,
    InputRequests,
    InputRequiredResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    Tool,
)

from sojourn import __version__
from sojourn.contracts.message import Message
from sojourn.contracts.principal import Principal
from sojourn.errors import SojournError
from sojourn.http.attendance import Attendance, Stopping
from sojourn.http.locks.noted import note
from sojourn.http.locks.principals import require
from sojourn.http.problems import Problem, problem_of
from sojourn.http.protocols.attempts import attempted
from sojourn.http.protocols.following import follow, read
from sojourn.http.protocols.mcp.arguments import check_arguments
from sojourn.http.protocols.mcp.asking import Context, asking_of, attendance_of, told
from sojourn.http.protocols.mcp.formless import ANSWER, looks_of, then_of, told_of
from sojourn.http.protocols.mcp.inputs import key_of, request_of, respond
from sojourn.http.protocols.mcp.results import ARTIFACTS, failed, progress_of, ref_of, result_of
from sojourn.http.protocols.mcp.tasks import created, declares_tasks, serve_tasks, task_place
from sojourn.http.protocols.outside import told_of_outside
from sojourn.http.protocols.past import Delivered, past_of
from sojourn.http.protocols.place import Place, place_of_token
from sojourn.http.protocols.reading import Reading
from sojourn.http.protocols.talking import Said, ask_once, repeated, say_in_session
from sojourn.http.protocols.verdict import verdict_of
from sojourn.http.service import Service

__all__ = ["server_of"]

PATIENCE = 30.0
"""Seconds after which a call that waits only for results from outside is answered; what hosts of MCP wait is little more."""

_MESSAGE = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "description": "What the agent is asked to do."},
        "session_id": {
            "type": "string",
            "maxLength": 200,
            "description": "The conversation to go on with; of one request when left out.",
        },
        "request_id": {
            "type": "string",
            "maxLength": 200,
            "description": "Repeated by a call that is sent again, which then starts nothing new.",
        },
    },
    "required": ["message"],
    "additionalProperties": False,
}
_ANSWER = {
    "type": "object",
    "properties": {
        "task": {"type": "string", "description": "The task, as the question tells it."},
        "answer": {
            "type": "string",
            "description": "The answer of the person who was asked; `no` and a reason denies a call.",
        },
        "request_id": {
            "type": "string",
            "maxLength": 200,
            "description": "Repeated by a call that is sent again, which then answers nothing new.",
        },
    },
    "required": ["task"],
    "additionalProperties": False,
}


class _Answers:
    """What the server answers.

    Args:
        service: The service.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._names = _names(service.app.list_agents())

    async def list_tools(self, context: Context, _params: PaginatedRequestParams | None) -> ListToolsResult:
        require(asking_of(context), "viewer")
        tools = [_tool(self._service, name, agent_id) for name, agent_id in self._names.items()]
        about = "Answer a question that an agent has asked, or without an answer look whether it goes on."
        return ListToolsResult(tools=[*tools, Tool(name=ANSWER, description=about, input_schema=_ANSWER)])

    async def call_tool(self, context: Context, params: CallToolRequestParams) -> Any:
        """Start, answer or go on; what goes wrong is the result of the tool, which models read."""
        service, asking, arguments = self._service, asking_of(context), dict(params.arguments or {})
        attending = attendance_of(service, context)
        if params.name != ANSWER or arguments.get("answer"):
            note(call="tools/call", tool=params.name)
        if params.name != ANSWER and params.name not in self._names:
            raise MCPError(
                INVALID_PARAMS, f"there is no tool {params.name[:200]!r}; tools/list lists the tools"
            )
        if params.request_state and place_of_token(params.request_state) is None:
            raise MCPError(INVALID_PARAMS, "requestState is none that this server gave; call the tool anew")
        try:
            require(asking, "user")
            if not params.request_state:
                schema = _ANSWER if params.name == ANSWER else _MESSAGE
                check_arguments(params.name, schema, arguments)
            if params.request_state or params.name == ANSWER or not declares_tasks(context):
                attending.count()
            if params.request_state:
                reading = await _responded(service, asking, params)
            elif params.name == ANSWER:
                reading = await _answered(service, asking, arguments)
            else:
                place = await _started(service, asking, self._names[params.name], arguments)
                note(run_id=place.run_id)
                if declares_tasks(context):
                    return created(place)
                reading = Reading(place, is_task=True)
            return await _result(attending, context, reading)
        except (Problem, SojournError) as error:
            problem = problem_of(error)
            note(code=problem.code)
            return failed(f"{problem.detail}\n{problem.then}", code=problem.code)

    async def list_resources(
        self, _context: Context, _params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        return ListResourcesResult(resources=[])

    async def list_templates(
        self, _context: Context, _params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        about = "An artifact of a run, by its reference; results of tools link to theirs."
        template = ResourceTemplate(
            name="artifact", uri_template=ARTIFACTS + "{ref}", description=about, mime_type="application/json"
        )
        return ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        asking, ref = asking_of(context), ref_of(params.uri)
        require(asking, "viewer")
        if ref is None or "#" not in ref:
            then = "Results of tools link to artifacts."
            raise Problem(404, "artifact_not_found", "there is no such resource", then=then, uri=params.uri)
        run = await self._service.run(asking, ref.partition("#")[0])
        text = json.dumps((await run.artifact(ref)).data, ensure_ascii=False)
        contents = TextResourceContents(uri=params.uri, mime_type="application/json", text=text)
        return ReadResourceResult(contents=[contents])


def server_of(service: Service) -> Server[Any]:
    """The server of a service."""
    answers = _Answers(service)
    server: Server[Any] = Server(
        service.app.name or "sojourn",
        version=__version__,
        on_list_tools=told(answers.list_tools),
        on_call_tool=answers.call_tool,
        on_list_resources=answers.list_resources,
        on_list_resource_templates=answers.list_templates,
        on_read_resource=told(answers.read_resource),
    )
    serve_tasks(server, service)
    return server


def _names(agent_ids: list[str]) -> dict[str, str]:
    """By the name of a tool, which hosts let have no dot, the agent; one whose name another has keeps its id."""
    names: dict[str, str] = {}
    for agent_id in agent_ids:
        plain = agent_id.replace(".", "_")
        names[agent_id if plain in names or plain == ANSWER else plain] = agent_id
    return names


def _tool(service: Service, name: str, agent_id: str) -> Tool:
    agent = service.app.agent(agent_id)
    about = (agent.description if agent else "") or f"The agent {agent_id}."
    return Tool(name=name, title=agent_id, description=about, input_schema=_MESSAGE)


def _text(arguments: dict[str, Any], name: str, *, most: int = 200_000) -> str:
    value = arguments.get(name, "")
    if not isinstance(value, str) or len(value) > most:
        raise Problem(
            422, "invalid_input", f"{name} is a text of at most {most:,} characters", then="Correct it."
        )
    return value


async def _started(service: Service, asking: Principal, agent_id: str, arguments: dict[str, Any]) -> Place:
    message = _text(arguments, "message")
    if not message:
        raise Problem(422, "invalid_input", "message is missing", then="Say what the agent is asked to do.")
    session_id, key = _text(arguments, "session_id", most=200), _text(arguments, "request_id", most=200)
    if session_id:
        said = Said(Message.user(message), key)
        return await say_in_session(service, asking, agent_id, session_id, said, approves=False)
    return await ask_once(service, asking, agent_id, [Message.user(message)], key)


async def _responded(service: Service, asking: Principal, params: CallToolRequestParams) -> Reading:
    """Take the responses to what a call has asked; the reply goes on from there."""
    place = await task_place(service, asking, params.request_state or "")
    reading = await read(service, place, is_task=True)
    for asked in list(reading.waits):
        response = (params.input_responses or {}).get(key_of(asked))
        if isinstance(response, ElicitResult) and not await respond(service, asking, asked, response, place):
            detail = "the form was dismissed; the agent still waits"
            raise Problem(409, "canceled", detail, then=then_of([asked], place))
    return Reading(place, is_task=True)


async def _answered(service: Service, asking: Principal, arguments: dict[str, Any]) -> Reading:
    place = await task_place(service, asking, _text(arguments, "task", most=4_000))
    await _require_own(service, asking, place)
    key = _text(arguments, "request_id", most=200)
    return await attempted(partial(_settled, service, asking, place, _text(arguments, "answer"), key))


async def _require_own(service: Service, asking: Principal, place: Place) -> None:
    """Check that a task is of a run that the principal has started, or has said something in.

    The model of a host calls `answer`, and it may have read the id of a task in a text that somebody else wrote.

    Raises:
        Problem: It is another one's.
    """
    principal = (await service.client.get_run(place.run_id).status()).principal
    if principal is not None and principal.subject == asking.subject:
        return
    delivered = (await past_of(service, place.run_id)).delivered.values()
    if not any(each.event.by == asking.subject for each in delivered):
        raise Problem(
            403,
            "forbidden",
            f"the tool `{ANSWER}` goes on with tasks of yours only, and another principal has asked for this one",
            then="Answer it in the console, or by the API.",
            run_id=place.run_id,
        )


async def _settled(service: Service, asking: Principal, place: Place, text: str, key: str) -> Reading:
    """Answer what a task asks, if it asks anything, once; the reply then goes on."""
    reading = await read(service, place, is_task=True)
    if event := reading.answers.get(key):
        repeated(Delivered(place, event), Said(Message.user(text), key))
        return reading
    calls = [each for each in reading.waits if each.code]
    asked = next((each for each in reading.waits if not each.code), reading.asked)
    if not text or asked is None:
        return reading
    verdict = verdict_of(text)
    if asked.code and (verdict.is_approved or not verdict.is_plain):
        raise Problem(403, "forbidden", f"the tool `{ANSWER}` approves no call", then=told_of(calls, place))
    await asked.settle(service, asking, text, place.run_id, key)
    return Reading(place, is_task=True)


async def _result(
    attending: Attendance, context: Context, reading: Reading
) -> CallToolResult | InputRequiredResult:
    """Follow a reply to its end, and tell its progress; or ask, or say which results from outside are not there."""
    told, numbers = "", count(1)
    while reading.state == "open" and not told:
        try:
            await attending.until(_told_to_end(attending.service, context, reading, numbers), PATIENCE)
        except Stopping:
            told = "This process of the service stops; the agent goes on."
        except TimeoutError:
            told = await told_of_outside(attending.service, reading.place.run_id)
    if told:
        return CallToolResult(content=[TextContent(type="text", text=f"{told} {looks_of(reading.place)}")])
    if reading.state != "asked":
        return result_of(reading)
    capabilities = context.session.client_capabilities
    if capabilities and capabilities.elicitation and context.protocol_version >= "2026":
        requests: InputRequests = {key_of(asked): request_of(asked) for asked in reading.waits}
        return InputRequiredResult(input_requests=requests, request_state=reading.place.token)
    return CallToolResult(content=[TextContent(type="text", text=told_of(reading.waits, reading.place))])


async def _told_to_end(service: Service, context: Context, reading: Reading, numbers: Iterator[int]) -> None:
    """Follow a reply to its end, and tell its progress."""
    async with aclosing(follow(service, reading, deltas=False)) as steps:
        async for step in steps:
            if message := progress_of(step.event):
                await context.session.report_progress(next(numbers), message=message)
