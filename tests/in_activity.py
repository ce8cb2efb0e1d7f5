"""Calls in an activity of a run of some tenant."""

from dataclasses import replace
from typing import Any

from temporalio.common import Priority
from temporalio.testing import ActivityEnvironment


async def as_tenant(key: str, call: Any, *arguments: Any, workflow_id: str = "run") -> Any:
    """Call a coroutine function in an activity whose run has this fairness key."""
    environment = ActivityEnvironment()
    environment.info = replace(
        environment.info, priority=Priority(fairness_key=key or None), workflow_id=workflow_id
    )
    return await environment.run(call, *arguments)
