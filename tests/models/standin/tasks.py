"""Little models: deterministic, without memory, led only by what they read in the conversation."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from tests.models.standin.reply import SCRIPT, Answer, Reply, ToolCall, calls, spoken
from tests.models.standin.request import Request

Task = Callable[[Request], Answer]


def counts(tool: str, times: int, arguments: str = "{}", answer: str | Reply = "Done.") -> Task:
    """Call a tool so many times, once a turn, then answer. `{turn}` in the arguments is the turn's number, from 1."""

    def reply(request: Request) -> Answer:
        done = len(request.tool_results)
        if done < times:
            turn = str(done + 1)
            return calls(ToolCall(name=tool, arguments=arguments.replace("{turn}", turn)))
        return spoken(answer)

    return reply


def repairs(tool: str, bad: str, good: str, facts: Sequence[str], answer: str | Reply = "Done.") -> Task:
    """Call a tool wrongly, and rightly once the last result's text has every fact that this takes.

    Without those facts it makes the bad call again: it never ends by luck. It answers when the good call has a result.
    """

    def reply(request: Request) -> Answer:
        results = [result for result in request.tool_results if result.id in calls_of(request, tool)]
        if results and same(calls_of(request, tool)[results[-1].id], good):
            return spoken(answer)
        learned = bool(results) and all(fact in results[-1].text for fact in facts)
        return calls(ToolCall(name=tool, arguments=good if learned else bad))

    return reply


TASKS: dict[str, Callable[..., Task]] = {"counts": counts, "repairs": repairs}


def load(written: Any) -> Task | list[Any]:
    """A script from JSON: a list of answers, or `{"task": name}` with the task's own fields."""
    if isinstance(written, list):
        return SCRIPT.validate_python(written)
    return TASKS[written["task"]](**{key: value for key, value in written.items() if key != "task"})


def calls_of(request: Request, tool: str) -> dict[str, str]:
    """The arguments of every call of a tool, by call id."""
    return {call.id or "": call.arguments for call in request.tool_calls if call.name == tool}


def same(one: str, other: str) -> bool:
    """Whether two texts are the same arguments; the way there and back may have spaced them anew."""
    try:
        return json.loads(one) == json.loads(other)
    except ValueError:
        return one == other
