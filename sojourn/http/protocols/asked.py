"""Asked: an open question or call to approve, as the text that a chat shows, and the text that settles it."""

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass

from sojourn.contracts.awaits import AwaitClarification, AwaitConfirmation
from sojourn.contracts.event import AwaitAnsweredEvent
from sojourn.contracts.principal import Principal
from sojourn.core.awaits.clarification import wanted
from sojourn.core.awaits.disclosure import disclose
from sojourn.core.values.visible import fence, inert, visible
from sojourn.errors import InvalidInput
from sojourn.http.deciding import decide, decided_by, require_approver
from sojourn.http.problems import Problem
from sojourn.http.protocols.markup import unmarked
from sojourn.http.protocols.verdict import Verdict, verdict_of
from sojourn.http.security import audit
from sojourn.http.security.principals import require
from sojourn.http.service import Service

__all__ = ["Asked"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a run waits for that a person can say."""

    run_id: str
    """The run that asks: the one that is followed, or a child run of it."""
    wait: AwaitClarification | AwaitConfirmation
    """The wait."""

    def is_settled_by(self, event: AwaitAnsweredEvent) -> bool:
        """Whether an event is the answer to this."""
        return (event.run_id, event.await_id) == (self.run_id, self.wait.id)

    @property
    def code(self) -> str:
        """What an answer names, so that it is about this call as it was shown, and about no other; empty for a question."""
        if not isinstance(self.wait, AwaitConfirmation):
            return ""
        told = [self.run_id, self.wait.id, self.wait.payload_digest]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:12]

    @property
    def text(self) -> str:
        """What a person reads in a chat, with how a call is decided there."""
        code = self.code
        if not code:
            return self.shown
        how = (
            f"Answer `yes {code}` to run it, or `no {code}` and a reason to deny it. Without the code, `yes` runs it and anything else "
            "denies it where the client sends this text back or names this response; elsewhere this is shown again."
        )
        return f"{self.shown}\n\n{how}"

    @property
    def shown(self) -> str:
        """What is asked. Of a call it begins with the tool and all arguments, so that who has seen this has seen what runs."""
        wait = self.wait
        if isinstance(wait, AwaitClarification):
            more = [visible(wait.clarifying_prompt, keep="\n")] if wait.clarifying_prompt else []
            fields = [f"Wanted: {', '.join(wanted(wait))}"] if wait.missing_fields else []
            return unmarked("\n\n".join([visible(wait.question, keep="\n"), *more, *fields]))
        block = "\n".join([str(wait.tool), *disclose(wait.payload, whole=True).lines])
        changed = [f"Changed since it was shown: {inert(', '.join(wait.changes))}"] if wait.changes else []
        prompt = inert(wait.prompt or wait.title or "May this call run?")
        return "\n\n".join([fence(block), *changed, prompt, *filter(None, [inert(decided_by(wait))])])

    async def settle(
        self, service: Service, asking: Principal, text: str, run_id: str, message_id: str = ""
    ) -> None:
        """Answer the question, or decide on the call as it was shown.

        Args:
            service: The service.
            asking: Who answers.
            text: The answer.
            run_id: The run that is followed; as a conversation it then knows the message.
            message_id: The id of the message that is the answer; empty where it has none.

        Raises:
            Problem: As `decide`.
            RunError: As `decide`.
        """
        if isinstance(self.wait, AwaitConfirmation):
            await self.decide(service, asking, verdict_of(text), run_id, message_id)
            return
        audit.bind_answer(self.run_id, self.wait.id)
        run = await service.run(asking, self.run_id)
        require(asking, "user")
        await run.answer(self.wait.id, text, principal=asking, message_id=message_id or None)
        await self._remember(service, run_id, message_id)

    async def decide(
        self, service: Service, asking: Principal, verdict: Verdict, run_id: str, message_id: str = ""
    ) -> None:
        """Decide on the call as it was shown, by a message; as `settle`.

        Raises:
            AwaitClosed: The wait is not open, or the message was delivered before.
            Problem: The principal is no approver, or means another call.
            RunError: The run does not take it.
        """
        wait = self.wait
        assert isinstance(wait, AwaitConfirmation)
        audit.bind_answer(self.run_id, wait.id, approved=verdict.is_approved, digest=wait.payload_digest)
        run = await service.run(asking, self.run_id)
        require_approver(asking, wait, approved=verdict.is_approved)
        if verdict.code and verdict.code != self.code:
            raise Problem(
                409,
                "stale_digest",
                "the answer names another call than the one that waits",
                then=f"Answer yes {self.code}, or no {self.code}, once it was seen.",
                run_id=run.id,
            )
        await decide(
            asking,
            run,
            wait,
            approved=verdict.is_approved,
            digest=wait.payload_digest,
            reason="" if verdict.is_approved else verdict.reason,
            message_id=message_id or None,
        )
        await self._remember(service, run_id, message_id)

    async def _remember(self, service: Service, run_id: str, message_id: str) -> None:
        """Let a conversation know the message that a child run of it got."""
        if message_id and self.run_id != run_id:
            with suppress(InvalidInput):  # the run is no conversation, and gets no message
                await service.client.get_run(run_id).remember(message_id)
