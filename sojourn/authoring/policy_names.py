"""Policy names: refuse a policy that names a tool which no agent of the app has; what it was to deny would run."""

from collections.abc import Collection

from pydantic import BaseModel

from sojourn.authoring.agent import Agent
from sojourn.contracts.ids import matches_any
from sojourn.contracts.record import suggestion
from sojourn.contracts.run_policy import ApprovalPolicy
from sojourn.errors import DefinitionError

__all__ = ["check_policy_names"]


def check_policy_names(agent: Agent, tools: Collection[str], remote: Collection[str]) -> None:
    """Check the names in an agent's policy.

    Args:
        agent: The agent.
        tools: The ids of all tools of the app that are declared.
        remote: The ids of the toolsets whose tools are known once their servers answer.

    Raises:
        DefinitionError: A name matches no tool, or a rule names no tools, or says nothing of them.
    """
    for rule in agent.policy.approval.rules:
        if not (rule.tools or rule.tags) or not (rule.approvers or rule.four_eyes):
            raise DefinitionError(
                f"agent {agent.id}: an ApprovalRule names tools or tags, and approvers or four_eyes=True, such as "
                'ApprovalRule(tools=["ops.devices.*"], approvers=["finance"])'
            )
    for kind, part in (("RunPolicy", agent.policy), ("ApprovalPolicy", agent.policy.approval)):
        for option, pattern in _patterns(part):
            is_remote = any(pattern.startswith(f"{toolset}.") for toolset in remote)
            if is_remote or any(matches_any(tool, [pattern]) for tool in tools):
                continue
            raise DefinitionError(
                f"agent {agent.id}: {kind}({option}=[...]) names {pattern!r}, which is no tool of this app"
                f"{suggestion(pattern, list(tools))}"
            )


def _patterns(policy: BaseModel) -> list[tuple[str, str]]:
    lists = {name: getattr(policy, name) for name in type(policy).model_fields if name.endswith("_tools")}
    if isinstance(policy, ApprovalPolicy):
        lists["rules"] = [pattern for rule in policy.rules for pattern in rule.tools]
    return [
        (name, pattern) for name, patterns in lists.items() for pattern in patterns or () if pattern != "*"
    ]
