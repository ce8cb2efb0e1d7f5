"""A model's input in one turn: the transcript, and this request's notices."""

from collections.abc import Mapping
from dataclasses import replace

from pydantic_ai.messages import ModelMessage, SystemPromptPart
from pydantic_ai.models import ModelRequestParameters
from temporalio.exceptions import ApplicationError

from sojourn.contracts.plan import PlanInput, PlanResult, Usage
from sojourn.core.payload.unknown_outcome import changes_nothing
from sojourn.core.run.totals import add_usage
from sojourn.models.compaction import with_part
from sojourn.models.compactor import Compactor
from sojourn.models.conversation import ModelConversations
from sojourn.models.names import Names, wire_name
from sojourn.models.offered import Offer
from sojourn.models.result_text import reminders
from sojourn.models.set_aside import SetAside, attempts_after, filtered, without_set_aside

__all__ = ["ModelInput", "server_notes"]

MAX_NOTES = 8_000


class ModelInput:
    def __init__(
        self,
        conversations: ModelConversations,
        turn: PlanInput,
        compactor: Compactor | None,
        offer: Offer | None = None,
    ) -> None:
        self._conversations = conversations
        self._turn = turn
        self._compactor = compactor
        self._notes: list[str] = []
        self._is_shrunk = False
        self._offer = offer or Offer([])
        self._attempts: list[tuple[SetAside, ...]] | None = None
        self._reads = {spec.id for spec in turn.tools if changes_nothing(spec)}
        self._filtered = filtered(turn.messages)
        self._set_aside = self._filtered
        self._leave_out()

    def _leave_out(self) -> None:
        turn, messages = self._turn, without_set_aside(self._turn.messages)
        for step in self._set_aside:
            messages = step.applied(messages)
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
        await self._conversation.load_pictures()
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

    def told(self, used: Usage) -> int | None:
        """Return the tokens that the plan has to record, or None."""
        is_told = self._compactor is not None and self._compactor.is_told(used)
        return used.input_tokens + used.output_tokens if is_told else None

    def recorded(self, plan: PlanResult, used: Usage) -> PlanResult:
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
