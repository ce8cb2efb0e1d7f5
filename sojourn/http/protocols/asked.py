"""Asked: an open question or call to approve, as the text that a chat shows, and the text that settles it."""

import json
from dataclasses import dataclass

from sojourn.contracts.awaits import AwaitClarification, AwaitConfirmation
from sojourn.contracts.event import AwaitAnsweredEvent
from sojourn.contracts.principal import Principal
from sojourn.core.awaits.clarification import wanted
from sojourn.core.values.visible import visible
from sojourn.http.locks.principals import require
from sojourn.http.service import Service

__all__ = ["Asked", "is_yes"]

YES = frozenset({"yes", "y", "approve", "approved", "ok", "okay"})
"""The whole text of an approval, in any case and with a full stop or not. Anything else denies: it is a person's words, not a button."""

NO = frozenset({"no", "n", "deny", "denied"})
"""The whole text of a denial that gives no reason."""


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
    def text(self) -> str:
        """What a person reads. Of a call it has the whole payload, so that who has seen this has seen what runs."""
        wait = self.wait
        if isinstance(wait, AwaitClarification):
            more = [visible(wait.clarifying_prompt, keep="\n")] if wait.clarifying_prompt else []
            fields = [f"Wanted: {', '.join(wanted(wait))}"] if wait.missing_fields else []
            return "\n\n".join([visible(wait.question, keep="\n"), *more, *fields])
        shown = visible(json.dumps(wait.payload, ensure_ascii=False, indent=1, sort_keys=True), keep="\n")
        changed = [f"Changed since it was shown: {visible(', '.join(wait.changes))}"] if wait.changes else []
        return "\n\n".join(
            [
                visible(wait.prompt or wait.title or "May this call run?", keep="\n"),
                f"`{wait.tool}`\n```json\n{shown}\n```",
                *changed,
                "Answer `yes` to run it. Any other answer denies it, and is the reason.",
            ]
        )

    async def settle(self, service: Service, asking: Principal, text: str) -> None:
        """Answer the question, or decide on the call as it was shown.

        Raises:
            Problem: It is a call, and the principal is no approver.
            RunError: The run does not take it.
        """
        run, by, wait = await service.run(asking, self.run_id), asking.subject, self.wait
        if isinstance(wait, AwaitClarification):
            require(asking, "user")
            await run.answer(wait.id, text, by=by)
            return
        require(asking, "approver")
        if is_yes(text):
            await run.approve(wait.id, payload_digest=wait.payload_digest, by=by)
        else:
            reason = "" if _plain(text) in NO else text[:10_000]
            await run.deny(wait.id, reason, payload_digest=wait.payload_digest, by=by)


def is_yes(text: str) -> bool:
    """Whether a text approves."""
    return _plain(text) in YES


def _plain(text: str) -> str:
    return text.strip().rstrip(".!").strip("`'\"").casefold()
