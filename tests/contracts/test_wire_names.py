"""Every name in the stored histories is one of the module of wire names: a name that changes there replays no history."""

import base64
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sojourn.contracts import wire_names

HISTORIES = Path(__file__).parents[1] / "replay" / "histories"

KNOWN = {
    "workflow types": wire_names.WORKFLOWS,
    "activity types": wire_names.ACTIVITIES,
    "updates and signals": wire_names.MESSAGES,
    "memos": wire_names.MEMOS,
    "search attributes": {*wire_names.SEARCH_ATTRIBUTES, "TemporalChangeVersion"},
    "markers": {"core_patch", "core_local_activity"},
}


def named(value: Any) -> Iterator[tuple[str, str]]:
    """The names in a part of a history, each with its kind."""
    if isinstance(value, list):
        for each in value:
            yield from named(each)
    if not isinstance(value, dict):
        return
    for field, inner in value.items():
        match field, inner:
            case ("workflowType", {"name": name}):
                yield "workflow types", name
            case ("activityType", {"name": name}):
                yield "activity types", name
            case ("signalName", name):
                yield "updates and signals", name
            case ("input", {"name": name}):
                yield "updates and signals", name
            case ("memo" | "upsertedMemo", {"fields": fields}):
                yield from (("memos", name) for name in fields)
            case ("searchAttributes", {"indexedFields": fields}):
                yield from (("search attributes", name) for name in fields)
            case ("markerName", name):
                yield "markers", name
            case ("details", {"patch-data": {"payloads": [payload]}}):
                yield "patches", json.loads(base64.b64decode(payload["data"]))["id"]
        yield from named(inner)


@pytest.fixture(scope="module")
def names() -> dict[str, set[str]]:
    """The names in all stored histories, by kind."""
    found = defaultdict[str, set[str]](set)
    for file in HISTORIES.glob("*.json"):
        for kind, name in named(json.loads(file.read_text())):
            found[kind].add(name)
    return found


def test_every_name_of_the_stored_histories_is_a_wire_name(names):
    """No stored history has a name that the module does not, and the histories have names of each kind."""
    assert set(names) == {*KNOWN, "patches"}
    assert {kind: names[kind] - known for kind, known in KNOWN.items()} == {kind: set() for kind in KNOWN}
    assert {name for name in names["patches"] if not name.startswith(wire_names.MARKERS)} <= {
        *wire_names.PATCHES
    }


def test_the_stored_histories_have_nearly_every_name(names):
    """What no stored history has is listed here, so that a new name gets a history or a line."""
    missing = {kind: {*known} - names[kind] for kind, known in KNOWN.items()}
    assert {kind: found for kind, found in missing.items() if found} == {
        "memos": {wire_names.TIME_ZONE},  # of a run that a schedule starts
        "search attributes": {"SojournVisibleTo"},
    }
