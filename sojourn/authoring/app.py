"""The agents of a deployment, validated as a whole, and their catalogue."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import sojourn
from sojourn.authoring.agent import Agent, AgentToolset, ExportedTool
from sojourn.authoring.app_checks import (
    APP_NAME,
    check_policy_names,
    declaring_module,
    entry_of,
    name_in_module,
    warn_of_tools,
)
from sojourn.authoring.digest import digest_of_app
from sojourn.authoring.options import (
    FLAG,
    MAPPING,
    TEXT,
    VISIBILITY,
    ApproverCheck,
    Kind,
    declares,
    is_async,
    list_of,
    show_value,
)
from sojourn.authoring.runnable import (
    ACTING_FOR,
    OwnedToolset,
    RemoteToolset,
    Runnable,
    VaultUser,
    instructions_of,
    unusable_tools_of,
    why_left_out,
)
from sojourn.authoring.sources import Executor, Interceptor, Services
from sojourn.authoring.tenants import Tenants, TenantsFile
from sojourn.authoring.toolset import Toolset
from sojourn.contracts.attachment import AttachmentLimits
from sojourn.contracts.ids import task_queue_fault
from sojourn.contracts.principal import Principal, Visibility
from sojourn.contracts.run import Notice, NoticeKind
from sojourn.contracts.run_policy import RunPolicy, RunPolicyOverride
from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.run.approval import approvers_of, is_denied_once_tainted, judge
from sojourn.core.run.taint import is_closed, taint_reason
from sojourn.errors import DefinitionError
from sojourn.live.address import as_transport
from sojourn.live.transport import LiveTransport
from sojourn.policy import PolicyEngine, as_policy_engine
from sojourn.values.text import count_noun

if TYPE_CHECKING:
    # Importing them loads the Temporal SDK, which a declaration does not need.
    from sojourn.oauth.grants import SignInServer
    from sojourn.storage import StorageDriver
    from sojourn.vault.sealed import TokenVault
    from sojourn.vault.vault import Vault

__all__ = ["AnyTool", "App", "NoticeFunction"]

NoticeFunction = Callable[[Notice], Awaitable[None]]
"""An async function of notices; one may come again, with the same `id`."""

Versioning = Literal["auto_upgrade", "pinned"]
"""On which version of a deployment an open run continues: on the current one, or on its own."""

_TOLD = Kind("an async function of a notice, or a Webhook", lambda value: value is None or is_async(value))

AnyTool = Runnable | ExportedTool[..., Any]


@declares(
    "App",
    mends={
        "agents": "App(agents=[...])",
        "agent": "agents=[...]",
        "tools": "Agent(..., uses=[...])",
        "uses": "Agent(..., uses=[...])",
    },
    agents=list_of("agents"),
    name=TEXT,
    services=list_of("services", also=lambda value: isinstance(value, Mapping)),
    executors=MAPPING,
    interceptors=list_of("interceptors"),
    tenants=Kind("Tenants(...)", lambda value: value is None or isinstance(value, Tenants)),
    attachments=Kind("AttachmentLimits(...)", lambda value: isinstance(value, AttachmentLimits)),
    live=Kind("an address or a transport", lambda value: isinstance(value, str) or hasattr(value, "close")),
    vault=Kind(
        "an address or a Vault", lambda value: isinstance(value, str) or hasattr(value, "get"), is_secret=True
    ),
    allow_loosening=FLAG,
    visibility=VISIBILITY,
    on_wait=_TOLD,
    on_turn=_TOLD,
    on_end=_TOLD,
)
class App:
    """The agents that a worker serves.

    Args:
        agents: Every agent whose runs this deployment plans, including those used as tools.
        name: The name of the deployment, which is also the task queue of its workers; by default `module:variable`, if
            the app is a variable of a module.
        services: The objects behind bound tools, or a mapping of name to object.
        executors: The executor of each toolset with declared tools, by toolset or id: an `Executor` or an async
            function of meta and call.
        interceptors: Prepare every call, in this order: a worker's call when it is executed, a child run's or external
            call when it is dispatched.
        storage: Stores values that are too large for a run's history. Without it such a result is refused, with its size and
            how to narrow the call.
        archive: Whether the storage also keeps the events of a long run's earlier executions. The server's retention
            may delete them while the run is still open.
        attachments: Bounds of the files that messages over HTTP may have; 25 MB each by default.
        tenants: The quotas of tenants; by default those of the file that `SOJOURN_TENANTS` names, else none.
        policy_engine: Tightens what runs may do, turn by turn.
        live: The transport of what planners are writing: a transport, or `redis://HOST:PORT/DB`; `SOJOURN_LIVE`, which
            `sojourn dev` sets, else within this process. Clients need the same.
        vault: Keeps OAuth tokens for MCP servers, so that workers share them: a `Vault`, `folder:/PATH` or `redis://HOST:PORT/DB`; by
            default `SOJOURN_VAULT`. It needs a key ring (`SOJOURN_KEYRING`).
        allow_loosening: Whether the limits given at a run's start may be looser than its agent's.
        visibility: Who sees a run over HTTP: everyone in its tenant, or with `subject` only those it acts for,
            operators, and those who have to approve one of its calls. A child run is seen as its parent is.
        versioning: On which version of a worker deployment a run continues: `auto_upgrade` moves it to
            the current one, `pinned` keeps it on the one where it, or its present execution, began.
        on_wait: Called when a run waits for a person or a program: an async function of a `Notice`, or a `Webhook`.
        on_turn: The same, when a turn of a conversation has ended.
        on_end: The same, when a run has ended that is no child run.

    Raises:
        DefinitionError: Two agents, toolsets or tools share an id; an exported agent, a service, a method or an
            executor is missing; or a bound tool's types do not fit its method's.
    """

    def __init__(
        self,
        *,
        agents: Sequence[Agent],
        name: str | None = None,
        services: Iterable[Any] | Mapping[str, Any] = (),
        executors: Mapping[Toolset | str, Any] | None = None,
        interceptors: Sequence[Interceptor] = (),
        storage: "StorageDriver | None" = None,
        archive: bool = False,
        attachments: AttachmentLimits | None = None,
        tenants: Tenants | None = None,
        policy_engine: PolicyEngine | None = None,
        live: LiveTransport | str | None = None,
        vault: "Vault | str | None" = None,
        allow_loosening: bool = False,
        visibility: Visibility = "tenant",
        versioning: Versioning = "auto_upgrade",
        on_wait: NoticeFunction | None = None,
        on_turn: NoticeFunction | None = None,
        on_end: NoticeFunction | None = None,
    ) -> None:
        if not agents:
            raise DefinitionError("App(agents=[...]) needs at least one agent")
        if name is not None and not APP_NAME.match(name):
            raise DefinitionError(
                f"App(name={show_value(name)}): a name begins with a letter or digit, has letters, digits and ._:@/+-, at most 200"
            )
        if name is not None and (fault := task_queue_fault(name)):
            raise DefinitionError(f"App(name={show_value(name)}): {fault}")
        self._name = name
        self._module = declaring_module()
        self.storage = storage
        self.archive = archive
        self.attachment_limits = attachments or AttachmentLimits()
        self._tenants: Tenants | TenantsFile | None = tenants
        self.interceptors = [_check_interceptor(item) for item in interceptors]
        self.policy_engine = None if policy_engine is None else as_policy_engine(policy_engine)
        self._live = live
        self._vault = vault
        self._allow_loosening = allow_loosening
        self.visibility: Visibility = visibility
        if versioning not in get_args(Versioning):
            raise DefinitionError(
                f"App(versioning={show_value(versioning)}): a run is either pinned or auto_upgrade"
            )
        self.versioning: Versioning = versioning
        told: dict[NoticeKind, NoticeFunction | None] = {"wait": on_wait, "turn": on_turn, "end": on_end}
        self.notices: dict[NoticeKind, NoticeFunction] = {kind: tell for kind, tell in told.items() if tell}
        self._services = Services(services)
        self._executors = {
            _toolset_id(key): _check_executor(key, item) for key, item in (executors or {}).items()
        }
        self._agents: dict[str, Agent] = {}
        self._toolsets: dict[str, Toolset | AgentToolset | RemoteToolset] = {}
        self._bound: dict[str, Runnable] = {}
        self._fixed: dict[str, dict[str, AnyTool]] = {}
        for agent in agents:
            self._add(agent)
        self._check_toolsets()
        remote = [toolset.id for toolset in self._toolsets.values() if isinstance(toolset, RemoteToolset)]
        declared = [
            str(tool.spec.id)
            for toolset in self._toolsets.values()
            if not isinstance(toolset, RemoteToolset)
            for tool in toolset.tools.values()
        ]
        for agent in agents:
            check_policy_names(agent, declared, remote)
            self._check_asking(agent)
        for agent in agents:
            warn_of_tools(agent, stacklevel=3)  # this, the check of the options, and the line of App(...)

    def __repr__(self) -> str:
        name = f"{self.name} of " if self.name else ""
        return f"<App {name}{' '.join(self._agents)}: {count_noun(len(self._toolsets), 'toolset')}>"

    @property
    def name(self) -> str | None:
        """The name given, else `module:variable`, or None in no module."""
        return self._name or name_in_module(self, self._module)

    @property
    def digest(self) -> str:
        """A short digest of the app's code, declared tools and Sojourn's version."""
        declared = [
            tool.spec.model_dump(mode="json")
            for toolset in self._toolsets.values()
            if not isinstance(toolset, RemoteToolset)
            for tool in toolset.tools.values()
        ]
        return digest_of_app(self._module, sojourn.__version__, declared)

    def _add(self, agent: Agent) -> None:
        if not isinstance(agent, Agent):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller's mistake
            raise DefinitionError(
                f"App(agents=[...]) takes agents; {show_value(agent)} is not one; write Agent(id, planner=...)"
            )
        if agent.id in self._agents:
            raise DefinitionError(
                f"agent {agent.id} is in App(agents=[...]) twice; give one of them another id"
            )
        self._agents[agent.id] = agent
        for toolset in agent.uses:
            known = self._toolsets.setdefault(toolset.id, toolset)
            if known is not toolset:
                raise DefinitionError(f"two toolsets have the id {toolset.id}; give one of them another id")

    def _check_toolsets(self) -> None:
        for toolset in self._toolsets.values():
            if isinstance(toolset, AgentToolset) and self._agents.get(toolset.agent.id) is not toolset.agent:
                raise DefinitionError(
                    f"toolset {toolset.id} is exported by agent {toolset.agent.id}, which is not in App(agents=[...]); "
                    "add it"
                )
            if isinstance(toolset, Toolset):
                for tool in toolset.tools.values():
                    self._bound[tool.id] = tool.source.bind(tool, self)
        if unused := [key for key in self._executors if key not in self._toolsets]:
            raise DefinitionError(f"App(executors=...) names toolset {unused[0]}, which no agent uses")

    def _check_asking(self, agent: Agent) -> None:
        """Refuse an agent whose tool needs an approval that it cannot get."""
        for tool in self.tools_of(agent.id).values():
            if approvers_of(tool.spec, agent.policy.approval) is None:
                raise DefinitionError(
                    f"agent {agent.id}: no principal may approve {tool.spec.id}; its approvers {tool.spec.approvers} and those of the rules of "
                    "its ApprovalPolicy have no role in common"
                )
        if agent.policy.interrupts_allowed or self._allow_loosening:
            return
        approval = agent.policy.approval
        specs = [
            tool.spec
            for toolset in agent.uses
            if not isinstance(toolset, RemoteToolset)
            for tool in toolset.tools.values()
        ]
        outside = next((spec for spec in specs if taint_reason(spec) and not is_closed(spec)), None)
        for spec in specs:
            call = ToolRequest(name=spec.id)
            if judge(spec, call, approval, None, interrupts_allowed=True).kind == "ask":
                raise DefinitionError(
                    f"agent {agent.id} uses {spec.id}, which a person must approve, but the agent may not ask a person; set "
                    "policy=RunPolicy(interrupts_allowed=True), or let the tool run without approval: "
                    f"approval=ApprovalPolicy(run_tools=[{str(spec.id)!r}])"
                )
            if outside and approval.tainted == "ask" and is_denied_once_tainted(spec, approval):
                raise DefinitionError(
                    f"agent {agent.id}: after a result of {outside.id}, which reads from outside, a call of {spec.id} is denied, since the "
                    "agent may not ask a person; set policy=RunPolicy(interrupts_allowed=True), or say which it is to be: "
                    'approval=ApprovalPolicy(tainted="deny" | "allow")'
                )

    # For the binding of tools (`sojourn.authoring.tool.Parts`).

    def service(self, owner: Any, place: str) -> Any:
        """Return the registered service that has this method, or this name."""
        return (
            self._services.find(owner, place)
            if isinstance(owner, str)
            else self._services.with_method(owner, place)
        )

    def executor(self, toolset_id: str, place: str) -> Any:
        """Return the executor of a toolset."""
        if toolset_id not in self._executors:
            raise DefinitionError(
                f"{place} is declared without a function; give its toolset an executor: App(executors={{{toolset_id!r}: ...}})"
            )
        return self._executors[toolset_id]

    # For the activities.

    def agent(self, agent_id: str) -> Agent | None:
        """Return the agent with this id, or None."""
        return self._agents.get(agent_id)

    def visibility_of(self, agent_id: str) -> Visibility:
        """Return who sees the runs of an agent, known here or not."""
        agent = self._agents.get(agent_id)
        return (agent and agent.visibility) or self.visibility

    @property
    def agent_ids(self) -> list[str]:
        """The ids of the agents, in the order in which they were given."""
        return list(self._agents)

    @property
    def subject_agents(self) -> frozenset[str] | None:
        """The agents whose runs only their subjects see, or None for every agent."""
        if self.visibility == "subject" and all(
            each.visibility != "tenant" for each in self._agents.values()
        ):
            return None
        return frozenset(id for id in self._agents if self.visibility_of(id) == "subject")

    def policy_of(self, agent: Agent, override: RunPolicyOverride | None, *, is_child: bool) -> RunPolicy:
        """Return the limits of a run: the agent's policy and the run's override.

        A parent run's override only ever tightens its child run's limits.
        """
        loosens = self._allow_loosening and not is_child
        return agent.policy.overridden(override) if loosens else agent.policy.tightened(override)

    def tools_of(self, agent_id: str) -> Mapping[str, AnyTool]:
        """Return the tools that an agent uses, by id, as far as they are known now."""
        if agent_id in self._fixed:
            return self._fixed[agent_id]
        agent = self._agents.get(agent_id)
        uses = agent.uses if agent else []
        tools: dict[str, AnyTool] = {
            str(tool.spec.id): tool for toolset in uses for tool in self._tools_in(toolset)
        }
        if agent and not any(isinstance(toolset, RemoteToolset) for toolset in uses):
            self._fixed[agent_id] = tools
        return tools

    def approver_check(self, agent_id: str, tool_id: str) -> ApproverCheck | None:
        """Return the function that judges who may decide on a tool's calls, or None."""
        agent = self._agents.get(agent_id)
        for toolset in agent.uses if agent else ():
            for tool in () if isinstance(toolset, RemoteToolset) else toolset.tools.values():
                if str(tool.id) == tool_id:
                    return tool.approver_check
        return None

    def why_unknown(self, agent_id: str, tool_id: str) -> str | None:
        """Return why a remote tool of the agent is unknown now, or None."""
        agent = self._agents.get(agent_id)
        for toolset in agent.uses if agent else ():
            if isinstance(toolset, RemoteToolset) and tool_id.startswith(f"{toolset.id}."):
                hidden = toolset.why_hidden if isinstance(toolset, OwnedToolset) else None
                return toolset.unavailable or hidden or why_left_out(toolset, tool_id)
        return None

    def unavailable(self) -> list[str]:
        """Return the remote toolsets that are unavailable now, each with the reason."""
        remote = (toolset for toolset in self._toolsets.values() if isinstance(toolset, RemoteToolset))
        return [
            f"toolset {toolset.id} is unavailable: {toolset.unavailable}"
            for toolset in remote
            if toolset.unavailable
        ]

    def server_instructions(self, agent_id: str) -> dict[str, str]:
        """Return what servers say about using an agent's tools, by toolset."""
        agent = self._agents.get(agent_id)
        remote = [toolset for toolset in (agent.uses if agent else ()) if isinstance(toolset, RemoteToolset)]
        return {toolset.id: text for toolset in remote if (text := instructions_of(toolset))}

    def unusable_tools(self, agent_id: str | None = None) -> dict[str, Mapping[str, str]]:
        """Return the remote tools that cannot be used, with reasons, by toolset.

        They are those of all toolsets, or of an agent's.
        """
        agent = self._agents.get(agent_id or "")
        toolsets = self._toolsets.values() if agent_id is None else agent.uses if agent else ()
        remote = [toolset for toolset in toolsets if isinstance(toolset, RemoteToolset)]
        return {toolset.id: tools for toolset in remote if (tools := unusable_tools_of(toolset))}

    def denied_once_tainted(self) -> dict[str, list[str]]:
        """Return the tools that tainted runs deny, by agent.

        They are those of agents that may ask no person, and whose policy does not say `deny` or `allow` itself.
        An agent also gets text from outside from the agents that it calls, and from those that call it. Tools
        of MCP servers are known once a worker has listed them.
        """
        found: dict[str, list[str]] = {}
        for agent_id in self._agents:
            tree = self._agents_below(agent_id)
            if any(taint_reason(spec) for specs in tree.values() for spec in specs):
                found |= {each: self._denied_once_tainted(self._agents[each], tree[each]) for each in tree}
        return {agent_id: denied for agent_id, denied in found.items() if denied}

    def _denied_once_tainted(self, agent: Agent, specs: list[ToolSpec]) -> list[str]:
        approval = agent.policy.approval
        may_ask = agent.policy.interrupts_allowed or self._allow_loosening
        if may_ask or approval.tainted != "ask":
            return []
        return [str(spec.id) for spec in specs if is_denied_once_tainted(spec, approval)]

    def _agents_below(self, agent_id: str) -> dict[str, list[ToolSpec]]:
        """Return an agent and all that it calls, also through others, with their tools."""
        below: dict[str, list[ToolSpec]] = {}
        open_ids = [agent_id]
        while open_ids:
            each = open_ids.pop()
            if each not in below and each in self._agents:
                below[each] = self.tool_specs_for_agent(each) or []
                open_ids += [spec.agent_id for spec in below[each] if spec.agent_id]
        return below

    def unknown_toolsets(self, agent_id: str) -> list[str]:
        """Return an agent's remote toolsets whose tools this process does not know."""
        agent = self._agents.get(agent_id)
        remote = [toolset for toolset in (agent.uses if agent else ()) if isinstance(toolset, RemoteToolset)]
        return [toolset.id for toolset in remote if not toolset.tools]

    def _tools_in(self, toolset: Toolset | AgentToolset | RemoteToolset) -> Iterable[AnyTool]:
        if isinstance(toolset, Toolset):
            return [self._bound[tool.id] for tool in toolset.tools.values()]
        return toolset.tools.values()

    @property
    def live_setting(self) -> LiveTransport | str | None:
        """The transport of deltas as it was given, or None if the settings decide."""
        return self._live

    @cached_property
    def live(self) -> LiveTransport:
        """The transport of deltas, by the settings as they are at the first use.

        Raises:
            DefinitionError: `SOJOURN_LIVE` cannot be read.
        """
        from sojourn.connection import settings  # noqa: PLC0415 - importing it loads the Temporal SDK, which a declaration does not need

        return as_transport(self._live or settings.live())

    @cached_property
    def vault(self) -> "TokenVault | None":
        """What keeps OAuth tokens, by the settings as they are at the first use.

        Raises:
            DefinitionError: A setting cannot be read, or there is no key ring.
        """
        from sojourn.connection import settings  # noqa: PLC0415 - as above
        from sojourn.vault.sealed import token_vault  # noqa: PLC0415

        return token_vault(self._vault or settings.vault(), settings.vault_key_ring())

    @property
    def opened_vault(self) -> "TokenVault | None":
        """The vault if this process has used it."""
        return self.__dict__.get("vault")

    @property
    def tenants(self) -> Tenants | TenantsFile | None:
        """The quotas of tenants, given or in the file that the settings name.

        Raises:
            DefinitionError: The file that `SOJOURN_TENANTS` names cannot be read.
        """
        from sojourn.connection import settings  # noqa: PLC0415 - importing it loads the Temporal SDK, which a declaration does not need

        if self._tenants is None and (path := settings.tenants()):
            self._tenants = TenantsFile(path)
        return self._tenants

    async def open(self) -> None:
        """Open the remote toolsets, when a worker starts."""
        _ = self.live  # raises here when the setting is invalid
        for toolset in self._toolsets.values():
            if isinstance(toolset, VaultUser) and toolset.keeps_tokens:
                toolset.use_vault(self.vault)
        await asyncio.gather(
            *(toolset.open() for toolset in self._toolsets.values() if isinstance(toolset, RemoteToolset))
        )

    def sign_in_servers(self) -> dict[str, "SignInServer"]:
        """Return the servers at which people sign in, by toolset."""
        found = {id: getattr(toolset, "sign_in_server", None) for id, toolset in self._toolsets.items()}
        return {id: server for id, server in found.items() if server is not None}

    async def act_for(self, agent_id: str, run_id: str, principal: Principal | None) -> None:
        """Let `tools_of` return the tools of a principal from now on, in this task."""
        meta = ToolCallMeta(run_id=run_id, principal=principal)
        ACTING_FOR.set(meta)
        agent = self._agents.get(agent_id)
        owned = [toolset for toolset in (agent.uses if agent else ()) if isinstance(toolset, OwnedToolset)]
        if principal is not None and owned:
            await asyncio.gather(*(toolset.know(meta) for toolset in owned))

    async def close(self) -> None:
        """Close the remote toolsets, the live transport and the vault."""
        vault = self.opened_vault
        await asyncio.gather(
            *((vault.close(),) if vault else ()),
            self.live.close(),
            *(toolset.close() for toolset in self._toolsets.values() if isinstance(toolset, RemoteToolset)),
        )

    # Introspection (SR-84, SR-95 to SR-100).

    def list_agents(self) -> list[str]:
        """Return the ids of the agents (SR-100)."""
        return list(self._agents)

    def list_toolsets(self) -> list[str]:
        """Return the ids of the toolsets (SR-100)."""
        return list(self._toolsets)

    def tool_spec(self, tool_id: str) -> ToolSpec | None:
        """Return a tool's spec, or None (SR-84, SR-100)."""
        return next(
            (
                tool.spec
                for toolset in self._toolsets.values()
                for tool in toolset.tools.values()
                if tool.spec.id == tool_id
            ),
            None,
        )

    def tool_schema(self, tool_id: str) -> dict[str, Any] | None:
        """Return a tool's `payload` and `result` schemas, or None (SR-84, SR-100)."""
        spec = self.tool_spec(tool_id)
        return {"payload": spec.payload.json_schema, "result": spec.result.json_schema} if spec else None

    def tool_specs_for_agent(self, agent_id: str) -> list[ToolSpec] | None:
        """Return the specs of the tools an agent uses, or None (SR-100)."""
        return [tool.spec for tool in self.tools_of(agent_id).values()] if agent_id in self._agents else None

    def catalog(self, agent_id: str | None = None) -> list[dict[str, Any]]:
        """Return a catalogue entry for every tool, or for one agent's (SR-95 to SR-99)."""
        specs = (
            [tool.spec for toolset in self._toolsets.values() for tool in toolset.tools.values()]
            if agent_id is None
            else self.tool_specs_for_agent(agent_id) or []
        )
        return [
            entry_of(
                spec,
                about=self.toolset_description(spec.id.toolset_id),
                approval=self.approvals(spec, agent_id),
            )
            for spec in sorted(specs, key=lambda spec: spec.id)
        ]

    def approvals(self, spec: ToolSpec, agent_id: str | None = None) -> dict[str, str]:
        """Return what policies decide about a tool's calls, by agent: `ask` or `deny`.

        Agents whose calls run without approval are left out. A policy engine, and the limits given at a
        run's start, may decide otherwise.
        """
        found: dict[str, str] = {}
        for agent in self._agents.values():
            uses = agent_id in (None, agent.id) and str(spec.id) in self.tools_of(agent.id)
            policy = agent.policy
            asks = policy.interrupts_allowed or self._allow_loosening
            call = ToolRequest(name=spec.id)
            verdict = judge(spec, call, policy.approval, None, interrupts_allowed=asks) if uses else None
            if verdict and verdict.kind != "run":
                found[agent.id] = verdict.kind
        return found

    def toolset_description(self, toolset_id: str) -> str:
        """Return the description of a toolset, or an empty text for an unknown one."""
        toolset = self._toolsets.get(toolset_id)
        return toolset.description if toolset else ""

    def serve(self, *, task_queue: str | None = None) -> None:
        """Serve runs until SIGTERM or Ctrl-C, then drain, like `sojourn worker`.

        The task queue is the one given, `SOJOURN_TASK_QUEUE`, or the app's name.
        """
        from sojourn.worker import serve  # noqa: PLC0415 - a worker is needed only here

        serve(self, task_queue=task_queue)


def _toolset_id(key: Toolset | str) -> str:
    if not isinstance(key, (str, Toolset)):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller's mistake
        raise DefinitionError(
            f"App(executors={{...}}) has a toolset or its id as keys; {show_value(key)} is neither"
        )
    return key if isinstance(key, str) else key.id


def _check_executor(key: Toolset | str, executor: Any) -> Any:
    if (isinstance(executor, Executor) and not isinstance(executor, type)) or inspect.iscoroutinefunction(
        executor
    ):
        return executor
    raise DefinitionError(
        f"App(executors={{{_toolset_id(key)!r}: ...}}) takes an object with async execute(meta, call), or one async "
        f"function of meta and call; {show_value(executor)} is neither"
    )


def _check_interceptor(interceptor: Any) -> Interceptor:
    if isinstance(interceptor, Interceptor) and not isinstance(interceptor, type):
        return interceptor
    raise DefinitionError(
        f"App(interceptors=[...]) takes objects with async intercept_tool_call(meta, call); {show_value(interceptor)} is not one"
    )
