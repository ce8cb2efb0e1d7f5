"""Any conversation by AG-UI: every stream keeps the protocol's rules, and says the same when it is read again.

`SOJOURN_CASES=200 pytest tests/http/protocols/test_any_agui.py` tries as many conversations.
"""

import json
import os
import random
import uuid
from typing import Any

import pytest
from ag_ui_validate import ValidatorOptions, create_validator

CASES = int(os.environ.get("SOJOURN_CASES", "6"))
SEED = int(os.environ.get("SOJOURN_SEED", "17"))

WORDS = (
    "hello",
    "rounds 1",
    "rounds 3",
    "ask",
    "form",
    "wipe",
    "weigh",
    "below",
    "tree 2",
    "measure",
    "fail",
    "talk",
)

ANSWERS: dict[str, list[Any]] = {
    "question": ["left", {"a": 1, "b": 2}],
    "approval": [
        {"approved": True},
        {"approved": False, "reason": "no"},
        {"approved": True, "scope": "tool"},
    ],
    "tool_result": [2.5, 7],
}


def events(answer: Any) -> list[Any]:
    """The events of an answer."""
    assert answer.status_code == 200, answer.text
    return [json.loads(line[6:]) for line in answer.text.split("\n\n") if line.startswith("data: ")]


def entry(dice: random.Random, interrupt: Any) -> Any:
    """An answer to an interrupt."""
    kind = interrupt["metadata"]["kind"]
    found = {"interruptId": interrupt["id"], "status": "resolved"}
    if kind == "question":
        has_form = "properties" in interrupt["responseSchema"]
        return found | {"payload": ANSWERS[kind][has_form]}
    if dice.random() < 0.2:
        return {"interruptId": interrupt["id"], "status": "cancelled"}
    return found | {"payload": dice.choice(ANSWERS[kind])}


def same(found: list[Any]) -> list[Any]:
    """Events without what belongs to the moment of reading: times, the status, and how text was cut into pieces."""
    kept: list[Any] = []
    for event in found:
        if event["type"] in ("STATE_SNAPSHOT", "CUSTOM"):
            continue
        plain = {name: value for name, value in event.items() if name != "timestamp"}
        last = kept[-1] if kept else {}
        if plain["type"] == last.get("type") == "TEXT_MESSAGE_CONTENT":
            last["delta"] += plain["delta"]
        else:
            kept.append(plain)
    return kept


@pytest.mark.parametrize("case", range(CASES))
async def test_any_conversation_keeps_the_rules_of_ag_ui(served, shop, case):
    """The validator finds nothing in the streams of a thread, and a stream that is asked for again has the same events."""
    validator = create_validator(ValidatorOptions())
    dice = random.Random(f"{SEED}/{case}")
    shop.gate.set()
    thread, messages = uuid.uuid4().hex[:8], []
    for turn in range(dice.randint(1, 3)):
        messages.append({"id": f"m-{turn}", "role": "user", "content": dice.choice(WORDS)})
        resume: list[Any] | None = None
        for step in range(8):
            body = {"threadId": thread, "runId": f"run-{turn}-{step}", "messages": messages}
            body |= {"resume": resume} if resume else {}
            read = events(await served.post("/agui/shop.clerk", body))
            for event in read:
                validator.feed(event)
            again = events(await served.post("/agui/shop.clerk", body))
            assert same(again) == same(read), messages
            outcome = read[-1].get("outcome") or {"type": "error"}
            if outcome["type"] != "interrupt":
                break
            resume = [entry(dice, each) for each in outcome["interrupts"]]
        else:
            raise AssertionError(f"{messages}: the turn does not end")
    validator.finalize()
    report = validator.report()
    assert (report.internal_errors, report.diagnostics) == ([], [])
