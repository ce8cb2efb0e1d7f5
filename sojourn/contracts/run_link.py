"""RunLink: from a tool call to the run that answered it."""

from sojourn.contracts.record import Record

__all__ = ["RunLink"]


class RunLink(Record):
    """A child run and the call that started it (SR-53; `run.Handle` there)."""

    run_id: str
    """The child run, which is also its workflow id."""
    agent_id: str
    """The child's agent."""
    parent_run_id: str
    """The parent run."""
    parent_tool_call_id: str
    """The parent run's call that started the child run."""
