"""What holds for a wait of any kind, so that one that is added is treated as the others are."""

from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest

from sojourn import Message, PlanResult
from sojourn.contracts import RunInput
from sojourn.contracts.awaits import Await, PlannerQuestion, PlannerWait
from sojourn.contracts.run import ForkedFrom
from sojourn.contracts.tasks import PlanOutcome
from sojourn.contracts.wire_names import PROVIDE_CLARIFICATION, PROVIDE_CONFIRMATION
from sojourn.core.awaits.envelope import Rejection
from sojourn.core.awaits.kinds import KINDS, KINDS_BY_NAME, format_wait, read_answer
from sojourn.core.awaits.steering import refuse_ignored_fields
from sojourn.core.awaits.waits import Repeated, Waits
from sojourn.core.history.fold import Fold
from sojourn.core.history.fork import Change, make_fork
from sojourn.core.history.fork_points import ForkPoints
from sojourn.core.run.continuation import Continuation
from sojourn.core.run.plan_rules import fault_of
from sojourn.core.run.state import RunState
from sojourn.core.run.transcript import question_message
from sojourn.values.json_text import loads
from sojourn.values.timers import expiry_timer
from tests.core.history.written import History, only
from tests.waits import SAMPLES

NOW = datetime(2026, 1, 1, tzinfo=UTC)
QUESTIONS = get_args(PlannerQuestion) or (PlannerQuestion,)
every_kind = pytest.mark.parametrize("record", KINDS, ids=lambda record: record.kind)
every_question = pytest.mark.parametrize("record", QUESTIONS, ids=lambda record: record.kind)


@every_kind
def test_a_wait_is_answered_once(record: type[Await]) -> None:
    """An answer is taken, the same again changes nothing, and another one is refused, each as the update of the kind."""
    kind, sample = KINDS[record], SAMPLES[record]
    waits, _ = Waits().opened(sample.wait)
    answer = waits.read(kind.name, sample.answer, "update")
    assert not isinstance(answer, Rejection | Repeated), answer
    waits, _ = waits.answered(answer)
    assert isinstance(waits.read(kind.name, sample.answer, "update"), Repeated)
    other = waits.read(kind.name, sample.other, "update")
    assert isinstance(other, Rejection)
    assert other.kind == "AwaitClosed"


@every_kind
def test_only_its_own_message_answers_a_wait(record: type[Await]) -> None:
    """The messages of the other kinds are refused, and name the one that answers."""
    sample = SAMPLES[record]
    waits, _ = Waits().opened(sample.wait)
    for name, kind in KINDS_BY_NAME.items():
        if kind.record is not record:
            refused = waits.read(name, SAMPLES[kind.record].answer, "update")
            assert isinstance(refused, Rejection)
            assert KINDS[record].name in refused.reason


@every_kind
def test_nothing_repeats_an_answer_that_was_not_given(record: type[Await]) -> None:
    """A message of any kind about a wait that has expired is refused, since the wait has no answer."""
    waits = Waits().opened(SAMPLES[record].wait)[0].closed("w")
    for name, kind in KINDS_BY_NAME.items():
        refused = waits.read(name, SAMPLES[kind.record].answer, "update")
        assert isinstance(refused, Rejection), kind.record.kind
        assert refused.kind == "AwaitClosed"


@every_kind
def test_a_field_that_is_ignored_is_refused(record: type[Await]) -> None:
    """The fields of the sample are known to the kind, and a misspelt one is named."""
    name, sent = KINDS[record].name, SAMPLES[record].answer
    assert refuse_ignored_fields(name, [sent]) is None
    refused = refuse_ignored_fields(name, [{**sent, "idd": 1}])
    assert refused is not None
    assert "idd" in refused.reason


@every_kind
def test_a_screen_has_the_command_that_answers(record: type[Await]) -> None:
    """Temporal's screens show a signal with a sample, whose fields the kind knows."""
    kind, wait = KINDS[record], SAMPLES[record].wait
    assert f"--name {kind.name} " in format_wait("r", wait)
    assert refuse_ignored_fields(kind.name, [kind.sample(wait)]) is None
    assert loads(kind.form.replace(": ...", ": 0")).keys() <= {*kind.fields}


@every_kind
def test_a_wait_has_a_sentence(record: type[Await]) -> None:
    """A wait says what it asks for, and which tools it is about."""
    wait = SAMPLES[record].wait
    assert wait.summary
    assert all("." in tool for tool in wait.tools)


# What a planner asks for.


@pytest.mark.parametrize("record", get_args(PlannerWait), ids=lambda record: record.kind)
def test_a_planner_may_ask_for_it(record: type[Await]) -> None:
    """A plan may hold each wait of a planner, and the plan is refused if the agent may not ask."""
    plan = PlanResult.ask(SAMPLES[record].wait)
    assert fault_of(plan, interrupts_allowed=True, final_turn=False) is None
    assert "may not ask" in (fault_of(plan, interrupts_allowed=False, final_turn=False) or "")


@every_question
def test_the_planner_reads_the_answer(record: type[Await]) -> None:
    """The history of a question shows the wait, its answer with a text, and the turn that the answer begins."""
    kind, sample = KINDS[record], SAMPLES[record]
    history = History()
    history.plan(PlanOutcome(await_=sample.wait))
    history.add("sent", name=kind.name, value=[sample.answer])
    fold, events = history.folded()
    event = only(events, kind.event.model_fields["type"].default)
    assert getattr(event, kind.field) == sample.wait
    answered = only(events, "await_answered")
    assert answered.text
    assert [message.text for message in fold.state.new] == [answered.text]
    assert (fold.state.turn, fold.state.waits.open) == (2, {})


@every_question
def test_the_planner_learns_that_nobody_answered(record: type[Await]) -> None:
    """A question that expires leaves a notice, and begins no turn."""
    wait = SAMPLES[record].wait.model_copy(update={"expires_after": timedelta(hours=1)})
    history = History()
    history.plan(PlanOutcome(await_=wait))
    history.add("timer_fired", name=expiry_timer("w"))
    fold, events = history.folded()
    assert only(events, "await_answered").code == "expired"
    assert [message.text for message in fold.state.new] == ["Nobody answered within 1:00:00."]
    assert fold.state.turn == 1


@every_question
def test_a_question_is_in_the_transcript(record: type[Await]) -> None:
    """Without a message of the model, the transcript has the sentence of the question."""
    plan = PlanOutcome(await_=SAMPLES[record].wait)
    assert question_message(plan) == Message.assistant(SAMPLES[record].wait.summary)


def test_no_planner_reads_the_answer_to_a_call() -> None:
    """A decision on a call in place of an answer raises, where it would be taken for no answer."""
    state = RunState.opened(RunInput(agent_id="a.b", messages=[Message.user("Go.")], session_id="s"))
    question = PlanOutcome(await_=SAMPLES[KINDS_BY_NAME[PROVIDE_CLARIFICATION].record].wait)
    confirmation = SAMPLES[KINDS_BY_NAME[PROVIDE_CONFIRMATION].record]
    decided = read_answer(confirmation.wait, confirmation.answer)
    assert not isinstance(decided, Rejection)
    with pytest.raises(TypeError, match="no planner reads a Decided"):
        state.answered(question, decided)


@every_question
def test_a_fork_answers_it(record: type[Await]) -> None:
    """A fork with an answer continues after the question as the run itself would, and names what does not fit."""
    kind, sample = KINDS[record], SAMPLES[record]
    history = History()
    history.plan(PlanOutcome(await_=sample.wait))
    points = ForkPoints(fold := Fold("r"))
    for each in history.records:
        points.feed(each, fold.feed(each))
    asked, origin = points.asked, ForkedFrom(run_id="r", event_id="e")
    assert asked is not None
    forked = make_fork(asked, Change(answer=sample.given), origin, NOW, points.effects)
    assert isinstance(forked, Continuation)
    history.add("sent", name=kind.name, value=[sample.answer])
    assert forked.state.new == history.folded()[0].state.new
    refused = make_fork(asked, Change(answer=""), origin, NOW, points.effects)
    assert isinstance(refused, str)
    assert "w" in refused
