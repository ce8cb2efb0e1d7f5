"""Check that the app loads, and its declarations, servers, models and storage."""

import os
import re
import sys
from importlib.util import find_spec

from temporalio.api.common.v1 import Payload
from temporalio.converter import StorageDriverRetrieveContext, StorageDriverStoreContext
from temporalio.exceptions import ApplicationError

from sojourn.authoring.app import App
from sojourn.checks import Check
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.errors import DefinitionError, ToolUnavailable
from sojourn.values.text import count_noun, plain

__all__ = [
    "MODEL_VARIABLES",
    "check_app",
    "check_model",
    "check_storage",
    "check_toolsets",
    "check_vault",
    "models_of",
    "queues_of",
]


MODEL_VARIABLES = (
    "SOJOURN_MODEL",
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GOOGLE_API_KEY",
    "GEMINI_API_KEY",
    "ANTHROPIC_BASE_URL",
    "OPENAI_BASE_URL",
    "OLLAMA_BASE_URL",
    "VLLM_BASE_URL",
)
"""Environment variables that choose a model or configure its provider; only their names are printed."""


def check_app(app: App, name: str) -> Check:
    """Report the numbers of agents and tools that an app declares."""
    agents = app.list_agents()
    tools = {spec.id for spec in _specs(app)}
    return Check(
        "app", True, f"{name}: {count_noun(len(agents), 'agent')}, {count_noun(len(tools), 'declared tool')}"
    )


_ANSWERED = re.compile(r"answers with an error|does not list its tools")
_AT_SERVER = "mend it at the server; runs continue without its tools"


async def check_toolsets(app: App) -> list[Check]:
    """Connect to the app's MCP servers, and return a check for each fault, or one."""
    await app.open()
    try:
        unavailable, left_out = app.unavailable(), app.unusable_tools()
        denied = app.denied_once_tainted()
        has_remote = any(spec.kind == "mcp" for spec in _specs(app))
    finally:
        await app.close()
    mend = "start it, or correct its transport; runs continue without its tools"
    wrong = [
        Check("MCP servers", False, reason, _AT_SERVER if _ANSWERED.search(reason) else mend)
        for reason in unavailable
    ]
    wrong += [
        Check(
            "MCP servers",
            False,
            f"toolset {toolset_id}: {plain(name, 100)} is left out: {why}",
            "mend it at the server"
            if name.startswith("(")  # it has no name of its own
            else f"mend it at the server, or leave it out yourself: exclude=[{plain(name, 100)!r}]",
        )
        for toolset_id, reasons in left_out.items()
        for name, why in reasons.items()
    ]
    notes = [
        Check(
            "text from outside",
            None,
            f"agent {agent_id} may ask no person: after a result from outside, it denies {', '.join(tools[:3])}"
            f"{f' and {len(tools) - 3} more' if len(tools) > 3 else ''}",
            'set interrupts_allowed=True, or ApprovalPolicy(tainted="deny" | "allow")',
        )
        for agent_id, tools in denied.items()
    ]
    if wrong:
        return [*wrong, *notes]
    return [Check("MCP servers", True, "all answer"), *notes] if has_remote else notes


def queues_of(app: App) -> list[str]:
    """Return the task queues that the app's tools name, sorted."""
    return sorted({spec.task_queue for spec in _specs(app) if spec.task_queue})


def _specs(app: App) -> list[ToolSpec]:
    return [spec for agent_id in app.list_agents() for spec in app.tool_specs_for_agent(agent_id) or []]


def check_model(app: App | None, *, is_named: bool) -> Check:
    """Make the app's models as a run would, without a request to any."""
    names = ", ".join(name for name in MODEL_VARIABLES if os.environ.get(name))
    variables = f"{names} set" if names else "no variable is set"
    if find_spec("pydantic_ai") is None:
        return Check(
            "model",
            None,
            f"{variables}; planners are code",
            "pip install 'sojourn[models]' to use a model as the planner",
        )
    if app is None:
        return Check(
            "model", None, f"not checked, the app does not load; {variables}" if is_named else variables
        )
    named, wrong = models_of(app)
    models = "; ".join(f"{', '.join(agents)} by {model}" for model, agents in named.items())
    if wrong:
        reasons = [f"{', '.join(named[model])}: {reason}" for model, reason in wrong.items()]
        return Check("model", False, f"{models}; {variables}", " ".join(reasons))
    return Check("model", True if named else None, f"{models or 'no agent has one'}; {variables}")


def models_of(app: App) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Map model names to the ids of their agents, and to the errors of making them."""
    named: dict[str, list[str]] = {}
    wrong: dict[str, str] = {}
    if "sojourn.models" not in sys.modules:  # no planner is a ModelPlanner then; the import takes a second
        return named, wrong
    from sojourn.models import ModelPlanner

    for agent in (app.agent(id) for id in app.list_agents()):
        if agent and isinstance(agent.planner, ModelPlanner):
            named.setdefault(agent.planner.model_name, []).append(agent.id)
            try:
                agent.planner.check()
            except ApplicationError as error:
                wrong[agent.planner.model_name] = error.message
    return named, wrong


async def check_vault(app: App) -> Check | None:
    """Keep a value in the vault of tokens, if there is one, and read it."""
    try:
        vault = app.vault
        if vault is None:
            return None
        await vault.check()
    except (DefinitionError, ToolUnavailable) as error:
        mend = "correct SOJOURN_VAULT and SOJOURN_KEYRING, which workers and the HTTP service share"
        return Check("vault", False, str(error), mend)
    if not vault.has_locks:
        return Check("vault", True, "it has no locks: two processes may renew one token at the same time")
    return Check("vault", True, "keeps what it is given, encrypted")


_PROBE = Payload(metadata={"encoding": b"json/plain"}, data=b'"sojourn doctor"')
"""The object to store. It is the same each time, so the storage has it once."""


async def check_storage(app: App) -> Check:
    """Store an object of a few bytes in the app's storage, and read it."""
    driver = app.storage
    if driver is None:
        return Check(
            "storage",
            None,
            "App(storage=...) is not set: only workers beside a development server keep large results",
        )
    name = f"{type(driver).__name__} {driver.name()!r}"
    try:
        claims = await driver.store(StorageDriverStoreContext(), [_PROBE])
        (read,) = await driver.retrieve(StorageDriverRetrieveContext(), claims)
    except Exception as error:  # noqa: BLE001 - a storage driver may raise anything
        why = ToolError.from_error(error).message
        mend = "correct that; meanwhile calls with large results are answered with an error"
        return Check("storage", False, f"{name}: {why}", mend)
    is_same = read == _PROBE
    return Check("storage", is_same, f"{name} {'keeps' if is_same else 'changes'} what it is given")
