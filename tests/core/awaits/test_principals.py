"""For whom a run acts: what is read of a sender, and what becomes of roles where several people's messages meet."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.contracts.message import Message
from sojourn.contracts.principal import Principal
from sojourn.contracts.run import RunInput
from sojourn.contracts.run_policy import RunPolicy, SessionPolicy
from sojourn.core.awaits.envelope import Rejection
from sojourn.core.awaits.principals import (
    MAX_ASKERS,
    acting_principal,
    askers_of,
    is_same,
    principal_of,
    without_roles,
    write_principal,
)
from sojourn.core.awaits.steering import PauseRequest, ResumeRequest
from sojourn.core.run.inbox import Inbox, SentMessage, read_send
from sojourn.core.run.state import RunState
from sojourn.core.run.turns import end_turn, join_turn, open_turn, receive_message

ADM = Principal(subject="adm", tenant="acme", roles=["user", "approver", "operator"])
ANA = Principal(subject="ana", tenant="acme", roles=["user"])

NOW = datetime(2026, 1, 1, tzinfo=UTC)

PRINCIPALS = st.builds(
    Principal,
    subject=st.sampled_from(["ana", "ben", "eve"]),
    tenant=st.just("acme"),
    roles=st.lists(st.sampled_from(["user", "approver", "operator", "buyer"]), unique=True, max_size=4),
)


@given(present=st.none() | PRINCIPALS, joining=st.lists(st.none() | PRINCIPALS, max_size=4))
def test_what_joins_never_adds_a_role_and_never_changes_the_subject(present, joining):
    """Work goes on for the same subject, with no role that anybody who joined lacks."""
    result = acting_principal(present, *joining)
    named = [each for each in (present, *joining) if each is not None]
    assert (result is None) == (not named)
    if result is not None:
        assert result.subject == named[0].subject
        assert set(result.roles) == set.intersection(*(set(each.roles) for each in named))


@given(principal=PRINCIPALS)
def test_a_sender_is_read_as_it_was_written(principal):
    """A message carries its sender whole."""
    assert principal_of({"principal": write_principal(principal)}, "acme") == principal


def test_a_sender_that_nobody_can_be_is_refused(subtests: pytest.Subtests) -> None:
    """A message whose sender is malformed, or of another tenant, is refused whole, and acts for nobody else instead."""
    rows = [
        "ana",
        {},
        {"subject": 1},
        {"subject": ""},
        {"subject": "a\nb"},
        {"subject": "ana", "roles": "user"},
        {"subject": "ana", "roles": [1]},
        {"subject": "ana", "roles": None},
        {"subject": "ana", "tenant": None},
        {"subject": "ana", "tenant": "globex"},
        {"subject": "ana", "tenant": "acme", "admin": True},
        {"subject": "ana", "tenant": "acme", "roles": ["x"] * 51},
    ]
    for value in rows:
        with subtests.test(str(value)):
            assert isinstance(principal_of({"principal": value}, "acme"), Rejection)
            assert isinstance(read_send([{"text": "hi", "principal": value}], Inbox(), "acme"), Rejection)


def test_a_message_without_a_sender_is_as_before():
    """Messages of histories that know no senders are read as they were."""
    read = read_send([{"text": "hi", "principal": None}], Inbox(), "acme")
    assert read == read_send(["hi"], Inbox(), "acme") == read_send(["hi"], Inbox())


def sent(id, principal, mode="queue"):
    return SentMessage(id, Message.user(id), mode, principal=principal)


def talking(starter=ADM, policy=None):
    """A conversation that is idle, begun by an administrator."""
    state = RunState.opened(RunInput(agent_id="a.b", messages=[], conversation=True, principal=starter))
    return state.agreeing(policy) if policy else state


def with_messages(state, *messages):
    for each in messages:
        state, _ = receive_message(state, each, "1-1-1")
    return state


def test_a_turn_acts_for_its_sender_and_the_next_one_for_its_own():
    """Between turns, and for a message without a sender, a conversation acts for its starter."""
    state = with_messages(talking(), sent("1", ANA), sent("2", None))
    assert state.acts_for == ADM
    state = open_turn(state)
    assert (state.taken, state.acts_for) == (("1",), ANA)
    state = end_turn(state)
    assert state.acts_for == ADM
    state = open_turn(state)
    assert (state.taken, state.acts_for) == (("2",), ADM)


def test_a_steer_of_another_sender_opens_a_turn_of_its_own():
    """It does not act with the rights of the one whose turn is under way, nor that one with its."""
    state = open_turn(with_messages(talking(), sent("1", ADM)))
    state = with_messages(state, sent("2", ANA, "steer"), sent("3", None, "steer"))
    state, joined = join_turn(state)
    assert (joined, state.acts_for) == (["3"], ADM)
    state = open_turn(end_turn(state))
    assert (state.taken, state.acts_for) == (("2",), ANA)


def test_a_steer_of_the_same_sender_joins_with_the_roles_of_both():
    """A role that the sender has lost meanwhile is lost to the turn, and one that was gained is not gained by it."""
    state = open_turn(with_messages(talking(), sent("1", ADM)))
    fewer = ADM.model_copy(update={"roles": ["user", "auditor"]})
    state, joined = join_turn(with_messages(state, sent("2", fewer, "steer")))
    assert joined == ["2"]
    assert state.acts_for == ADM.model_copy(update={"roles": ["user"]})
    assert end_turn(state).acts_for == ADM


def test_interruptions_of_two_senders_open_two_turns():
    """Messages that interrupt open one turn together only where one person has sent them."""
    state = with_messages(
        talking(),
        sent("1", ANA, "interrupt"),
        sent("2", ANA, "interrupt"),
        sent("3", ADM, "interrupt"),
    )
    state = open_turn(state)
    assert (state.taken, state.acts_for) == (("1", "2"), ANA)
    state = open_turn(end_turn(state))
    assert (state.taken, state.acts_for) == (("3",), ADM)


def test_a_setting_restores_the_starter():
    """With `acts_for="starter"` every turn acts for whoever began the conversation, and every steer joins."""
    state = talking(policy=RunPolicy(session=SessionPolicy(acts_for="starter")))
    state = open_turn(with_messages(state, sent("1", ANA)))
    state, joined = join_turn(with_messages(state, sent("2", None, "steer")))
    assert (joined, state.acts_for) == (["2"], ADM)


def test_only_the_agent_lets_turns_act_for_the_starter():
    """Who starts a conversation may take that away, and cannot give it."""
    starter, sender = SessionPolicy(acts_for="starter"), SessionPolicy(acts_for="sender")
    assert SessionPolicy().tightened(starter).acts_for is None
    assert sender.tightened(starter).acts_for == "sender"
    assert starter.tightened(sender).acts_for == "sender"
    assert starter.tightened(SessionPolicy(max_turns=3)) == SessionPolicy(max_turns=3, acts_for="starter")


def test_one_subject_of_two_tenants_is_two():
    """Names are unique within a tenant only."""
    assert is_same(ANA, ANA.model_copy(update={"roles": []}))
    assert not is_same(ANA, ANA.model_copy(update={"tenant": "globex"}))
    assert not is_same(ANA, None)
    assert is_same(None, None)


def test_a_run_takes_what_those_say_who_may_see_it():
    """Its subject, an operator and a program that names nobody; others too, if the whole tenant may see it."""
    of_tenant = talking()
    of_subject = RunState.opened(
        RunInput(agent_id="a.b", messages=[], conversation=True, principal=ADM, visibility="subject")
    )
    operator = ANA.model_copy(update={"roles": ["operator"]})
    assert [of_subject.admits(each) for each in (ADM, operator, None, ANA)] == [True, True, True, False]
    assert of_tenant.admits(ANA)
    assert with_messages(of_subject, sent("1", ANA)).admits(ANA)


def test_whether_a_message_admits_its_sender_is_true_or_false():
    """Anything else is refused, so that nothing that looks like `false` admits somebody."""
    assert [read_send([{"text": "hi", "admit": each}], Inbox()).admits for each in (True, False, None)] == [
        True,
        False,
        False,
    ]
    assert isinstance(read_send([{"text": "hi", "admit": "false"}], Inbox()), Rejection)


def test_every_sender_of_a_turns_messages_has_asked_for_it():
    """Whoever sent a message of the turn, or resumed it with one, is among those who asked, until the turn ends."""
    eve = Principal(subject="eve", tenant="acme", roles=["user"])
    state = talking(policy=RunPolicy(session=SessionPolicy(acts_for="starter")))
    state = open_turn(with_messages(state, sent("1", ANA)))
    state, _ = join_turn(with_messages(state, sent("2", eve, "steer"), sent("3", ADM, "steer")))
    assert state.acts_for == ADM
    assert state.also_asked_by == (without_roles(ANA), without_roles(eve))
    bo = Principal(subject="bo", tenant="acme", roles=["operator"])
    state, _ = state.steered(PauseRequest("", None), NOW)
    state, _ = state.steered(ResumeRequest("", None, ("and more",), None, bo), NOW)
    assert state.also_asked_by[-1] == without_roles(bo)
    state, _ = state.steered(PauseRequest("", None), NOW)
    zoe = Principal(subject="zoe", tenant="acme", roles=["operator"])
    state, _ = state.steered(ResumeRequest("", None, (), None, zoe), NOW)
    assert len(state.also_asked_by) == 3
    assert end_turn(state).also_asked_by == ()


def test_only_so_many_askers_are_known():
    """Each subject counts once, and those beyond the first 40 are not recorded."""
    many = [Principal(subject=f"p{number}", roles=["user"]) for number in range(60)]
    known = askers_of((), *many, *many, None)
    assert [each.subject for each in known] == [each.subject for each in many[:MAX_ASKERS]]
    assert not any(each.roles for each in known)


def test_who_asked_in_an_interrupted_turn_has_asked_in_the_next_one():
    """The next planner gets the words to which nobody has answered; once a turn has ended by itself, they are past."""
    state = open_turn(with_messages(talking(), sent("1", ANA)))
    eve = Principal(subject="eve", tenant="acme", roles=["user"])
    state = open_turn(end_turn(with_messages(state, sent("2", eve, "interrupt"))))
    assert state.acts_for == eve
    assert state.also_asked_by == (without_roles(ANA),)
    state = open_turn(end_turn(with_messages(state, sent("3", ADM))))
    assert (state.acts_for, state.also_asked_by) == (ADM, ())
