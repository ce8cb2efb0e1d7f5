"""The toolset with which a flow has something approved that is no call of a tool of its own.

An approval of a flow is a call of `approve` that a person decides on, so that every inbox, page, chat and command shows it as
it shows any other. The call itself changes nothing: its result is who approved.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict

from sojourn.authoring.toolset import Toolset
from sojourn.contracts.tool_call import Approval, ToolCallMeta
from sojourn.errors import ToolFailed

__all__ = ["approvals", "approve"]

approvals = Toolset("sojourn.approvals", description="Decisions of approvers that a flow asks for")
"""The toolset of `case.approve`, for the `uses` of an agent whose planner is a flow."""


class Question(BaseModel):
    """What an approver decides."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    question: str
    """What is approved."""
    details: dict[str, Any] = {}
    """What the approver has to know, by name."""
    approvers: list[str] = []
    """The roles of which whoever decides needs one; empty means `approver`."""
    four_eyes: bool = False
    """Whether whoever asked may not approve."""


@approvals.tool(read_only=True, local=True, title="Approval", confirmation="{question}")
async def approve(_asked: Question, meta: ToolCallMeta) -> Approval:
    """Have an approver decide. A person is always asked, whatever the policy says."""
    if meta.approval is None:  # a worker of a version that asks nobody about this tool
        raise ToolFailed("nobody was asked", code="denied")
    return meta.approval
