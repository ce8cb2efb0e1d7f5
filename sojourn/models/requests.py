"""A model's input in one turn, and the requests of its plan.

A program that requests a typed answer gets a valid one or an error, so a run whose model gives none fails.
It fails as a value: the plan records the usage of its requests and each correction, and the error has the
last answer and the calls carried out.

A correction answers each call of the response. A response without calls and text is left out, and the
correction ends the request that it answered: several providers refuse a blank response, or thinking alone,
when it is sent back.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from temporalio.exceptions import ApplicationError

from sojourn.contracts.plan import PlanInput, PlanResult, Usage
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.payload.hints import CUT_OFF
from sojourn.core.payload.unknown_outcome import changes_nothing
from sojourn.core.run.totals import add_usage
from sojourn.models.attachments import Takes, notes_on
from sojourn.models.compaction import with_part
from sojourn.models.compactor import Compactor
from sojourn.models.conversation import ModelConversations
from sojourn.models.names import Names, wire_name
from sojourn.models.offered import Offer
from sojourn.models.outcome import Correction, ModelReply
from sojourn.models.portable import refuses_ids, with_plain_ids
from sojourn.models.result_text import reminders
from sojourn.models.set_aside import SetAside, attempts_after, filter_refused, without_set_aside
from sojourn.models.tool_offers import RefusedTools
from sojourn.values.text import clip, count_noun

__all__ = ["ModelInput", "Requests", "give_up", "server_notes"]

MAX_NOTES = 8_000


class ModelInput:
    def __init__(
        self,
        conversations: ModelConversations,
        turn: PlanInput,
        compactor: Compactor | None,
        offer: Offer | None = None,
        takes: Takes = lambda _media_type: True,
    ) -> None:
        self._takes = takes
        self._conversations = conversations
        self._turn = turn
        self._compactor = compactor
        self._notes: list[str] = []
        self._unseen: list[str] = []
        """The notes of files that the model does not get."""
        self._is_shrunk = False
        self._offer = offer or Offer([])
        self._attempts: list[tuple[SetAside, ...]] | None = None
        self._reads = {spec.id for spec in turn.tools if changes_nothing(spec)}
        self._filtered = filter_refused(turn.messages)
        self._set_aside = self._filtered
        self._leave_out()

    def _leave_out(self) -> None:
        turn, messages = self._turn, without_set_aside(self._turn.messages)
        for step in self._set_aside:
            messages = step.apply(messages)
        self._messages = messages
        self._conversation = self._conversations.read(
            turn.run.run_id,
            messages,
            [spec.id for spec in turn.tools],
            self._offer.keys,
            self._offer.deferred_ids,
            self._reads,
        )

    @property
    def names(self) -> Names:
        return self._conversation.names

    def messages(self) -> list[ModelMessage]:
        *before, last = self._conversation.request()
        notices = [SystemPromptPart(text, scope="request") for text in reminders(self._turn, wire_name)]
        return [*before, replace(last, parts=[*last.parts, *notices])] if notices else [*before, last]

    async def look(self) -> None:
        await self._conversation.load_pictures(self._takes)
        self._notes = [note for note in self._notes if note not in self._unseen]
        self._unseen = notes_on(self._messages, self._conversation.files)
        self.note(*self._unseen)
        self._conversations.keep(self._turn.run.run_id, self._conversation)

    def drop_pictures(self) -> bool:
        """Stop sending pictures. Return False without any."""
        return self._conversation.drop_pictures()

    async def fit(self, parameters: ModelRequestParameters) -> None:
        if self._compactor:
            self.note(await self._compactor.fit(self._conversation, self._messages, parameters))

    async def shrink(self, parameters: ModelRequestParameters) -> bool:
        """Compact, once, the transcript of a request that was refused as too long."""
        if self._compactor is None or self._is_shrunk:
            return False
        self._is_shrunk = True
        note = await self._compactor.shrink(self._conversation, self._messages, parameters)
        self.note(note)
        return note is not None

    def set_aside(self, error: ApplicationError) -> bool:
        """Leave out the next suspect of the provider's refusal, and it alone."""
        if self._attempts is None:
            self._attempts = attempts_after(self._messages, error, self._reads)
        if not self._attempts:
            return False
        self._set_aside = (*self._filtered, *self._attempts.pop(0))
        self._leave_out()
        return True

    def tokens_to_record(self, used: Usage) -> int | None:
        """Return the tokens that the plan has to record, or None."""
        is_told = self._compactor is not None and self._compactor.is_told(used)
        return used.input_tokens + used.output_tokens if is_told else None

    def record(self, plan: PlanResult, used: Usage) -> PlanResult:
        message, final, unrecorded = plan.message, plan.final_response, self._conversation.unrecorded
        if unrecorded:
            part, by_summary = unrecorded
            used = add_usage(used, by_summary)
            message = message and with_part(message, part)
            final = final and with_part(final, part)  # for a fork that continues after the answer
        for step in self._set_aside:
            message = message and with_part(message, step.part)
            final = final and with_part(final, step.part)
            self.note(step.note)
        is_conversation = self._turn.turn_start > 0  # of a first turn there is little to keep
        if plan.failure or (plan.final_response and not is_conversation):
            self._conversations.drop(self._turn.run.run_id)
        return plan.model_copy(
            update={
                "usage": used,
                "message": message,
                "final_response": final,
                "notes": [*self._notes, *plan.notes],
            }
        )

    def note(self, *notes: str | None) -> None:
        self._notes.extend(note for note in notes if note)


def server_notes(instructions: Mapping[str, str]) -> list[str]:
    """Return MCP servers' instructions, the same in each request."""
    notes: list[str] = []
    for toolset_id, text in sorted(instructions.items()):
        note = f"About the tools of {toolset_id}, in the words of their server:\n{text}"
        if sum(map(len, notes)) + len(note) <= MAX_NOTES:
            notes.append(note)
    return notes


_MAX_ANSWER = 1_500
_MAX_WHY = 500
_MAX_CALLS = 5


def give_up(corrections: Sequence[Correction], reply: ModelReply, turn: PlanInput) -> PlanResult:
    """Return the plan for a response that has no correction left.

    Raises:
        ApplicationError: A limit ends the run in its last turn, without an answer.
    """
    last = corrections[-1]
    if last.otherwise is not None:
        return last.otherwise
    message = f"{_times(len(corrections) - 1)}: {clip(last.why or last.text, _MAX_WHY)}{_list_effects(turn)}"
    if turn.finalize:
        raise ApplicationError(message, type=last.code, non_retryable=True)
    error = ToolError.new(message, code=last.code)
    if answer := _answer(reply):
        cause = ToolError.new(f"the model's last answer was: {clip(answer, _MAX_ANSWER)}", code="LastAnswer")
        error = error.model_copy(update={"cause": cause})
    notes = [f"the model was corrected: {clip(each.why or each.text, _MAX_WHY)}" for each in corrections[:-1]]
    return PlanResult.fail(error, notes=notes)


def _times(corrections: int) -> str:
    if not corrections:
        return (
            "the model did not give a valid answer, and the run has no tokens or money left for a correction"
        )
    times = "once" if corrections == 1 else f"{corrections} times"
    return f"the model was corrected {times} and still did not give a valid answer"


def _answer(reply: ModelReply) -> str:
    if text := reply.message.text.strip():
        return text
    requests = [call.request for call in reply.message.tool_calls]
    return "\n".join(
        each.raw if each.raw is not None else json.dumps(each.payload, ensure_ascii=False)
        for each in requests
    )


def _list_effects(turn: PlanInput) -> str:
    """Return, as a clause, the calls that may have changed something."""
    reads = {spec.id for spec in turn.tools if spec.annotations.read_only}
    results = [each for message in turn.messages[turn.turn_start :] for each in message.tool_results]
    made = [each for each in results if each.ok and each.name not in reads]
    if not made:
        return ""
    listed = ", ".join(f"{each.name} ({each.tool_call_id})" for each in made[-_MAX_CALLS:])
    more = f"{count_noun(len(made), 'call')}, the last ones " if len(made) > _MAX_CALLS else ""
    return f"; before that the run had carried out {more}{listed}"


_NO_THINKING = {"type": "disabled"}

_WANTS_THINKING = re.compile(r"expected `?thinking|must start with a thinking block", re.IGNORECASE)
"""Anthropic's refusal of a last message without reasoning, such as after it was left out."""

MORE_ROOM = 2
"""The factor of the output limit for the response after one that was cut off."""


class Requests:
    """The requests of one plan.

    After a response that was cut off at the output limit, in this plan or in the last one, the limit is
    raised once, if the settings have one and the run has tokens left.
    """

    def __init__(
        self,
        turn: PlanInput,
        reading: ModelInput,
        settings: ModelSettings,
        parameters: ModelRequestParameters,
        refused: RefusedTools,
        *,
        plain_ids: bool = False,
    ) -> None:
        self.parameters = parameters
        self.may_call = bool(parameters.function_tools) and turn.finalize is None
        self._reading = reading
        self._refused = refused
        self._left = turn.caps.tokens
        self._settings = settings
        self.settings = self._raise_limit() if any(map(_is_cut_off, turn.tool_results)) else settings
        self.messages: list[ModelMessage] = reading.messages()
        self.plain_ids = plain_ids
        self._has_own = False

    @property
    def outgoing_messages(self) -> list[ModelMessage]:
        return with_plain_ids(self.messages) if self.plain_ids else self.messages

    @property
    def output_limit(self) -> int | None:
        return self.settings.get("max_tokens")

    def offers(self, name: str) -> bool:
        return any(tool.name == name for tool in self.parameters.function_tools)

    def withhold(self, error: ApplicationError) -> bool:
        """Leave out the tools that a refusal names. Return whether it names any."""
        less = self._refused.without(error.__context__, self.parameters)
        self.parameters = less or self.parameters
        return less is not None

    async def repair(self, error: ApplicationError) -> bool:
        """Change the refused request. Return whether to send another one."""
        if error.type == "ModelRejected":
            self.parameters = self._refused.restore(self.parameters)
        if error.type == "ContextWindowExceeded" and await self._reading.shrink(self.parameters):
            self.messages = self._reading.messages()
            return True
        if error.type == "ModelRejected" and self.settings != self._settings:
            self.settings = self._settings  # the model may generate no more than that
            return True
        if error.type == "ModelRejected" and _WANTS_THINKING.search(error.message) and self._stop_thinking():
            return True
        if error.type == "ModelRejected" and not self.plain_ids and refuses_ids(error.message):
            self.plain_ids = True
            return True
        if self._has_own:
            return False
        if error.type == "ModelRejected" and self._reading.drop_pictures():
            self.messages = self._reading.messages()
            return True
        if self._reading.set_aside(error):
            await self._reading.look()
            self.messages = self._reading.messages()
            return True
        return False

    def _stop_thinking(self) -> bool:
        if self._settings.get("anthropic_thinking") == _NO_THINKING:
            return False
        self._settings, self.settings = _without_thinking(self._settings), _without_thinking(self.settings)
        return True

    def add(self, messages: Sequence[ModelMessage]) -> None:
        self.messages = [*self.messages, *messages]
        self._has_own = True

    def correct(self, response: ModelResponse, correction: Correction) -> None:
        self._has_own = True
        if correction.needs_room:
            self.settings = self._raise_limit()
        answers: list[ModelRequestPart] = [
            ToolReturnPart(
                tool_name=call.tool_name,
                content=correction.answers.get(call.tool_call_id, correction.text),
                tool_call_id=call.tool_call_id,
                outcome="failed",
            )
            for call in response.tool_calls
        ]
        said = any(isinstance(part, TextPart) and part.content.strip() for part in response.parts)
        if answers or said:
            self.messages = [
                *self.messages,
                response,
                ModelRequest(answers or [UserPromptPart(correction.text)]),
            ]
            return
        *before, last = self.messages
        assert isinstance(last, ModelRequest)
        notice = SystemPromptPart(correction.text, scope="request")
        self.messages = [*before, replace(last, parts=[*last.parts, notice])]

    def _raise_limit(self) -> ModelSettings:
        """Return the settings with their output limit raised."""
        limit = self._settings.get("max_tokens")
        if limit is None:
            return self._settings
        most = limit * MORE_ROOM
        raised = most if self._left is None else max(limit, min(most, self._left))
        settings = self._settings.copy()
        settings["max_tokens"] = raised
        return settings


def _without_thinking(settings: ModelSettings) -> ModelSettings:
    changed: dict[str, Any] = {**settings, "anthropic_thinking": _NO_THINKING}
    changed.pop("thinking", None)
    return ModelSettings(**changed)


def _is_cut_off(result: ToolResult) -> bool:
    return result.error is not None and result.error.code == CUT_OFF
