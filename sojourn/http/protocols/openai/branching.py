"""Find the point of a conversation after which a request of OpenAI's API goes on.

A response names the one before it, and a chat has the messages before its last one. If these end with another turn than
the newest of the present branch, the message begins another branch. So an edited chat is answered as its user sees it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sojourn.answers import read_verdict
from sojourn.contracts.message import Message
from sojourn.contracts.principal import Principal
from sojourn.errors import RunNotFound
from sojourn.events.one_run import branches_in_history, find_accepted
from sojourn.http.answering import read_branches
from sojourn.http.problems import Problem
from sojourn.http.protocols.messages import BranchPoint
from sojourn.http.protocols.openai.chat import asks, content_of, strip_marks
from sojourn.http.protocols.reply import read_timeline
from sojourn.http.protocols.reply_token import ReplyToken
from sojourn.http.service import Service
from sojourn.reader import read_conversation
from sojourn.timeline import Plan, Timeline, UserMessage, UserTurn

__all__ = [
    "OTHER_MESSAGES",
    "ChatPlace",
    "Said",
    "place_of_chat",
    "point_of_response",
    "said_before",
    "under_way",
]

OTHER_MESSAGES = (
    "the messages before the last one are not those of the conversation, which goes on from its own"
)
"""Warning about a chat whose earlier messages no branch of its conversation has."""


async def point_of_response(service: Service, previous: ReplyToken, message_id: str) -> BranchPoint | None:
    """Return the point after a response, or None if no branch is needed.

    None is needed if that is its newest turn, if the response has no end yet, or if it has the message already.

    Raises:
        Problem: Another turn is under way (409). Its end would be lost to those who wait for it.
    """
    branches = await branches_in_history(service.client.temporal, previous.run_id)
    timeline = (await read_timeline(service, previous)).top
    turn = next((turn for turn in timeline.turns if _has_message(turn, previous.message_id)), None)
    if turn is None or turn.end is None or message_id in timeline.delivered:
        return None
    is_busy = timeline.turn is not None or bool(timeline.queued)
    is_newest = timeline.head == turn.end.event_id and not is_busy
    if is_newest or timeline.end:
        return None
    if await find_accepted(service.client.temporal, previous.run_id, message_id):
        return None  # the run compares it with the message of that id
    if is_busy:
        raise under_way(previous.run_id)
    return BranchPoint(turn.end.event_id, branches)


def under_way(run_id: str) -> Problem:
    """Return why a response after an older one has to wait."""
    return Problem(
        409,
        "not_begun",
        "previous_response_id: another turn of the conversation is under way",
        then="Send it again once that turn has ended, or cancel its response.",
        run_id=run_id,
    )


def _has_message(turn: UserTurn, message_id: str) -> bool:
    """Return whether a message opened or joined a turn. Any turn has an empty id."""
    joined = (entry.message_id for entry in turn.entries if isinstance(entry, UserMessage))
    return not message_id or message_id in (*joined, *turn.missing)


class Said(NamedTuple):
    """A message of a user in a chat, and the last text that came after it."""

    message: Message
    reply: str | None
    asks: bool = False
    """Whether that text is a question."""
    may_answer: bool = False
    """Whether it came after a question: it answered that, or opened a turn if the question was closed by then.

    A verdict may come later, after messages that were answered while the call waited.
    """


def said_before(messages: Sequence[Message]) -> list[Said]:
    """Return the messages of a chat's user, from the first one that opened a turn."""
    found, is_answer, has_asked = list[Said](), False, False
    for message, bare in zip(messages, strip_marks(list(messages)), strict=True):
        if message.role == "assistant":
            is_answer = asks(message)
            has_asked = has_asked or is_answer
            found[-1:] = [each._replace(reply=bare.text, asks=is_answer) for each in found[-1:]]
        elif found or not is_answer:
            may_answer = is_answer or (has_asked and read_verdict(message.text).is_plain)
            found.append(Said(message, None, may_answer=may_answer))
            is_answer = False
        else:
            is_answer = False
    return found


class ChatPlace(NamedTuple):
    """Where the conversation goes on with a chat's next message."""

    point: BranchPoint | None = None
    """The point after the chat's messages, or None if the message comes where the conversation is."""
    is_known: bool = True
    """Whether a branch has the chat's messages."""


async def place_of_chat(
    service: Service,
    asking: Principal,
    agent_id: str,
    session_id: str,
    earlier: Sequence[Said],
    message_id: str,
) -> ChatPlace:
    """Return where a chat goes on.

    A chat without earlier messages goes on where the conversation is. So does any chat while the conversation is at work: its message waits.
    """
    if not earlier:
        return ChatPlace()
    try:
        session = await service.known_session(asking, agent_id, session_id)
        status = await session.run.status()
    except RunNotFound:
        return ChatPlace()
    if status.status != "idle" or status.queued:
        return ChatPlace()
    last = (await read_conversation(service.client, session.run.id)).path
    if _fit(last, earlier, is_present=True) == 2:
        return ChatPlace()
    timeline = await read_branches(session)
    if message_id in timeline.delivered:
        return ChatPlace()
    return _choose(timeline, earlier)


def _choose(timeline: Timeline, earlier: Sequence[Said]) -> ChatPlace:
    """Return the place after the turn with which a chat's messages end.

    No branch is known to have them if the chat's next message opened another turn after it.

    If several turns fit, those whose answers are the same come first, then the present one, then the newest.
    """
    best, last, at = 0, None, ""
    for turn in timeline.turns:
        if turn.end is None:
            continue
        path = timeline.path_to(turn, len(earlier) + 1)
        is_present = turn.end.event_id == timeline.head
        fits = _fit(path, earlier, is_present=is_present)
        if fits > best or (fits and fits == best and (is_present or at != timeline.head)):
            best, last, at = fits, turn, turn.end.event_id
    if last is None or (at != timeline.head and best == 1 and _goes_on(timeline, last, earlier)):
        return ChatPlace(is_known=False)
    return ChatPlace(BranchPoint(at, timeline.branches) if at != timeline.head else None)


def _goes_on(timeline: Timeline, turn: UserTurn, earlier: Sequence[Said]) -> bool:
    """Return whether the chat's message after that of a turn opened another."""
    last = next((k for k in range(len(earlier), 0, -1) if _has_said(turn, earlier[k - 1])), len(earlier))
    if turn.end is None or last == len(earlier):
        return False
    later = content_of(earlier[last].message)
    opened = (each for each in timeline.turns if each.follows == turn.end.event_id)
    return any(content_of(sent.message) == later for each in opened for sent in each.messages)


def _fit(path: Sequence[UserTurn], earlier: Sequence[Said], *, is_present: bool) -> int:
    """Compare the last turns of a path with those of a chat.

    Return 2 if they are equal, and the last one has the answer that the chat has; 1 if only their messages are, else 0. A chat may have been
    shortened at its beginning, or have begun before its conversation. In that case only the whole of the present path counts.
    """
    return max(_fit_as(path, earlier, is_present, are_answers=each) for each in (False, True))


def _fit_as(path: Sequence[UserTurn], earlier: Sequence[Said], is_present: bool, *, are_answers: bool) -> int:
    # A message after a question is tried as the answer, or as one that opened a turn where the path has such a turn.
    left, later, reply = list(path), None, None
    best, joined = 2, _joined(path[-1] if path else None)
    for number, said in enumerate(reversed(earlier)):
        if not left:
            return best if is_present and number else 0
        reply = later if later is not None or said.asks else said.reply
        content = content_of(said.message)
        at = next((at for at in reversed(range(len(joined))) if joined[at].content == content), None)
        if at is not None:
            # The answer that such a message got while a call waited is not that of the turn.
            later = later if joined[at].is_answered else reply
            del joined[at:]
            continue
        if said.may_answer and (are_answers or not _has_said(left[-1], said)):
            later = reply
            continue
        turn, later = left.pop(), None
        joined = _joined(left[-1] if left else None)
        if not _has_said(turn, said):
            return 0
        is_last = len(left) == len(path) - 1
        if not (_has_replied(turn, reply) and (reply or not is_last)):
            best = 1
    return best if len(left) < len(path) else 0


class _Joined(NamedTuple):
    """A message that joined a turn under way."""

    content: list[Any]
    is_answered: bool
    """Whether it was answered while a call of the turn waited."""


def _joined(turn: UserTurn | None) -> list[_Joined]:
    """Return the messages that joined a turn which others had opened."""
    if turn is None:
        return []
    plans = [each for each in turn.entries if isinstance(each, Plan)]
    answered = {each.interim_for for each in plans if each.message is not None}
    return [_Joined(content_of(each.message), each.message_id in answered) for each in turn.joined]


def _has_said(turn: UserTurn, said: Said) -> bool:
    return len(turn.messages) == 1 and content_of(turn.messages[0].message) == content_of(said.message)


def _has_replied(turn: UserTurn, reply: str | None) -> bool:
    """Return whether a chat has the answer of a turn, or has none to compare."""
    if reply is None:
        return True
    output = " ".join(turn.end.output.text.split()) if turn.end and turn.end.output else ""
    told = " ".join(reply.split())
    return told.endswith(output) if output else not told
