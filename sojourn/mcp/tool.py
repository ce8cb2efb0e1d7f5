"""A server's tool, under the same contract as every other tool.

The arguments arrive as the planner or model wrote them (SR-13), and are validated here against the server's
schema, with the errors and hints of any other tool (SR-14, SR-141).
"""

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sojourn.authoring.runnable import Filler, ProgressNote, reporter
from sojourn.contracts.ids import ToolId
from sojourn.contracts.tool_call import InputRequired, ToolCallMeta, ToolRequest
from sojourn.contracts.tool_error import FieldIssue, RetryHint, RetryReason, ToolError
from sojourn.contracts.tool_result import Artifact, ToolResult
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.payload import boundary, hints
from sojourn.core.payload.parse import same_arguments
from sojourn.core.payload.reading import fits_for_certain
from sojourn.core.payload.unknown_outcome import changes_nothing
from sojourn.core.schema.validate import Validator
from sojourn.mcp import errors
from sojourn.mcp.auth import GrantedTokens
from sojourn.mcp.caller import Caller
from sojourn.mcp.connection import ServerConnection
from sojourn.mcp.content import ABSENT, error_code, error_text, to_parts, to_result
from sojourn.mcp.elicitation import Rounds
from sojourn.mcp.limits import mask_secrets, progress_line
from sojourn.mcp.sign_in import asked_before, refused_sign_in, sign_in_required
from sojourn.mcp.spec_from_listing import Terms
from sojourn.serving.pace import fits, run_in_thread

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock

    from sojourn.mcp.session import OnProgress

__all__ = ["McpTool"]


class McpTool:
    """One tool of a server, or a stand-in, which looks its tool up at each call."""

    is_async = True
    fillers: Mapping[str, Filler | None] = MappingProxyType({})

    def __init__(
        self,
        spec: ToolSpec,
        name: str,
        terms: Terms,
        connection: ServerConnection,
        *,
        known: "Callable[[ToolCallMeta], Awaitable[Mapping[str, McpTool]]] | None" = None,
    ) -> None:
        self.spec = spec
        self.name = name
        self._terms = terms
        self._connection = connection
        self._known = known

    @property
    def id(self) -> ToolId:
        """`<service>.<toolset>.<tool>`."""
        return self.spec.id

    @property
    def validator(self) -> Validator:
        """Validates payloads by the server's schema, in the draft that it names."""
        return self._validator

    @property
    def whole_validator(self) -> Validator:
        """As `validator`: a server's tool has no injected fields."""
        return self._validator

    @functools.cached_property
    def _validator(self) -> Validator:
        return Validator(self.spec.payload.json_schema)

    @functools.cached_property
    def result_validator(self) -> Validator | None:
        schema = self.spec.result.json_schema
        return Validator(schema) if schema else None

    def call(self, **fields: Any) -> ToolRequest:
        """Return a request for this tool."""
        return ToolRequest(name=self.id, payload=fields)

    def takes(self, payload: dict[str, Any]) -> bool:  # noqa: ARG002 - the schema says all
        """Return True: a server's tool has no types beyond its schema."""
        return True

    def is_same(self, one: dict[str, Any], other: dict[str, Any]) -> bool:
        """Return whether the server's schema makes no difference of two payloads."""
        return same_arguments(self.validator, one, other)

    def check(self, call: ToolRequest) -> dict[str, Any] | ToolResult:
        """Return the valid payload of a call, or the result that refuses it."""
        return boundary.check_payload(self.spec, self.validator, call)

    def read(self, call: ToolRequest) -> ToolRequest | ToolResult:
        """Return the call with its arguments parsed, or the result that refuses them."""
        return boundary.read_call(self.spec, call)

    def prepare(
        self,
        payload: dict[str, Any],  # noqa: ARG002 - empty, because of `decode_in_executor`
        call: ToolRequest,
        meta: ToolCallMeta,
    ) -> Callable[[], Awaitable[ToolResult]]:
        """Return the function that validates the arguments and sends the call."""
        return functools.partial(self._check_and_run, call, meta)

    def deliver(self, call: ToolRequest, value: Any) -> ToolResult:
        """Return the result of a call from the server's value, unchanged."""
        return boundary.build_result(self.spec, call, value, lambda plain: plain)

    def accept(self, call: ToolRequest, value: Any) -> ToolResult:
        """Return the result of a call from an external value."""
        return self.deliver(call, value)

    async def _check_and_run(self, call: ToolRequest, meta: ToolCallMeta) -> ToolResult:
        """Validate the arguments, in a thread if it may cost much, and send the call."""
        arguments = boundary.parse_payload(self.spec, call)
        if isinstance(arguments, dict) and not fits_for_certain(self.validator, arguments):
            arguments = await run_in_thread(lambda: self.check(call))
        if isinstance(arguments, ToolResult):
            return arguments
        return await self._run(call, arguments, meta)

    async def _run(self, call: ToolRequest, arguments: dict[str, Any], meta: ToolCallMeta) -> ToolResult:
        """Carry out a call, or return that its principal has to sign in first."""
        own, action = asked_before(meta.input)
        if action and (refused := refused_sign_in(call, action)):
            return refused
        try:
            return await self._send(call, arguments, meta.model_copy(update={"input": own}))
        except errors.SignInRequired as needed:
            credentials = getattr(self._connection.transport, "credentials", None)
            if meta.principal is None or not isinstance(credentials, GrantedTokens):
                return boundary.refusal(call, hints.unavailable(call.name, str(needed)))
            return sign_in_required(call, needed, credentials.server, meta, own)

    async def _send(self, call: ToolRequest, arguments: dict[str, Any], meta: ToolCallMeta) -> ToolResult:
        """Send a call, or the responses to the input that it asked for.

        Returns the call's result.
        """
        if self._known is not None:
            known = await self._known(meta)
            if self.name not in known:
                return boundary.refusal(
                    call, hints.unknown_tool(call.name, [tool.id for tool in known.values()])
                )
            return await known[self.name].prepare({}, call, meta)()
        caller = Caller(meta, self._connection.secrets)
        progress = _progress(caller)
        send = functools.partial(self._connection.send_for, caller, self.name, arguments, progress)
        rounds = Rounds(send, lambda: caller.secrets, meta.input)
        try:
            answer = await rounds.finish()
        except errors.OversizedResponse as error:
            return boundary.refusal(call, hints.oversized_result(self.spec, error.size))
        except errors.MalformedResponse as error:
            return boundary.refusal(call, hints.malformed_response(self.spec, str(error)))
        except errors.ServerUnusable as error:
            return boundary.refusal(call, hints.unavailable(call.name, str(error)))
        except errors.UnsupportedElicitation as error:
            return _unsupported(call, error)
        except errors.ErrorResponse as error:
            fault, sent = error, None if meta.input else arguments
            return await run_in_thread(lambda: self._refuse(call, sent, fault), on=arguments)
        if isinstance(answer, InputRequired):
            return ToolResult(input_required=answer)
        return await self._read_answer(call, answer, rounds.secrets)

    def _refuse(
        self, call: ToolRequest, arguments: dict[str, Any] | None, error: errors.ErrorResponse
    ) -> ToolResult:
        text, code = str(error), error.code
        if code == errors.METHOD_NOT_FOUND or "unknown tool" in text.lower():
            self._connection.refresh()
        if code == errors.INVALID_PARAMS and arguments is not None:
            issue = FieldIssue(field="", constraint="rejected", expected_type=text[:200])
            return boundary.refusal(
                call, hints.hint_for_issues(self.spec, arguments, [issue], self.validator)
            )
        unknown = error.leaves_unknown and not changes_nothing(self.spec)
        told = ToolError.new(text, code=f"mcp_{code}").model_copy(update={"outcome_unknown": unknown})
        return boundary.refusal(call, (told, None))

    async def _read_answer(
        self, call: ToolRequest, answer: "CallToolResult", secrets: Sequence[str]
    ) -> ToolResult:
        is_structured = "structured_content" in answer.model_fields_set
        structured = answer.structured_content if is_structured else ABSENT
        if answer.is_error:
            return await run_in_thread(lambda: self._error(call, answer.content, structured, secrets))
        validator = self.result_validator
        content = await run_in_thread(
            lambda: to_result(answer.content, structured, is_structured=validator is not None),
            on=[structured, [getattr(block, "text", None) for block in answer.content]],
        )
        faults: str | list[FieldIssue] | None = content.fault
        sent = content.result if structured is ABSENT else structured
        if faults is None and validator is not None and not await fits(validator, sent):
            faults = await run_in_thread(lambda: validator.issues(sent))
        remarks = content.remarks
        if faults:
            if self._terms.results == "checked":
                return boundary.refusal(call, hints.malformed_response(self.spec, faults))
            remarks = [*remarks, hints.misfit_remark(faults)]
        return ToolResult(
            result=content.result, remarks=remarks, artifacts=self._artifacts(content.artifacts)
        )

    def _artifacts(self, data: Mapping[str, Any]) -> list[Artifact]:
        return [
            Artifact(
                kind=kind,
                media_type=boundary.picture_type(kind, each) if self._terms.pictures else "",
                data=each,
            )
            for kind, each in data.items()
        ]

    def _error(
        self, call: ToolRequest, content: "Sequence[ContentBlock]", structured: Any, secrets: Sequence[str]
    ) -> ToolResult:
        error = ToolError.new(
            error_text(content, structured, secrets), code=error_code(structured) or "mcp_tool_error"
        )
        artifacts = self._artifacts(to_parts(content)[1])
        return boundary.refusal(call, (error, None)).model_copy(update={"artifacts": artifacts})

    def __repr__(self) -> str:
        return f"<McpTool {self.id}>"


def _unsupported(call: ToolRequest, fault: errors.UnsupportedElicitation) -> ToolResult:
    hint = RetryHint(
        reason=RetryReason.MALFORMED_RESPONSE,
        tool=call.name,
        message=f"{call.name} cannot continue. Try arguments with which it need not ask, or another tool.",
    )
    error = ToolError.new(f"its MCP server cannot be answered: {fault}", code=fault.code)
    return boundary.refusal(call, (error, hint))


def _progress(caller: Caller) -> "OnProgress | None":
    """Return a callback that sends progress with this call's heartbeats, or None."""
    report = reporter.get()
    if report is None:
        return None

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        report(
            ProgressNote(progress_line(progress, total, message and mask_secrets(message, caller.secrets)))
        )

    return on_progress
