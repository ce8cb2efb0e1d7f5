"""Garbage of every kind is sent to runs at every stage: each run answers and ends, and no workflow task fails."""

import os

import pytest

from tests.durability.wedge import campaign, judge

MESSAGES = int(os.environ.get("WEDGE_MESSAGES", "100"))
"""Number of messages for each of the two tests; 1,000 in a full campaign."""


@pytest.mark.parametrize("encrypted", [False, True], ids=["clear", "encrypted"])
async def test_nothing_in_the_namespace_wedges_a_run(temporal_address, encrypted):
    """Signals, updates, queries and starts with any payload are noted, refused, or fail only the run that they start."""
    judge(await campaign(temporal_address, messages=MESSAGES, seed=7, encrypted=encrypted))
