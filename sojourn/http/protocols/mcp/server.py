"""MCP server whose tools are the agents, and whose resources are their artifacts."""

import base64
import json
from collections.abc import Iterator
from contextlib import aclosing
from itertools import count
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    BlobResourceContents,
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
from sojourn.answers import parse_answer, read_verdict
from sojourn.attachments import guessed_type
from sojourn.contracts.attachment import MAX_ATTACHMENTS, AttachmentRecord, attachment_path
from sojourn.contracts.message import Message
from sojourn.contracts.principal import Principal
from sojourn.contracts.record import suggestion
from sojourn.errors import SojournError
from sojourn.http.answering import submit_answer
from sojourn.http.problems import Problem, problem_of
from sojourn.http.protocols.bodies import file_part, text_part
from sojourn.http.protocols.mcp.content import (
    ANSWER,
    ARTIFACTS,
    Context,
    asking_of,
    elicitation_of,
    error_result,
    explain_look,
    explain_next,
    explain_waits,
    key_of,
    progress_of,
    ref_of,
    request_scope_of,
    respond,
    result_of,
    with_mcp_errors,
)
from sojourn.http.protocols.mcp.tasks import declares_tasks, serve_tasks, task_result
from sojourn.http.protocols.messages import IncomingMessage, deliver_to_session, start_once, token_of_task
from sojourn.http.protocols.reply import AgentReply, follow, read, read_timeline
from sojourn.http.protocols.reply_token import ReplyToken
from sojourn.http.protocols.waits import explain_external_calls
from sojourn.http.routes.parameters import RequestScope, ServerStopping
from sojourn.http.security import audit
from sojourn.http.security.file_bodies import release_files
from sojourn.http.security.principals import require
from sojourn.http.service import Service

__all__ = ["check_arguments", "server_of"]

PATIENCE = 30.0
"""Seconds after which to answer a call that waits only for external results.

MCP hosts wait little longer.
"""

MAX_BLOB_BYTES = 8_000_000
"""Largest file that is read as a resource, in one answer. A larger one is downloaded by its address."""

INSTRUCTIONS = f"""Each tool is an agent, except for `{ANSWER}`. Call an agent with a `message` that says what is to be done; \
it may take minutes, and its run goes on if the call ends. The same `session_id` goes on with a conversation; without one \
each call stands alone. Repeat the `request_id` when you send a call again, so that nothing starts twice.
If the result says that the agent asks something, put the question to the user and send the user's words by `{ANSWER}`. \
`{ANSWER}` without an answer tells whether the task goes on. A call that needs approval can be denied by it, and not approved.
Artifacts of a run are resources, to which the result links."""

_MESSAGE = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "description": "The task for the agent."},
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
        "files": {
            "type": "array",
            "maxItems": MAX_ATTACHMENTS,
            "description": "Files that go with the message.",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "maxLength": 200},
                    "mimeType": {"type": "string", "maxLength": 200},
                    "data": {"type": "string", "description": "The content in base64."},
                },
                "required": ["data"],
                "additionalProperties": False,
            },
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
            "description": "The person's answer. `no` and a reason denies a call.",
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
    def __init__(self, service: Service) -> None:
        self._service = service
        self._names = _names(service.app.list_agents())

    async def list_tools(self, context: Context, _params: PaginatedRequestParams | None) -> ListToolsResult:
        audit.bind_read(call="tools/list")
        require(asking_of(context), "viewer")
        tools = [_tool(self._service, name, agent_id) for name, agent_id in self._names.items()]
        about = "Answer a question that an agent has asked, or without an answer look whether it goes on."
        return ListToolsResult(tools=[*tools, Tool(name=ANSWER, description=about, input_schema=_ANSWER)])

    async def call_tool(self, context: Context, params: CallToolRequestParams) -> Any:
        """Start a run, answer a wait, or continue a task.

        Errors become the result of the tool, which models read.
        """
        service, asking, arguments = self._service, asking_of(context), dict(params.arguments or {})
        attending = request_scope_of(service, context)
        if params.name != ANSWER or arguments.get("answer"):
            audit.bind(call="tools/call", tool=params.name)
        else:
            audit.bind_read(call="tools/call", tool=params.name)
        if params.name != ANSWER and params.name not in self._names:
            raise MCPError(
                INVALID_PARAMS, f"there is no tool {params.name[:200]!r}; tools/list lists the tools"
            )
        if params.request_state and ReplyToken.parse(params.request_state) is None:
            raise MCPError(INVALID_PARAMS, "requestState is none that this server gave; call the tool anew")
        try:
            require(asking, "user")
            if not params.request_state:
                schema = _ANSWER if params.name == ANSWER else _MESSAGE
                check_arguments(params.name, schema, arguments)
            if params.request_state or params.name == ANSWER or not declares_tasks(context):
                attending.count()
            if params.request_state:
                reply = await _respond(service, asking, params)
            elif params.name == ANSWER:
                reply = await _answer(service, asking, arguments)
            else:
                token = await _start(service, asking, self._names[params.name], arguments)
                audit.bind(run_id=token.run_id)
                if declares_tasks(context):
                    return task_result(token)
                reply = AgentReply(token, is_task=True)
            return await _result(attending, context, reply)
        except (Problem, SojournError) as error:
            problem = problem_of(error)
            audit.bind(code=problem.code)
            return error_result(f"{problem.detail}\n{problem.then}", code=problem.code)

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
        artifact = await run.artifact(ref)
        if artifact.attachment:
            return await self._read_file(asking, run.id, artifact.attachment, params.uri)
        text = json.dumps(artifact.data, ensure_ascii=False)
        contents = TextResourceContents(uri=params.uri, mime_type="application/json", text=text)
        return ReadResourceResult(contents=[contents])

    async def _read_file(
        self, asking: Principal, run_id: str, file: AttachmentRecord, uri: str
    ) -> ReadResourceResult:
        if file.size > MAX_BLOB_BYTES:
            raise Problem(
                413,
                "too_large",
                f"a file of a resource has at most {MAX_BLOB_BYTES:,} bytes",
                then=f"Get {self._service.prefix}{attachment_path(run_id, file.id)} of the service.",
                uri=uri,
            )
        _, chunks = await self._service.attachment(asking, run_id, file.id)
        blob = base64.b64encode(b"".join([chunk async for chunk in chunks])).decode()
        contents = BlobResourceContents(uri=uri, mime_type=file.media_type, blob=blob)
        return ReadResourceResult(contents=[contents])


def server_of(service: Service) -> Server[Any]:
    answers = _Answers(service)
    server: Server[Any] = Server(
        service.app.name or "sojourn",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=with_mcp_errors(answers.list_tools),
        on_call_tool=answers.call_tool,
        on_list_resources=answers.list_resources,
        on_list_resource_templates=answers.list_templates,
        on_read_resource=with_mcp_errors(answers.read_resource),
    )
    serve_tasks(server, service)
    return server


def _names(agent_ids: list[str]) -> dict[str, str]:
    """Map tool names to agent ids.

    Hosts allow no dot in a tool's name. An agent keeps its id if another tool has its plain name.
    """
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


def _message_of(arguments: dict[str, Any], text: str) -> Message:
    files = [
        file_part(
            str(each.get("mimeType") or guessed_type(str(each.get("name", "")))),
            data=str(each["data"]),
            title=each.get("name"),
        )
        for each in arguments.get("files", ())
    ]
    return Message(role="user", parts=[text_part(text), *files])


async def _start(service: Service, asking: Principal, agent_id: str, arguments: dict[str, Any]) -> ReplyToken:
    message = _text(arguments, "message")
    if not message:
        raise Problem(422, "invalid_input", "message is missing", then="Give the task for the agent.")
    session_id, key = _text(arguments, "session_id", most=200), _text(arguments, "request_id", most=200)
    sent = _message_of(arguments, message)
    if session_id:
        incoming = IncomingMessage(sent, key)
        token = await deliver_to_session(service, asking, agent_id, session_id, incoming, approves=False)
    else:
        token = await start_once(service, asking, agent_id, [sent], key)
    release_files()
    return token


async def _respond(service: Service, asking: Principal, params: CallToolRequestParams) -> AgentReply:
    token = await token_of_task(service, asking, params.request_state or "")
    reply = await read(service, token, is_task=True)
    for view in list(reply.waits):
        response = (params.input_responses or {}).get(key_of(view))
        if isinstance(response, ElicitResult) and not await respond(service, asking, view, response, token):
            detail = "the form was dismissed; the agent still waits"
            raise Problem(409, "canceled", detail, then=explain_next([view], token))
    return AgentReply(token, is_task=True)


async def _answer(service: Service, asking: Principal, arguments: dict[str, Any]) -> AgentReply:
    token = await token_of_task(service, asking, _text(arguments, "task", most=4_000))
    audit.bind_read(run_id=token.run_id)
    await _require_own(service, asking, token)
    text, key = _text(arguments, "answer"), _text(arguments, "request_id", most=200)
    message = IncomingMessage(Message.user(text), key)
    reply = await read(service, token, is_task=True)
    if delivery := reply.answer_to(key):
        message.check_same(delivery, token.run_id)
        return reply
    calls = [view for view in reply.waits if view.call]
    view = next((view for view in reply.waits if not view.call), reply.wait)
    if not text or view is None:
        return reply
    verdict = read_verdict(text)
    if view.call and (verdict.is_approved or not verdict.is_plain):
        raise Problem(
            403, "forbidden", f"the tool `{ANSWER}` approves no call", then=explain_waits(calls, token)
        )
    conversation = service.client.get_run(token.run_id)
    answer = parse_answer(view, text)
    await submit_answer(service, asking, view, answer, message_id=key, conversation=conversation)
    return AgentReply(token, is_task=True)


async def _require_own(service: Service, asking: Principal, token: ReplyToken) -> None:
    """Check that the principal has started the task's run, or has sent it a message.

    The model of a host calls `answer`, and it may have read the task's id in a text that another person wrote.
    """
    principal = (await service.client.get_run(token.run_id).status()).principal
    if principal is not None and principal.subject == asking.subject:
        return
    delivered = (await read_timeline(service, ReplyToken(token.run_id))).delivered.values()
    if not any(each.event.by == asking.subject for each in delivered):
        raise Problem(
            403,
            "forbidden",
            f"the tool `{ANSWER}` goes on with tasks of yours only, and another principal has asked for this one",
            then="Answer it in the console, or by the API.",
            run_id=token.run_id,
        )


async def _result(
    attending: RequestScope, context: Context, reply: AgentReply
) -> CallToolResult | InputRequiredResult:
    """Follow a reply to its end, and report its progress.

    If the reply waits for an answer, return its elicitations. If it waits for external calls, explain
    which results are missing.
    """
    note, numbers = "", count(1)
    while reply.state == "open" and not note:
        try:
            await attending.wait(_follow_to_end(attending.service, context, reply, numbers), PATIENCE)
        except ServerStopping:
            note = "This process of the service stops; the agent goes on."
        except TimeoutError:
            note = await explain_external_calls(attending.service, reply.token.run_id)
    if note:
        return CallToolResult(content=[TextContent(type="text", text=f"{note} {explain_look(reply.token)}")])
    if reply.state != "asked":
        return result_of(reply)
    capabilities = context.session.client_capabilities
    if capabilities and capabilities.elicitation and context.protocol_version >= "2026":
        requests: InputRequests = {key_of(view): elicitation_of(view) for view in reply.waits}
        return InputRequiredResult(input_requests=requests, request_state=reply.token.text)
    return CallToolResult(content=[TextContent(type="text", text=explain_waits(reply.waits, reply.token))])


async def _follow_to_end(
    service: Service, context: Context, reply: AgentReply, numbers: Iterator[int]
) -> None:
    async with aclosing(follow(service, reply, deltas=False)) as steps:
        async for step in steps:
            if step.event and (message := progress_of(step.event)):
                await context.session.report_progress(next(numbers), message=message)


MAX_FAULTS = 5
"""Most faults that one response names."""


def check_arguments(tool: str, schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    validator: Any = Draft202012Validator(schema)
    faults = [
        clause
        for error in validator.iter_errors(arguments)
        for clause in _clauses(error, schema["properties"], arguments)
    ]
    if not faults:
        return
    more = [f"{len(faults) - MAX_FAULTS} more"] if len(faults) > MAX_FAULTS else []
    required = schema.get("required", [])
    names = ", ".join(f"{name} (required)" if name in required else name for name in schema["properties"])
    raise Problem(
        422,
        "invalid_input",
        f"the arguments of the tool `{tool}` do not fit: {'; '.join([*faults[:MAX_FAULTS], *more])}",
        then=f"Call it again with these fields: {names}.",
    )


def _clauses(error: ValidationError, properties: dict[str, Any], arguments: dict[str, Any]) -> list[str]:
    rule: Any = error.validator_value
    if error.validator == "additionalProperties":
        unknown = [name for name in arguments if name not in properties]
        return [
            f"there is no field {name[:200]}{suggestion(name[:200], list(properties))}" for name in unknown
        ]
    if error.validator == "required":
        return [f"{name} is missing" for name in rule if name not in arguments]
    field = ".".join(map(str, error.absolute_path))
    if error.validator == "maxLength":
        return [f"{field} is longer than {rule} characters"]
    return [f"{field} is not of type {rule}"]
