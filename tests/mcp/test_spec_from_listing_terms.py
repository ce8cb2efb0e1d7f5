"""The app's terms for a server's tools, which it gives by name or by pattern."""

from datetime import timedelta

import pytest

from sojourn.contracts.tool_spec import Retry
from sojourn.mcp.spec_from_listing import Terms, stand_in_spec

TERMS = Terms(
    timeout=timedelta(seconds=3),
    retry=Retry(),
    task_queue=None,
    trusted=False,
    confirmation={"delete_*": "Delete {path}?"},
    bounded=(),
    approvers={"delete_*": ["finance"]},
    four_eyes=("delete_*", "pay"),
)


@pytest.mark.parametrize(
    ("name", "terms"),
    [
        ("delete_file", (True, ["finance"], "Delete {path}?")),
        ("pay", (True, [], None)),
        ("pay_back", (False, [], None)),
        ("read", (False, [], None)),
    ],
)
def test_who_approves_is_told_by_name_or_pattern(
    name: str, terms: tuple[bool, list[str], str | None]
) -> None:
    """Four eyes, approvers and the question of a call hold for each tool whose name fits a pattern, and for no other."""
    spec = stand_in_spec("ops.files", name, TERMS)
    assert (spec.four_eyes, spec.approvers, spec.confirmation) == terms
