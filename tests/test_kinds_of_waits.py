"""A kind of wait has its row in every table, so that one that is added is missing nowhere in silence.

Type checkers find the places that tell kinds apart by `match`. This test finds the tables, and the tests
of each face its texts and forms.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import get_args

import pytest
from temporalio.workflow import _Definition

from sojourn.answers import GivenAnswer, parse_answer, wait_view
from sojourn.console.views.waits import KINDS as CONSOLE_KINDS
from sojourn.contracts.awaits import Await, KindName
from sojourn.contracts.event import Event, WaitOpenedEvent, wait_in
from sojourn.contracts.wire_names import MESSAGES
from sojourn.core.awaits.kinds import KINDS, KINDS_BY_NAME, WaitKind
from sojourn.errors import InvalidInput
from sojourn.http.routes.waits import routes
from tests.waits import SAMPLES
from workflows.agent_run import AgentRun

RUN = _Definition.must_from_class(AgentRun)
PATHS = {getattr(route, "path", "") for route in routes.routes}


def is_in_event(kind: WaitKind) -> bool:
    wait = SAMPLES[kind.record].wait
    event = kind.event(run_id="r", time=datetime.now(UTC), **{kind.field: wait})
    return wait_in(event) is wait


def has_update(kind: WaitKind) -> bool:
    update = RUN.updates.get(kind.name)
    return update is not None and update.validator is not None


def has_view(kind: WaitKind) -> bool:
    try:
        return wait_view(SAMPLES[kind.record].wait, "r").kind == kind.record.kind
    except KeyError:
        return False


def is_read(kind: WaitKind) -> bool:
    # Read as an answer of the kind, or refused because no text answers it.
    try:
        return parse_answer(wait_view(SAMPLES[kind.record].wait, "r"), "1").kind == kind.record.kind
    except InvalidInput:
        return not kind.record.is_for_people


PLACES: Mapping[str, Callable[[WaitKind], bool]] = {
    "SAMPLES of tests/waits.py": lambda kind: kind.record in SAMPLES,
    "Await of sojourn/contracts/awaits.py": lambda kind: kind.record in get_args(Await),
    "KindName of sojourn/contracts/awaits.py": lambda kind: kind.record.kind in get_args(KindName),
    "WaitOpenedEvent of sojourn/contracts/event.py": lambda kind: kind.event in get_args(WaitOpenedEvent),
    "Event of sojourn/contracts/event.py": lambda kind: kind.event in get_args(Event),
    "wait_in of sojourn/contracts/event.py": is_in_event,
    "MESSAGES of sojourn/contracts/wire_names.py": lambda kind: kind.name in MESSAGES,
    "an update with a validator in workflows/message_handlers.py": has_update,
    "a signal in workflows/message_handlers.py": lambda kind: kind.name in RUN.signals,
    "GivenAnswer of sojourn/answers/submitting.py": lambda kind: (
        kind.record.kind in {answer.kind for answer in get_args(GivenAnswer)}
    ),
    "_FIELDS of sojourn/answers/wait_view.py": has_view,
    "parse_answer of sojourn/answers/texts.py": is_read,
    "KINDS of sojourn/console/views/waits.py": lambda kind: kind.record.kind in CONSOLE_KINDS,
    "a path of sojourn/http/routes/waits.py": lambda kind: (
        f"/v1/runs/{{run_id:path}}/{kind.record.answer_path}" in PATHS
    ),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.record.kind)
def test_a_kind_is_in_every_table(kind: WaitKind) -> None:
    """Each place that has something of every kind has it of this one."""
    assert [place for place, has in PLACES.items() if not has(kind)] == []


def test_every_record_is_a_kind() -> None:
    """The records, their names and their messages are those of the rows of `KINDS`, each once."""
    assert set(KINDS) == {*get_args(Await)}
    assert sorted(record.kind for record in KINDS) == sorted(get_args(KindName))
    assert {kind.event for kind in KINDS.values()} == {*get_args(WaitOpenedEvent)}
    assert len(KINDS_BY_NAME) == len({record.answer_path for record in KINDS}) == len(KINDS)
    assert len({record.metric_name for record in KINDS}) == len(KINDS)
