"""Formless: what a client that shows no forms is told of what a run asks, and how it is settled.

The tool `answer` is called by a model. It passes on what the user has answered, and may deny a call; a call is approved by a person, elsewhere.
"""

from collections.abc import Sequence

from sojourn.http.protocols.asked import Asked
from sojourn.http.protocols.marks import without_tokens
from sojourn.http.protocols.place import Place

__all__ = ["ANSWER", "decided_of", "looks_of", "then_of", "told_of"]

ANSWER = "answer"
"""The tool by which a client that shows no forms answers a question."""


def told_of(waits: Sequence[Asked], place: Place) -> str:
    """What is asked, who settles it, and how the call goes on."""
    told = [
        f"{asked.shown}\n\n{decided_of(asked)}" if asked.code else without_tokens(asked.shown)
        for asked in waits
    ]
    return "\n\n".join([*told, then_of(waits, place)])


def then_of(waits: Sequence[Asked], place: Place) -> str:
    """What the client may do."""
    if all(asked.code for asked in waits):
        return (
            f"To deny, call the tool `{ANSWER}` with the answer `no` and a reason. Once it is decided, call it without an answer: "
            f"the agent goes on with task {place.token}."
        )
    return f"To answer, ask the user, and call the tool `{ANSWER}` with task {place.token}."


def looks_of(place: Place) -> str:
    """How the client looks whether the call goes on."""
    return f"To look whether it goes on, call the tool `{ANSWER}` without an answer, with task {place.token}."


def decided_of(asked: Asked) -> str:
    """Who decides on a call, and how."""
    return (
        f"It waits for somebody with the role `approver`, as `{asked.wait.id}` of the run `{asked.run_id}`. It is approved by "
        f"`sojourn approve {asked.run_id} {asked.wait.id}`, by `POST /v1/runs/{asked.run_id}/approvals` with the digest that "
        f"`GET /v1/runs/{asked.run_id}` shows, or in another client; not by the tool `{ANSWER}`."
    )
