"""Deterministic models without state, which decide only by the messages of the request."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from tests.models.standin.reply import SCRIPT, Answer, Reply, ToolCall, as_answer, calls
from tests.models.standin.request import Request

Task = Callable[[Request], Answer]


def counts(tool: str, times: int, arguments: str = "{}", answer: str | Reply = "Done.") -> Task:
    """Call a tool `times` times, once in each response, then answer. `{turn}` in the arguments is the call's number, from 1."""

    def reply(request: Request) -> Answer:
        done = len(request.tool_results)
        if done < times:
            turn = str(done + 1)
            return calls(ToolCall(name=tool, arguments=arguments.replace("{turn}", turn)))
        return as_answer(answer)

    return reply


def repairs(tool: str, bad: str, good: str, facts: Sequence[str], answer: str | Reply = "Done.") -> Task:
    """Make a bad call, and the good call once the last result's text has all the facts; then answer.

    Without the facts the model makes the bad call again, so that it never repairs the call by chance.
    """

    def reply(request: Request) -> Answer:
        results = [result for result in request.tool_results if result.id in calls_of(request, tool)]
        if results and same(calls_of(request, tool)[results[-1].id], good):
            return as_answer(answer)
        learned = bool(results) and all(fact in results[-1].text for fact in facts)
        return calls(ToolCall(name=tool, arguments=good if learned else bad))

    return reply


TASKS: dict[str, Callable[..., Task]] = {"counts": counts, "repairs": repairs}


def load(written: Any) -> Task | list[Any]:
    """Return a script from JSON: a list of answers, or `{"task": name}` with the task's own fields."""
    if isinstance(written, list):
        return SCRIPT.validate_python(written)
    return TASKS[written["task"]](**{key: value for key, value in written.items() if key != "task"})


def calls_of(request: Request, tool: str) -> dict[str, str]:
    """Return the arguments of every call of a tool, by call id."""
    return {call.id or "": call.arguments for call in request.tool_calls if call.name == tool}


def same(one: str, other: str) -> bool:
    """Whether two texts are the same arguments, apart from white space in JSON."""
    try:
        return json.loads(one) == json.loads(other)
    except ValueError:
        return one == other
