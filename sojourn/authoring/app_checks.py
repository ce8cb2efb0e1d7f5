"""Check the agents of an app, and show its name, advice and catalogue.

A planner in code needs no docstring and no return type, so only agents whose planner reads descriptions get
advice.
"""

import re
import sys
import warnings
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import BaseModel

from sojourn.authoring.agent import Agent, AgentToolset, ExportedTool
from sojourn.authoring.tool import Tool
from sojourn.authoring.toolset import Toolset
from sojourn.contracts.ids import ToolId, matches_any
from sojourn.contracts.record import suggestion
from sojourn.contracts.run_policy import ApprovalPolicy
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.errors import DefinitionError

__all__ = [
    "APP_NAME",
    "DefinitionWarning",
    "check_policy_names",
    "declaring_module",
    "entry_of",
    "name_in_module",
    "warn_of_tools",
]

APP_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@/+-]{0,199}\Z")


def declaring_module() -> str:
    """Return the module that is declaring an app, outside of this library."""
    frame = sys._getframe(1)  # noqa: SLF001 - the documented way to a caller's globals
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] == "sojourn":
        frame = frame.f_back
    return str(frame.f_globals.get("__name__"))


def name_in_module(app: object, module_name: str) -> str | None:
    """Return `module:variable`, or None.

    The main program has the name under which other modules import it, so that each way to serve an app
    gives it the same name.
    """
    module = sys.modules.get(module_name)
    if module is None:
        return None
    variables: dict[str, Any] = vars(module)
    variable = next((name for name, value in variables.items() if value is app), None)
    called = _name_of_main(module) if module_name == "__main__" else module_name
    return f"{called}:{variable}" if called and variable else None


def _name_of_main(module: ModuleType) -> str | None:
    spec = getattr(module, "__spec__", None)
    if spec is not None:
        return str(spec.name).removesuffix(".__main__")
    file = getattr(module, "__file__", None)
    return Path(file).stem if file else None


def check_policy_names(agent: Agent, tools: Collection[str], remote: Collection[str]) -> None:
    """Refuse names in an agent's policy that match no tool, and empty rules."""
    for rule in agent.policy.approval.rules:
        says_who = rule.approvers or rule.four_eyes or rule.steps or rule.approvals > 1
        if not (rule.tools or rule.tags) or not says_who:
            raise DefinitionError(
                f"agent {agent.id}: an ApprovalRule names tools or tags, and approvers, steps, approvals or four_eyes=True, such as "
                'ApprovalRule(tools=["ops.devices.*"], approvers=["finance"])'
            )
    if agent.policy.approval.escalate_to and agent.policy.approval.escalate_after is None:
        raise DefinitionError(
            f"agent {agent.id}: escalate_to needs escalate_after, the time after which these roles may decide too"
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


class DefinitionWarning(UserWarning):
    """A valid declaration that makes a model do worse than it could."""


def warn_of_tools(agent: Agent, *, stacklevel: int) -> None:
    """Warn of tools without a description or a return type, if a model plans."""
    if not getattr(agent.planner, "reads_descriptions", False):
        return
    for toolset in agent.uses:
        for tool in toolset.tools.values() if isinstance(toolset, (Toolset, AgentToolset)) else ():
            for text in _advice(tool):
                warnings.warn(f"tool {tool.id}: {text}", DefinitionWarning, stacklevel=stacklevel + 1)


def _advice(tool: "Tool[..., object] | ExportedTool[..., object]") -> Iterator[str]:
    if not tool.spec.description.strip():
        mend = "description=..." if isinstance(tool, ExportedTool) else "a docstring, or description=..."
        yield f"it has no description, and models choose tools by it; write {mend}"
    function = tool.function if isinstance(tool, Tool) else None
    if function is not None and tool.spec.result.json_schema == {} and not _has_return(function):
        yield "it has no return type, so its result is not checked; write one, such as -> str"


def _has_return(function: object) -> bool:
    return "return" in getattr(function, "__annotations__", {})


_DECLARED = {
    "kind",
    "decode_in_executor",
    "local",
    "bounded",
    "annotations",
    "trusted",
    "confirmation",
    "approvers",
    "approver_check",
    "four_eyes",
    "allows_edits",
    "timeout",
    "retry",
    "task_queue",
    "agent_id",
}
"""Fields of a spec that are written unless they have their default, or are injected."""


def entry_of(spec: ToolSpec, *, about: str, approval: Mapping[str, str]) -> dict[str, Any]:
    """Return the catalogue entry of a tool as JSON, without undeclared fields."""
    entry: dict[str, Any] = {
        "id": str(spec.id),
        "service": ToolId(spec.id).service,
        "toolset": ToolId(spec.id).toolset,
        "title": spec.title,
        "description": spec.description,
        "tags": spec.tags,
        "payload": {"schema": spec.payload.json_schema},
        "result": {"schema": spec.result.json_schema},
    }
    if about:
        entry["toolset_description"] = about
    if spec.artifacts:
        entry["artifacts"] = {kind: {"schema": shape.json_schema} for kind, shape in spec.artifacts.items()}
    if approval:
        entry["approval"] = {agent_id: approval[agent_id] for agent_id in sorted(approval)}
    return entry | spec.model_dump(mode="json", include=_DECLARED, exclude_defaults=True)
