"""Sojourn: durable runs for tool-using agents, on Temporal.

Names are loaded on first use, so that `import sojourn` costs nothing and the command
line answers at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sojourn.agent import Agent, AgentTool, AgentToolset
    from sojourn.app import App
    from sojourn.artifact_kind import ArtifactKind
    from sojourn.client import Client
    from sojourn.contracts.approval import ApprovalPolicy
    from sojourn.contracts.artifact import Artifact, WithArtifacts
    from sojourn.contracts.awaits import (
        Await,
        AwaitClarification,
        AwaitConfirmation,
        AwaitExternalTools,
        ExternalCall,
    )
    from sojourn.contracts.bounds import Bounds
    from sojourn.contracts.ids import ToolId
    from sojourn.contracts.input_required import InputForm, InputRequired, ToolInput
    from sojourn.contracts.message import Message
    from sojourn.contracts.plan import (
        Finalize,
        PlanInput,
        PlanResult,
        PlanResumeInput,
        RunContext,
        Turn,
        Usage,
    )
    from sojourn.contracts.policy_decision import PolicyDecision, PolicyInput
    from sojourn.contracts.retry_hint import FieldIssue, RetryHint, RetryReason
    from sojourn.contracts.run import (
        RunInput,
        RunOutput,
        RunStatus,
        Safeguards,
    )
    from sojourn.contracts.run_link import RunLink
    from sojourn.contracts.run_policy import Caps, RunPolicy, RunPolicyOverride
    from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
    from sojourn.contracts.tool_error import ToolError
    from sojourn.contracts.tool_result import ToolResult, ToolTelemetry
    from sojourn.contracts.tool_spec import Annotations, Retry, ToolSpec, TypeSpec
    from sojourn.converter import data_converter
    from sojourn.core.disclosure import Disclosure, disclose
    from sojourn.errors import (
        ArtifactNotFound,
        AwaitClosed,
        DefinitionError,
        InvalidInput,
        NetworkRetriesExhausted,
        NoWorker,
        RateLimited,
        RunAlreadyExists,
        RunCanceled,
        RunError,
        RunFailed,
        RunNotFound,
        RunTerminated,
        RunTimedOut,
        RunUnreadable,
        ServerNotFound,
        ServerUnavailable,
        SojournError,
        ToolFailed,
        ToolUnavailable,
    )
    from sojourn.events import Event
    from sojourn.interceptor import Interceptor
    from sojourn.mcp import McpToolset
    from sojourn.models import ModelPlanner
    from sojourn.network import (
        format_network_error,
        http_client,
        network_faults,
        timeouts_for,
        with_network_retry,
    )
    from sojourn.planner import Planner
    from sojourn.plugin import SojournPlugin
    from sojourn.policy import PolicyEngine
    from sojourn.process import Completed, run_process
    from sojourn.progress_note import progress
    from sojourn.repair import (
        Mended,
        RepairingPlanner,
        asked,
        backed_off,
        mend,
        repaired,
    )
    from sojourn.run import Run
    from sojourn.sources import Executor
    from sojourn.storage import FolderStorage, StorageDriver
    from sojourn.tool import Tool
    from sojourn.toolset import Toolset
    from sojourn.transform import Transform
    from sojourn.worker import Worker

_WHERE = {
    "sojourn.agent": ["Agent", "AgentTool", "AgentToolset"],
    "sojourn.app": ["App"],
    "sojourn.artifact_kind": ["ArtifactKind"],
    "sojourn.client": ["Client"],
    "sojourn.contracts.artifact": ["Artifact", "WithArtifacts"],
    "sojourn.contracts.awaits": [
        "Await",
        "AwaitClarification",
        "AwaitConfirmation",
        "AwaitExternalTools",
        "ExternalCall",
    ],
    "sojourn.contracts.approval": ["ApprovalPolicy"],
    "sojourn.contracts.input_required": ["InputForm", "InputRequired", "ToolInput"],
    "sojourn.contracts.policy_decision": ["PolicyDecision", "PolicyInput"],
    "sojourn.policy": ["PolicyEngine"],
    "sojourn.contracts.bounds": ["Bounds"],
    "sojourn.contracts.ids": ["ToolId"],
    "sojourn.contracts.message": ["Message"],
    "sojourn.contracts.plan": [
        "Finalize",
        "PlanInput",
        "PlanResult",
        "PlanResumeInput",
        "RunContext",
        "Turn",
        "Usage",
    ],
    "sojourn.contracts.retry_hint": ["FieldIssue", "RetryHint", "RetryReason"],
    "sojourn.contracts.run": ["RunInput", "RunOutput", "RunStatus", "Safeguards"],
    "sojourn.contracts.run_link": ["RunLink"],
    "sojourn.contracts.run_policy": ["Caps", "RunPolicy", "RunPolicyOverride"],
    "sojourn.contracts.tool_call": ["ToolCallMeta", "ToolRequest"],
    "sojourn.contracts.tool_error": ["ToolError"],
    "sojourn.contracts.tool_result": ["ToolResult", "ToolTelemetry"],
    "sojourn.contracts.tool_spec": ["Annotations", "Retry", "ToolSpec", "TypeSpec"],
    "sojourn.converter": ["data_converter"],
    "sojourn.core.disclosure": ["Disclosure", "disclose"],
    "sojourn.errors": [
        "ArtifactNotFound",
        "AwaitClosed",
        "DefinitionError",
        "InvalidInput",
        "NetworkRetriesExhausted",
        "NoWorker",
        "RateLimited",
        "RunAlreadyExists",
        "RunCanceled",
        "RunError",
        "RunFailed",
        "RunNotFound",
        "RunTerminated",
        "RunTimedOut",
        "RunUnreadable",
        "ServerNotFound",
        "ServerUnavailable",
        "SojournError",
        "ToolFailed",
        "ToolUnavailable",
    ],
    "sojourn.events": ["Event"],
    "sojourn.interceptor": ["Interceptor"],
    "sojourn.mcp": ["McpToolset"],
    "sojourn.models": ["ModelPlanner"],
    "sojourn.network": [
        "format_network_error",
        "http_client",
        "network_faults",
        "timeouts_for",
        "with_network_retry",
    ],
    "sojourn.planner": ["Planner"],
    "sojourn.process": ["Completed", "run_process"],
    "sojourn.progress_note": ["progress"],
    "sojourn.repair": ["Mended", "RepairingPlanner", "asked", "backed_off", "mend", "repaired"],
    "sojourn.run": ["Run"],
    "sojourn.sources": ["Executor"],
    "sojourn.storage": ["FolderStorage", "StorageDriver"],
    "sojourn.tool": ["Tool"],
    "sojourn.toolset": ["Toolset"],
    "sojourn.transform": ["Transform"],
    "sojourn.plugin": ["SojournPlugin"],
    "sojourn.worker": ["Worker"],
}
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names}

__version__ = "0.1.0"
__all__ = [
    "Agent",
    "AgentTool",
    "AgentToolset",
    "Annotations",
    "App",
    "ApprovalPolicy",
    "Artifact",
    "ArtifactKind",
    "ArtifactNotFound",
    "Await",
    "AwaitClarification",
    "AwaitClosed",
    "AwaitConfirmation",
    "AwaitExternalTools",
    "Bounds",
    "Caps",
    "Client",
    "Completed",
    "DefinitionError",
    "Disclosure",
    "Event",
    "Executor",
    "ExternalCall",
    "FieldIssue",
    "Finalize",
    "FolderStorage",
    "InputForm",
    "InputRequired",
    "Interceptor",
    "InvalidInput",
    "McpToolset",
    "Mended",
    "Message",
    "ModelPlanner",
    "NetworkRetriesExhausted",
    "NoWorker",
    "PlanInput",
    "PlanResult",
    "PlanResumeInput",
    "Planner",
    "PolicyDecision",
    "PolicyEngine",
    "PolicyInput",
    "RateLimited",
    "RepairingPlanner",
    "Retry",
    "RetryHint",
    "RetryReason",
    "Run",
    "RunAlreadyExists",
    "RunCanceled",
    "RunContext",
    "RunError",
    "RunFailed",
    "RunInput",
    "RunLink",
    "RunNotFound",
    "RunOutput",
    "RunPolicy",
    "RunPolicyOverride",
    "RunStatus",
    "RunTerminated",
    "RunTimedOut",
    "RunUnreadable",
    "Safeguards",
    "ServerNotFound",
    "ServerUnavailable",
    "SojournError",
    "SojournPlugin",
    "StorageDriver",
    "Tool",
    "ToolCallMeta",
    "ToolError",
    "ToolFailed",
    "ToolId",
    "ToolInput",
    "ToolRequest",
    "ToolResult",
    "ToolSpec",
    "ToolTelemetry",
    "ToolUnavailable",
    "Toolset",
    "Transform",
    "Turn",
    "TypeSpec",
    "Usage",
    "WithArtifacts",
    "Worker",
    "asked",
    "backed_off",
    "data_converter",
    "disclose",
    "format_network_error",
    "http_client",
    "mend",
    "network_faults",
    "progress",
    "repaired",
    "run_process",
    "timeouts_for",
    "with_network_retry",
]


def __getattr__(name: str) -> Any:
    """Import the module that holds a public name, once."""
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'sojourn' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return [*__all__, "__version__"]
