"""The app: whether it loads, what it declares, whether its MCP servers answer, which queues it needs."""

from sojourn.authoring.app import App
from sojourn.cli.doctor.check import Check
from sojourn.cli.load_app import load_app
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.errors import DefinitionError

__all__ = ["check_app", "check_toolsets", "queues_of"]


def check_app(target: str) -> tuple[Check, App | None]:
    """Load it, which checks all that it declares."""
    try:
        app = load_app(target)
    except DefinitionError as error:
        return Check("app", False, str(error), "mend that, then look again"), None
    agents = app.list_agents()
    tools = {spec.id for spec in _specs(app)}
    return Check("app", True, f"{target}: {len(agents)} agents, {len(tools)} declared tools"), app


async def check_toolsets(app: App) -> list[Check]:
    """Ask the servers of remote toolsets for their tools; nothing where there are none."""
    await app.open()
    try:
        gone = app.unavailable()
        has_remote = any(spec.kind == "mcp" for spec in _specs(app))
    finally:
        await app.close()
    if gone:
        mend = "start it, or mend its transport; runs go on without its tools"
        return [Check("MCP servers", False, reason, mend) for reason in gone]
    return [Check("MCP servers", True, "all answer")] if has_remote else []


def queues_of(app: App) -> list[str]:
    """The task queues of its own that tools name."""
    return sorted({spec.task_queue for spec in _specs(app) if spec.task_queue})


def _specs(app: App) -> list[ToolSpec]:
    return [spec for agent_id in app.list_agents() for spec in app.tool_specs_for_agent(agent_id) or []]
