"""Any message to a run is either accepted or refused: reading raises nothing, and what is accepted can be recorded.

A signal is read in workflow code, where an exception would fail every attempt of the workflow task.
"""

from itertools import product
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from sojourn import AwaitClarification, AwaitConfirmation, AwaitExternalTools, ExternalCall
from sojourn.contracts.wire_names import (
    PAUSE,
    PROVIDE_CLARIFICATION,
    PROVIDE_CONFIRMATION,
    PROVIDE_TOOL_RESULTS,
    RESUME,
    STOP_ASKING,
)
from sojourn.core.awaits.clarification import Clarified
from sojourn.core.awaits.confirmation import Decided
from sojourn.core.awaits.envelope import Channel, Rejection
from sojourn.core.awaits.external_tools import Supplied
from sojourn.core.awaits.factories import input_response
from sojourn.core.awaits.steering import (
    PauseRequest,
    ResumeRequest,
    read_pause,
    read_release,
    read_resume,
    refuse_ignored_fields,
)
from sojourn.core.awaits.waits import Released, Repeated
from sojourn.core.run.set_aside import SetAsideRequest, read_set_aside
from sojourn.values.wire import encode_readable

from .current_waits import CurrentWaits

LONG_ID = "'; $(reboot) `x` \x1b[31m\x00" + "x" * 5_000
IDS = ["q", "form", "input-c1", "strange", "long", "confirm-c2", "out", "closed", "given up", "w" * 120, ""]


def nested(depth: int) -> Any:
    value: Any = {}
    for n in range(depth):
        value = [value] if n % 2 else {"a": value}
    return value


# Named, so that pytest can print a failing case: Python does not convert an integer of 5,000 digits to decimal.
HOSTILE: dict[str, Any] = {
    "half a character": "a\ud800",
    "half a character in JSON": '{"any": "\\ud800"}',
    "nesting in JSON": "[" * 2_000,
    "a number in JSON": "1" * 5_000,
    "right to left": "\u202eb",
    "a long text": "x" * 70_000,
    "an id like a command": LONG_ID,
    "5,000 digits": 10**5_000,
    "-4,000 digits": -(10**4_000),
    "301 digits": 10**301,
    "no number": float("nan"),
    "no end": float("-inf"),
    "200 levels": nested(200),
    "64 levels": nested(64),
    "62 levels": nested(62),
}
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(sorted(HOSTILE)).map(lambda name: HOSTILE[name])
)
NAMES = st.text(max_size=5) | st.sampled_from(["\ud800", "any", "site", "tool_call_id", "message"])
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
RESULT = st.fixed_dictionaries(
    {"tool_call_id": st.sampled_from(["c3", "c4"]) | JSON},
    optional={"result": JSON, "error": JSON | st.fixed_dictionaries({"message": LEAVES}), "retry_hint": JSON},
)
ANSWER = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(IDS) | JSON,
        "answer": st.text()
        | JSON
        | st.fixed_dictionaries({}, optional={"site": st.just("s-1") | JSON, "any": JSON}),
        "declined": st.booleans() | JSON,
        "approved": st.booleans() | JSON,
        "scope": st.sampled_from(["call", "tool"]) | JSON,
        "payload_digest": JSON,
        "results": st.lists(RESULT, max_size=3) | JSON,
        "by": st.just("ana") | JSON,
        "reason": st.just("because") | JSON,
        "more": JSON,
    },
)
STEER = st.fixed_dictionaries(
    {},
    optional={
        name: st.text(max_size=5) | st.lists(st.text(max_size=5), max_size=3) | JSON
        for name in ("reason", "note", "by", "messages", "tools", "tags")
    },
)


def waits() -> CurrentWaits:
    """Open waits of every kind, with strange forms and ids, and two closed waits."""
    made = CurrentWaits()
    question = AwaitClarification(id="q", question="?")
    form = {"properties": {"site": {"enum": ["s-1"]}, "any": {}}, "required": ["site"]}
    strange = {"properties": {"any": True, "site": {"type": {}, "enum": 5}}, "required": [[], 5]}
    long = {"properties": {"site": {"enum": ["s" * 400] * 50}, "n" * 900: {}}, "required": ["n" * 900]}
    for wait in (
        question,
        question.model_copy(update={"id": "form", "form": form}),
        question.model_copy(update={"id": "input-c1", "form": form, "tool_call_id": "c1"}),
        question.model_copy(update={"id": "strange", "form": strange, "tool_call_id": "c1"}),
        question.model_copy(update={"id": "w" * 500, "form": long}),
        question.model_copy(update={"id": "long", "form": long, "tool_call_id": "c1"}),
        question.model_copy(update={"id": LONG_ID}),
        AwaitConfirmation(id="confirm-c2", tool_call_id="c2", tool="a.b.c", payload_digest="d", binds=True),
        AwaitConfirmation(id="confirm-c9", tool_call_id="c9", tool="a.b.c"),
        AwaitExternalTools(
            id="out", items=[ExternalCall(tool_call_id=id, tool="a.b.c") for id in ("c3", "c4")]
        ),
        AwaitExternalTools(id="given up", items=[ExternalCall(tool_call_id="c3", tool="a.b.c")]),
        question.model_copy(update={"id": "closed"}),
    ):
        made.add(wait)
    made.close("given up")
    made.close("closed", Clarified("closed", "x", None))
    return made


def check_refusal(refused: Rejection) -> None:
    assert 0 < len(refused.reason) < 500
    assert refused.reason.isprintable()
    assert refused.kind in ("InvalidAnswer", "AwaitClosed", "AwaitNotOpen", "NotBound")


CHANNELS: tuple[Channel, ...] = ("update", "signal", "accepted")
KINDS = (PROVIDE_CLARIFICATION, PROVIDE_CONFIRMATION, PROVIDE_TOOL_RESULTS)


@settings(max_examples=150)
@given(JSON | ANSWER)
@example({"id": "q", "answer": "x", "by": "\ud800"})
@example({"id": LONG_ID, "answer": "x"})
@example({"id": LONG_ID, "approved": True})
@example({"id": "w" * 5_000, "answer": "x"})
@example({"id": "q", "answer": {"n": 10**5_000}})
@example({"id": "closed", "answer": {"n": 10**5_000}})
@example({"id": "input-c1", "answer": '{"site": "s-1", "any": "\\ud800"}'})
@example({"id": "strange", "answer": {"any": 1}})
@example({"id": "w" * 120, "answer": {"site": "no"}})
@example({"id": "long", "answer": {"n" * 900: 1, "u" * 900: 2}})
@example({"id": "out", "results": [{"tool_call_id": LONG_ID, "result": 1}]})
@example({"id": "out", "results": [{"tool_call_id": 10**5_000, "result": 1}]})
@example({"id": "out", "results": [{"tool_call_id": "c3", "result": "\ud800"}]})
@example({"id": "confirm-c2", "approved": True, "scope": nested(200)})
def test_whatever_is_sent_as_an_answer_is_judged(value: object) -> None:
    """An accepted answer can be written as JSON and closes its wait; a refusal is one short printable line."""
    for kind, channel in product(KINDS, CHANNELS):
        check_judgement(kind, channel, value)


def check_judgement(kind: str, channel: Channel, value: object) -> None:
    open_waits = waits()
    judged = open_waits.read(kind, value, channel)
    if isinstance(judged, Rejection):
        check_refusal(judged)
        return
    assert isinstance(
        judged,
        Repeated | {PROVIDE_CLARIFICATION: Clarified, PROVIDE_CONFIRMATION: Decided}.get(kind, Supplied),
    )
    if isinstance(judged, Repeated):
        return
    assert open_waits.take(judged)[0] == judged
    encode_readable([judged.await_id, judged.text, judged.by])
    if isinstance(judged, Clarified):
        encode_readable(input_response(judged))
    if isinstance(judged, Supplied):
        encode_readable(judged.results)
    else:
        assert judged.await_id not in open_waits.open
        assert isinstance(open_waits.read(kind, value, channel), Repeated | Rejection) or not value.get("id")


@settings(deadline=None)
@given(st.lists(JSON | STEER, max_size=2))
@example([{"reason": "\ud800"}])
@example([{"messages": ["\ud800"]}])
@example([{"tools": ["\ud800"], "by": "x" * 201}])
@example([nested(200)])
@example([10**5_000])
def test_whatever_an_operator_sends_is_judged(values: list[object]) -> None:
    """Any arguments of a pause, a resume, a release or what is set aside are read, or refused in one short printable line."""
    for judged, taken in (
        (read_pause(values), PauseRequest),
        (read_resume(values, is_paused=True), ResumeRequest),
        (read_resume(values, is_paused=False), Rejection),
        (read_release(values), Released),
        (read_set_aside(values), SetAsideRequest),
    ):
        if isinstance(judged, Rejection):
            check_refusal(judged)
            continue
        assert isinstance(judged, taken)
        said = judged.note if isinstance(judged, ResumeRequest) else judged.reason
        encode_readable([said, judged.by, *getattr(judged, "messages", ())])
    for name in (PAUSE, RESUME, STOP_ASKING):
        if rest := refuse_ignored_fields(name, values):
            check_refusal(rest)
