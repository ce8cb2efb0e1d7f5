"""The public names of Sojourn, each listed once: type checkers read this file, and `__init__.py` imports from it."""

from .authoring.agent import Agent as Agent, AgentTool as AgentTool, AgentToolset as AgentToolset
from .authoring.app import App as App
from .authoring.app_checks import DefinitionWarning as DefinitionWarning
from .authoring.progress import progress as progress
from .authoring.services import Interceptor as Interceptor
from .authoring.shape import Transform as Transform
from .authoring.sources import Executor as Executor
from .authoring.tool import ArtifactKind as ArtifactKind, Tool as Tool
from .authoring.toolset import Toolset as Toolset
from .client.client import Client as Client
from .client.run import Run as Run
from .client.session import Session as Session, SessionTurn as SessionTurn
from .contracts.awaits import (
    Await as Await,
    AwaitClarification as AwaitClarification,
    AwaitConfirmation as AwaitConfirmation,
    AwaitExternalTools as AwaitExternalTools,
    ExternalCall as ExternalCall,
)
from .contracts.ids import ToolId as ToolId
from .contracts.memory import SessionMemory as SessionMemory, WithMemory as WithMemory
from .contracts.message import Message as Message
from .contracts.plan import (
    Finalize as Finalize,
    PlanInput as PlanInput,
    PlanResult as PlanResult,
    PlanResumeInput as PlanResumeInput,
    PolicyDecision as PolicyDecision,
    PolicyInput as PolicyInput,
    RunContext as RunContext,
    Turn as Turn,
    Usage as Usage,
)
from .contracts.principal import Principal as Principal
from .contracts.run import (
    ForkChange as ForkChange,
    ForkedFrom as ForkedFrom,
    Notice as Notice,
    RunInput as RunInput,
    RunOutput as RunOutput,
    RunStatus as RunStatus,
    Safeguards as Safeguards,
    ScheduleStatus as ScheduleStatus,
)
from .contracts.run_policy import (
    ApprovalPolicy as ApprovalPolicy,
    ApprovalRule as ApprovalRule,
    Caps as Caps,
    RunPolicy as RunPolicy,
    RunPolicyOverride as RunPolicyOverride,
    SessionPolicy as SessionPolicy,
)
from .contracts.tool_call import (
    Approval as Approval,
    ArgumentReading as ArgumentReading,
    InputForm as InputForm,
    InputRequired as InputRequired,
    ToolCallMeta as ToolCallMeta,
    ToolInput as ToolInput,
    ToolRequest as ToolRequest,
)
from .contracts.tool_error import (
    FieldIssue as FieldIssue,
    RetryHint as RetryHint,
    RetryReason as RetryReason,
    ToolError as ToolError,
)
from .contracts.tool_result import (
    Artifact as Artifact,
    Bounds as Bounds,
    RunLink as RunLink,
    ToolResult as ToolResult,
    ToolTelemetry as ToolTelemetry,
    WithArtifacts as WithArtifacts,
)
from .contracts.tool_spec import (
    Annotations as Annotations,
    Retry as Retry,
    ToolSpec as ToolSpec,
    TypeSpec as TypeSpec,
)
from .converter.data_converter import data_converter as data_converter
from .core.awaits.disclosure import Disclosure as Disclosure, disclose as disclose
from .errors import (
    ApprovalVoid as ApprovalVoid,
    ArtifactNotFound as ArtifactNotFound,
    AwaitClosed as AwaitClosed,
    CallFailed as CallFailed,
    DefinitionError as DefinitionError,
    InvalidInput as InvalidInput,
    MissingRole as MissingRole,
    NetworkRetriesExhausted as NetworkRetriesExhausted,
    NotApprover as NotApprover,
    NoWorker as NoWorker,
    OtherKind as OtherKind,
    RateLimited as RateLimited,
    RunAlreadyExists as RunAlreadyExists,
    RunCanceled as RunCanceled,
    RunError as RunError,
    RunFailed as RunFailed,
    RunNotFound as RunNotFound,
    RunTerminated as RunTerminated,
    RunTimedOut as RunTimedOut,
    RunUnreadable as RunUnreadable,
    ScheduleAlreadyExists as ScheduleAlreadyExists,
    ScheduleNotFound as ScheduleNotFound,
    ServerNotFound as ServerNotFound,
    ServerUnavailable as ServerUnavailable,
    SessionBusy as SessionBusy,
    SojournError as SojournError,
    StaleDigest as StaleDigest,
    ToolFailed as ToolFailed,
    ToolUnavailable as ToolUnavailable,
)
from .events import Event as Event
from .flows import Case as Case, ToolReference as ToolReference, approvals as approvals, flow as flow
from .mcp import McpToolset as McpToolset
from .models import Compaction as Compaction, ModelPlanner as ModelPlanner
from .network import (
    format_network_error as format_network_error,
    http_client as http_client,
    network_faults as network_faults,
    timeouts_for as timeouts_for,
    with_network_retry as with_network_retry,
)
from .planner import Planner as Planner
from .plugin import SojournPlugin as SojournPlugin
from .policy import PolicyEngine as PolicyEngine
from .process import Completed as Completed, run_process as run_process
from .repair import (
    RepairedPayload as RepairedPayload,
    RepairingPlanner as RepairingPlanner,
    clarification_for as clarification_for,
    repair_calls as repair_calls,
    repair_payload as repair_payload,
    wait_or_substitute as wait_or_substitute,
)
from .storage import FolderStorage as FolderStorage, StorageDriver as StorageDriver
from .webhook import Webhook as Webhook
from .worker import Worker as Worker

__version__: str
