"""The names that an author of agents, a worker and a client need daily, each listed once.

Type checkers read this file, and `__init__.py` imports from it. The other public names are exported by the packages of
`PUBLIC` in `tests/test_public_api.py`.
"""

from .authoring.agent import Agent as Agent, AgentTool as AgentTool
from .authoring.app import App as App
from .authoring.runnable import progress as progress
from .authoring.tenants import Tenants as Tenants
from .authoring.toolset import Toolset as Toolset
from .client.client import Client as Client
from .client.run import Run as Run
from .client.session import Session as Session
from .contracts.attachment import Attachment as Attachment, AttachmentLimits as AttachmentLimits
from .contracts.awaits import (
    AwaitClarification as AwaitClarification,
    AwaitConfirmation as AwaitConfirmation,
    AwaitExternalTools as AwaitExternalTools,
    ExternalCall as ExternalCall,
)
from .contracts.message import Message as Message
from .contracts.plan import (
    PlanInput as PlanInput,
    PlanResult as PlanResult,
    PlanResumeInput as PlanResumeInput,
    RunContext as RunContext,
    Turn as Turn,
    Usage as Usage,
)
from .contracts.principal import Principal as Principal
from .contracts.quota import TenantQuota as TenantQuota
from .contracts.run import Notice as Notice, RunOutput as RunOutput, RunStatus as RunStatus
from .contracts.run_policy import (
    ApprovalPolicy as ApprovalPolicy,
    ApprovalRule as ApprovalRule,
    RunPolicy as RunPolicy,
    RunPolicyOverride as RunPolicyOverride,
    SessionPolicy as SessionPolicy,
)
from .contracts.tool_call import (
    InputForm as InputForm,
    InputRequired as InputRequired,
    ToolCallMeta as ToolCallMeta,
    ToolRequest as ToolRequest,
)
from .contracts.tool_error import (
    FieldIssue as FieldIssue,
    RetryHint as RetryHint,
    RetryReason as RetryReason,
    ToolError as ToolError,
)
from .contracts.tool_result import ToolResult as ToolResult, WithArtifacts as WithArtifacts
from .contracts.tool_spec import Retry as Retry
from .converter.data_converter import data_converter as data_converter
from .errors import (
    AwaitClosed as AwaitClosed,
    CallFailed as CallFailed,
    InvalidInput as InvalidInput,
    RateLimited as RateLimited,
    RunFailed as RunFailed,
    RunNotFound as RunNotFound,
    SojournError as SojournError,
    ToolFailed as ToolFailed,
    ToolUnavailable as ToolUnavailable,
)
from .flows import Case as Case, flow as flow
from .models import ModelPlanner as ModelPlanner
from .planner import Planner as Planner
from .plugin import SojournPlugin as SojournPlugin
from .worker import Worker as Worker

__version__: str
