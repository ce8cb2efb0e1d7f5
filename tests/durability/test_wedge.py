"""Garbage of every kind, to runs at every stage: each run answers and ends, with no failed workflow task."""

import os

import pytest

from tests.durability.wedge import campaign, judge

pytestmark = pytest.mark.durability

MESSAGES = int(os.environ.get("WEDGE_MESSAGES", "100"))
"""Of each kind of run; 1,000 in full."""


@pytest.mark.parametrize("encrypted", [False, True], ids=["clear", "encrypted"])
async def test_nothing_in_the_namespace_wedges_a_run(temporal_address, encrypted):
    """Signals, updates, queries and starts of any payload are noted, refused, or end the run they start."""
    judge(await campaign(temporal_address, messages=MESSAGES, seed=7, encrypted=encrypted))
