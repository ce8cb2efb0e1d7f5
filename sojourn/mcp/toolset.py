"""An MCP server declared as a toolset, whose tools are listed in a worker."""

import asyncio
import contextlib
import functools
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, get_args

import structlog

from sojourn.authoring.options import DURATION, FLAG, RETRY, TEXT, Kind, declares
from sojourn.authoring.runnable import ACTING_FOR
from sojourn.contracts.ids import TOOLSET_ID, ToolId
from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.contracts.tool_spec import Retry
from sojourn.core.payload.template import unknown_fields
from sojourn.errors import DefinitionError, SojournError
from sojourn.mcp.auth import GrantedTokens, IssuedTokens
from sojourn.mcp.caller import Credentials
from sojourn.mcp.catalogue import Catalogue
from sojourn.mcp.connection import ServerConnection
from sojourn.mcp.limits import CONNECT_TIMEOUT, LIST_TIMEOUT, MAX_SESSIONS, SESSION_IDLE, TTL
from sojourn.mcp.own_lists import ConnectTool, OwnLists
from sojourn.mcp.own_sessions import OwnSessions, Sharing
from sojourn.mcp.spec_from_listing import (
    Results,
    Terms,
    check_approvers,
    check_terms,
    find_unmatched,
    patterns,
    stand_in_spec,
    tool_id_of,
)
from sojourn.mcp.tool import McpTool
from sojourn.mcp.transports import Http, Sse, Stdio, Transport
from sojourn.values.timers import duration_fault

if TYPE_CHECKING:
    from sojourn.mcp.session import ServerSession
    from sojourn.oauth.grants import SignInServer
    from sojourn.vault.sealed import TokenVault

__all__ = ["McpToolset"]

_log = structlog.get_logger("sojourn.mcp")


_TRANSPORTS = 'transport=mcp.Stdio("program", "argument") or transport=mcp.Http(url)'


def _transport(given: Any) -> str | None:
    """Return the replacement to suggest for a transport, without an address."""
    if isinstance(given, type):
        return f"mcp.{given.__name__}(...)" if given in (Stdio, Http, Sse) else None
    is_address = isinstance(given, str) and "://" in given
    return "mcp.Http(url)" if is_address else _TRANSPORTS.removeprefix("transport=")


def _is_transport(given: Any) -> bool:
    return not isinstance(given, type) and callable(getattr(given, "connect", None))


@declares(
    "toolset",
    mends={
        "transport": _TRANSPORTS,
        "command": 'transport=mcp.Stdio("program", "argument")',
        "args": 'transport=mcp.Stdio("program", "argument")',
        "env": 'transport=mcp.Stdio("program", env={...})',
        "url": "transport=mcp.Http(url)",
        "headers": "transport=mcp.Http(url, headers={...})",
    },
    transport=Kind("an mcp.Stdio, an mcp.Http or an mcp.Sse", _is_transport, _transport, is_secret=True),
    description=TEXT,
    task_queue=TEXT,
    timeout=DURATION,
    retry=RETRY,
    ttl=DURATION,
    connect_timeout=DURATION,
    session=Kind('"tenant", "principal" or "shared"', lambda value: value in get_args(Sharing)),
    max_sessions=Kind("a number above 0", lambda value: type(value) is int and value > 0),
    session_idle=DURATION,
    pictures=FLAG,
    instructions=FLAG,
    results=Kind('"delivered" or "checked"', lambda value: value in get_args(Results)),
)
class McpToolset:
    """The tools of an MCP server (SR-12).

    Args:
        id: `<service>.<toolset>`.
        transport: `mcp.Stdio`, `mcp.Http` or `mcp.Sse`.
        description: Description for catalogues.
        task_queue: The task queue of its tools' activities; by default the run's own queue.
        timeout: Time limit of each call; by default the policy's.
        retry: How often a transient failure is retried.
        ttl: Maximum age of the list of tools.
        connect_timeout: Time limit for connecting to the server.
        session: Whose calls share a session with the server, and so what it keeps for one, such as a cart: those of a
            `tenant`, those of a `principal`, or with `shared` all calls of a worker. Runs of none share one. By default
            a tenant's, or a principal's if the transport's headers come from a function.
        max_sessions: Most sessions of tenants or principals at once; for `mcp.Stdio` each is a process.
        session_idle: A session without a call for this long ends, with its state on the server.
        include: Names or patterns (`read_*`) of the tools to use, or a single one; by default all.
        exclude: Names or patterns of the tools to leave out, or a single one.
        trusted: Whether the server's annotations (`read_only`, `destructive`) count in the decision whether a person
            has to approve a call; the catalogue shows them either way.
        confirmation: The question to a person before each call, by name or pattern of a tool, such as
            `{"delete_*": "Delete {path}?"}`. A name comes before patterns, and the first pattern that fits counts.
        approvers: The roles that may decide on a call, by name or pattern, such as `{"delete_*": ["finance"]}`; a
            person then has to approve each call. Without it the role is `approver`.
        four_eyes: Names or patterns of the tools whose calls the requester may not approve; a person then has to
            approve each call.
        bounded: Names or patterns of the tools whose structured results state their bounds, in `returned`, `total`,
            `truncated` (SR-22).
        results: A result that does not fit the server's own `outputSchema` is `delivered` with a note; with `checked`
            it is refused as `malformed_response`.
        instructions: Whether models read the server's instructions, after the planner's.
        pictures: Whether models that see get the pictures that the tools return; people get them in any case.

    Raises:
        DefinitionError: The id has another form, a duration is not above zero or is over 10 years, or another option
            has a value of the wrong kind.
    """

    def __init__(
        self,
        id: str,
        *,
        transport: Transport,
        description: str = "",
        task_queue: str | None = None,
        timeout: timedelta | None = None,
        retry: Retry | None = None,
        ttl: timedelta = TTL,
        connect_timeout: timedelta = CONNECT_TIMEOUT,
        session: Sharing | None = None,
        max_sessions: int = MAX_SESSIONS,
        session_idle: timedelta = SESSION_IDLE,
        include: str | Iterable[str] | None = None,
        exclude: str | Iterable[str] = (),
        trusted: bool = False,
        confirmation: Mapping[str, str] | None = None,
        approvers: Mapping[str, Sequence[str]] | None = None,
        four_eyes: str | Iterable[str] = (),
        bounded: str | Iterable[str] = (),
        results: Results = "delivered",
        pictures: bool = True,
        instructions: bool = True,
    ) -> None:
        if not isinstance(id, str) or not TOOLSET_ID.match(id):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller's mistake
            raise DefinitionError(f"toolset {id!r}: the id must have the form <service>.<toolset>")
        for name, duration in (
            ("timeout", timeout),
            ("ttl", ttl),
            ("connect_timeout", connect_timeout),
            ("session_idle", session_idle),
        ):
            if fault := duration_fault(name, duration):
                raise DefinitionError(f"toolset {id}: {fault}")
        confirmation = {} if confirmation is None else confirmation
        check_terms(id, trusted=trusted, confirmation=confirmation)
        check_approvers(id, approvers or {})
        self.id = id
        self._session = session
        self._check_sharing(transport)
        self.description = description
        self.task_queue = task_queue
        self._terms = Terms(
            timeout=timeout,
            retry=retry or Retry(),
            task_queue=task_queue,
            trusted=trusted,
            confirmation=dict(confirmation),
            bounded=patterns(id, "bounded", bounded),
            approvers=dict(approvers or {}),
            four_eyes=patterns(id, "four_eyes", four_eyes),
            results=results,
            pictures=pictures,
        )
        self._connection = ServerConnection(
            id,
            transport,
            ttl=ttl,
            connect_timeout=connect_timeout,
            take_list=self._take_list,
            on_drop=self._leave_out,
            others=OwnSessions(id, max_sessions, session_idle),
            sharing=session,
        )
        wanted = None if include is None else patterns(id, "include", include)
        unwanted = patterns(id, "exclude", exclude)

        def new_catalogue() -> Catalogue:
            return Catalogue(id, self._terms, self._connection, include=wanted, exclude=unwanted)

        self._catalogue = new_catalogue()
        self._lists = OwnLists(new_catalogue, self._connection, ttl)
        self._has_instructions = instructions
        self._vault: TokenVault | None = None
        self._unused: dict[str, list[str]] = {}

    @property
    def transport(self) -> Transport:
        """How to reach the server.

        A new value takes effect with the next session, or when the server answers HTTP 401.
        """
        return self._connection.transport

    @transport.setter
    def transport(self, transport: Transport) -> None:
        self._check_sharing(transport)
        self._connection.transport = transport
        if self._vault is not None:
            self.use_vault(self._vault)

    def _check_sharing(self, transport: Transport) -> None:
        """Refuse a shared session if each principal has tokens of its own."""
        credentials = getattr(transport, "credentials", None)
        is_own = isinstance(credentials, IssuedTokens | GrantedTokens) and credentials.differs_by_caller
        if is_own and self._session not in (None, "principal"):
            raise DefinitionError(
                f'toolset {self.id}: principals have tokens of their own, so session="{self._session}" cannot be; leave it out'
            )

    @property
    def keeps_tokens(self) -> bool:
        """Whether the transport gets tokens, or other headers by caller."""
        return getattr(self._connection.transport, "credentials", None) is not None

    def use_vault(self, vault: "TokenVault | None") -> None:
        """Keep the tokens of the transport in a vault, or within the process.

        Raises:
            DefinitionError: They need a vault, and there is none.
        """
        self._vault = vault
        credentials: Credentials | None = getattr(self._connection.transport, "credentials", None)
        if credentials is not None:
            credentials.bind(self.id, vault)

    @property
    def tools(self) -> Mapping[str, McpTool]:
        """The tools that were listed last, by the server's names.

        If the server lists them only to principals, they are those of the one for whom an activity acts; with `mcp.SignIn` also
        `connect`, which is alone before the sign-in.
        """
        if self._catalogue.is_known or not self._lists_by_principal:
            return self._catalogue.tools
        acting = ACTING_FOR.get()
        known = (self._lists.known(acting) if acting else None) or {}
        return known if self._sign_in is None else {"connect": self._connect_tool, **known}

    @property
    def _lists_by_principal(self) -> bool:
        credentials: Credentials | None = getattr(self._connection.transport, "credentials", None)
        return credentials is not None and credentials.differs_by_caller

    @property
    def _sign_in(self) -> GrantedTokens | None:
        credentials = getattr(self._connection.transport, "credentials", None)
        return credentials if isinstance(credentials, GrantedTokens) else None

    @property
    def sign_in_server(self) -> "SignInServer | None":
        """The server at which principals sign in, or None."""
        return self._sign_in and self._sign_in.declared.server(self.id, self._sign_in.url)

    @functools.cached_property
    def _connect_tool(self) -> ConnectTool:
        title = (self._sign_in.declared.title if self._sign_in else "") or self.id
        return ConnectTool(self.id, title, self._terms, self._connection, self._lists)

    @property
    def why_hidden(self) -> str | None:
        """Why its tools are unknown where no principal acts, or None."""
        acting = ACTING_FOR.get()
        is_hidden = self._lists_by_principal and not self._catalogue.is_known
        if not is_hidden or (acting and acting.principal):
            return None
        return "its server lists its tools only to a principal"

    async def know(self, meta: ToolCallMeta) -> None:
        """List the tools of a principal who has access, for at most `LIST_TIMEOUT`."""
        if not self._lists_by_principal or self._catalogue.is_known or meta.principal is None:
            return
        signs_in = self._sign_in
        with contextlib.suppress(SojournError, TimeoutError):
            async with asyncio.timeout(LIST_TIMEOUT.total_seconds()):
                if signs_in is None or await signs_in.find(meta.principal) is not None:
                    await self._lists.tools(meta)

    async def _known_for(self, meta: ToolCallMeta) -> Mapping[str, McpTool]:
        if self._lists_by_principal and not self._catalogue.is_known and meta.principal is not None:
            return await self._lists.tools(meta)
        await self._connection.session()
        return self._catalogue.tools

    @property
    def instructions(self) -> str:
        """The server's instructions, up to 2,000 characters, unless turned off."""
        return self._catalogue.instructions if self._has_instructions else ""

    @property
    def left_out(self) -> Mapping[str, str]:
        """Tools that cannot be used, by the server's names, with the reasons."""
        return self._catalogue.left_out

    @property
    def unavailable(self) -> str | None:
        """Why the server cannot be used now, or None if it can."""
        return self._connection.unavailable

    def __getitem__(self, name: str) -> McpTool:
        """Return the tool with this name at the server.

        Before the first listing, return a stand-in for it.

        Raises:
            KeyError: The server lists no such tool.
        """
        if self._catalogue.is_known:
            return self.tools[name]
        spec = stand_in_spec(self.id, name, self._terms)
        return McpTool(spec, name, self._terms, self._connection, known=self._known_for)

    def call(self, name: str, /, **fields: Any) -> ToolRequest:
        """Return a request for a tool of this set, whether or not it was listed yet."""
        return ToolRequest(name=self.id_of(name), payload=fields)

    def id_of(self, name: str) -> ToolId:
        """Return the id of the tool with this name at the server."""
        return tool_id_of(self.id, name)

    def ids(self) -> list[ToolId]:
        """Return the ids of the tools that were listed last."""
        return [tool.id for tool in self.tools.values()]

    async def open(self) -> None:
        """Connect and list the tools, for at most `connect_timeout` and 1 s.

        A server that is down is noted in `unavailable`, and tried again in the background.
        """
        await self._connection.open()

    async def close(self) -> None:
        """End the session, and a server process that was started for it."""
        await self._connection.close()

    def refresh(self) -> None:
        """List the tools again in the background, at least 1 s after the last time."""
        self._connection.refresh()

    async def _take_list(self, session: "ServerSession") -> int:
        await self._catalogue.refresh(session)
        bounded = [name for name, tool in self.tools.items() if tool.spec.bounded]
        self._warn_unused("mcp_confirmation_unused", find_unmatched(self._terms.confirmation, self.tools))
        unknown = [
            f"{name}: {{{field}}}"
            for name, tool in self.tools.items()
            for field in unknown_fields(tool.spec.confirmation or "", tool.spec.payload.json_schema)[0]
        ]
        self._warn_unused("mcp_confirmation_field_unknown", unknown)
        self._warn_unused("mcp_approvers_unused", find_unmatched(self._terms.approvers, self.tools))
        self._warn_unused("mcp_four_eyes_unused", find_unmatched(self._terms.four_eyes, self.tools))
        self._warn_unused("mcp_bounded_unused", find_unmatched(self._terms.bounded, bounded))
        return len(self.tools)

    def _leave_out(self, name: str, why: str) -> None:
        self._catalogue.leave_out(name, why)

    def _warn_unused(self, event: str, names: list[str]) -> None:
        if names and names != self._unused.get(event):
            _log.warning(event, toolset=self.id, names=names)
        self._unused[event] = names

    def __repr__(self) -> str:
        return f"<McpToolset {self.id} {self.transport!r}>"
