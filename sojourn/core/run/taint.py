"""Follow text from outside, such as web pages and mails, through a run.

A run is tainted once it has a result with such a text. From then on, a call that may destroy something needs a
person, whatever else lets it run. The mark is one of the run, not of single values: a model mixes all that it
reads.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from sojourn.contracts.awaits import Await, AwaitConfirmation
from sojourn.contracts.dispatch import Dispatch
from sojourn.contracts.message import Message
from sojourn.contracts.run import RunInput
from sojourn.contracts.run_policy import ApprovalPolicy
from sojourn.contracts.taint import Taint, TaintSource
from sojourn.contracts.tasks import PlanOutcome
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.awaits.confirmation import SOURCES, Decided
from sojourn.core.awaits.kinds import Answer
from sojourn.core.schema.texts import admits_text
from sojourn.values.visible import inert

__all__ = [
    "UNREAD_CODES",
    "is_closed",
    "kept_in_fork",
    "lift_taint",
    "result_taint",
    "taint_after",
    "taint_at_start",
    "taint_by_files",
    "taint_by_tools",
    "taint_counts",
    "taint_of",
    "taint_reason",
]

UNREAD_CODES = frozenset({"denied", "not_executed", "canceled", "time_budget", "history"})
"""Codes of results that the run makes itself, of calls that gave it nothing.

A worker's result with such a code has telemetry, and so counts as read.
"""


def taint_reason(spec: ToolSpec) -> str:
    """Return why results of a tool may hold text from outside, or an empty text.

    Only the app's own declaration counts for a trusted tool. An MCP server that leaves `openWorldHint` out
    says, by the protocol's default, that its tool reaches outside.
    """
    if not spec.trusted:
        return "untrusted_server"
    reaches = spec.annotations.open_world
    return "open_world" if reaches or (spec.kind == "mcp" and reaches is None) else ""


def is_closed(spec: ToolSpec) -> bool:
    """Return whether a result that fits the tool's declaration has no room for text.

    An MCP server's result may have parts that its schema does not cover.
    """
    return spec.kind != "mcp" and not admits_text(spec.result.json_schema)


def taint_at_start(opening: RunInput) -> Taint:
    """Return the taint with which a run begins: in a child run, that of its parent.

    Files and results of its messages may have such text too.
    """
    before, parent = opening.taint or Taint(), opening.parent
    before = before.found_in(parent.parent_run_id) if parent else before
    return _taint_by_results(taint_by_files(before, opening.messages), opening.messages)


def taint_after(
    taint: Taint | None, plan: PlanOutcome, executed: Iterable[ToolResult], now: datetime
) -> Taint | None:
    """Return the taint of a run after a step.

    None stays None: the run began under a version that does not follow the sources, and its plans find them
    in the transcript.
    """
    if taint is None:
        return None
    for call, dispatch, result in zip(plan.calls, plan.dispatches, executed, strict=False):
        if not (reason := result_taint(dispatch, result)):
            continue
        source = TaintSource(tool=call.name, tool_call_id=call.tool_call_id, reason=reason, at=now)
        own = result.taint  # it names the source better than the tool's declaration
        taint = taint.joining(own, now) if own and own.count else taint.adding(source)
    return taint


def lift_taint(taint: Taint | None, wait: Await | None, answer: Answer) -> Taint | None:
    """Return the taint of a run after an answer.

    An approval lifts only the sources that the approver was shown, never those that came since.
    """
    seen = wait.taint if isinstance(wait, AwaitConfirmation) and wait.lifts_taint else None
    lifts = isinstance(answer, Decided) and answer.approved and answer.scope == SOURCES
    return taint.lifting(seen.count) if taint and seen and lifts else taint


def taint_by_files(taint: Taint, messages: Iterable[Message]) -> Taint:
    """Return the taint of a run that gets messages of people.

    A file counts that a tool made of text from outside. What people write, and the files that they upload, do not.
    """
    for file in (file for message in messages for file in message.attachments if file.tainted):
        taint = taint.adding(
            TaintSource(tool="", tool_call_id="", reason="attachment", source=inert(file.name))
        )
    return taint


def result_taint(dispatch: Dispatch, result: ToolResult) -> str:
    """Return why the result of a call may hold text from outside, or an empty text."""
    if dispatch.closed and _is_bare(result):
        return ""
    if result.taint and result.taint.count:
        return result.taint.sources[-1].reason if result.taint.sources else "outside"
    # A program outside writes the error of its result, with its code.
    code = result.error.code if result.error else None
    is_unread = code in UNREAD_CODES and result.telemetry is None and dispatch.kind != "external"
    return "" if is_unread else dispatch.taints


def _is_bare(result: ToolResult) -> bool:
    # All other parts of a result may hold text.
    others = (result.artifacts, result.memory, result.remarks, result.bounds, result.retry_hint)
    return result.ok and not any(others)


def taint_of(messages: Sequence[Message], specs: Mapping[str, ToolSpec]) -> Taint:
    """Return the taint that follows from the results of a transcript.

    For a run whose workflow code does not follow the sources itself.
    """
    files = taint_by_files(Taint(), (message for message in messages if message.role != "tool"))
    return _taint_by_results(files, messages).joining(taint_by_tools(messages, specs), None)


def taint_by_tools(messages: Sequence[Message], specs: Mapping[str, ToolSpec]) -> Taint:
    """Return the taint by the declarations of the tools whose results are here.

    Results that name their sources themselves are left out.
    """
    taint = Taint()
    for result in (result for message in messages for result in message.tool_results):
        reason = "" if _is_marked(result) else _reason_by_tool(result, specs.get(result.name))
        if reason:
            taint = taint.adding(_source(result, reason))
    return taint


def _reason_by_tool(result: ToolResult, spec: ToolSpec | None) -> str:
    if spec:
        return taint_reason(spec)
    # A model's own question has no tool's id, and the answer to an invented call comes from the run.
    is_own = "." not in result.name or (result.error is not None and result.error.code == "unknown_tool")
    return "" if is_own else "unknown_tool"


def kept_in_fork(origin: Dispatch, present: Dispatch, result: ToolResult) -> Dispatch:
    """Return the dispatch of a call that a fork answers with the result of its origin.

    What held text from outside there does so here, whatever the tool says of its results today, which can only
    add.
    """
    reason = result_taint(origin, result)
    if not reason:
        return present if present.taints else present.model_copy(update={"closed": origin.closed})
    if not _is_marked(result):
        result = result.model_copy(update={"taint": Taint().adding(_source(result, reason))})
    return present.model_copy(update={"result": result, "taints": reason, "closed": False})


def _taint_by_results(taint: Taint, messages: Iterable[Message]) -> Taint:
    for result in (result for message in messages for result in message.tool_results):
        taint = taint.joining(result.taint, None) if result.taint else taint
    return taint


def _is_marked(result: ToolResult) -> bool:
    return result.taint is not None and result.taint.count > 0


def _source(result: ToolResult, reason: str) -> TaintSource:
    return TaintSource(tool=result.name, tool_call_id=result.tool_call_id, reason=reason)


def taint_counts(taint: Taint | None, approval: ApprovalPolicy) -> bool:
    """Return whether text from outside makes calls consequential in this run."""
    return taint is not None and taint.is_active and approval.tainted != "allow"
