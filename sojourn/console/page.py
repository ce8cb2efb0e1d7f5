"""A visit to a page, the state that pages share, and the ways to answer."""

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, fields
from http import HTTPStatus
from typing import Any, Self, TypeAlias, TypeVar, cast
from urllib.parse import quote, urlencode

import structlog
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Match, Route
from starlette.types import Scope

from sojourn.console.checkup import Checkup
from sojourn.console.cookie import key_of
from sojourn.console.form import Form, form_of, keep_form
from sojourn.console.templating import render
from sojourn.console.views.wait_history import WaitHistory
from sojourn.console.watched import WatchedRun, WatchedTalk
from sojourn.contracts.ids import EVENT_ID
from sojourn.contracts.principal import Principal, Role
from sojourn.errors import ServerUnavailable, SojournError
from sojourn.http.files import Thumbnails
from sojourn.http.problems import Problem, problem_of
from sojourn.http.security.principals import principal_of, require
from sojourn.http.service import Service
from sojourn.reader import Cache, LiveTimelines

__all__ = ["ConsoleState", "Filters", "Links", "Pages", "Visit", "problem_page", "talk_place"]


@dataclass(frozen=True, slots=True)
class Room:
    title: str
    path: str
    """Its first page."""
    icon: str
    """Its sign in `icons.html`."""


ROOMS = (
    Room("Home", "/", "home"),
    Room("Runs", "/runs", "runs"),
    Room("Inbox", "/inbox", "inbox"),
    Room("Talk", "/talk", "talk"),
    Room("Decisions", "/decisions", "decisions"),
    Room("Agents", "/agents", "agents"),
    Room("Health", "/health-checks", "health"),
)
"""A new page of the navigation is a line here."""


MAX_READS = 8
MAX_HISTORIES = 500


class ConsoleState:
    """Shared state, one for each application.

    A page reaches it as `visit.console`.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        self.runs = LiveTimelines(lambda run_id: WatchedRun(service.client, service.feeds, run_id))
        self.talks = LiveTimelines(lambda run_id: WatchedTalk(service.client, service.feeds, run_id))
        self.checkup = Checkup(service)
        self.reading_decisions = asyncio.Semaphore(MAX_READS)
        """Limits the histories that are read for decisions at the same time."""
        self.wait_histories: Cache[tuple[str, str, bool], WaitHistory] = Cache(MAX_HISTORIES)
        """Histories of waits, by run, wait, and whether it is open."""
        self.thumbnails = Thumbnails()


T = TypeVar("T")

PATIENCE = 5.0
"""Seconds that a page may take before the server is checked."""

_log = structlog.get_logger("sojourn.console")


@dataclass(frozen=True, slots=True)
class Links:
    """The URLs of a site, wherever it is mounted."""

    base: str
    """Beginning of all paths: the mount path of the application, and its prefix."""

    def __call__(self, path: str, **query: Any) -> str:
        known = [(name, each) for name, value in query.items() for each in _each(value)]
        return f"{self.base}{quote(path, safe='/@:=,;+~!$*()')}{'?' if known else ''}{urlencode(known)}"

    def talk(self, agent_id: str, session_id: str, *, above: str = "", **query: Any) -> str:
        """Return the URL of a conversation, or with `above` the URL of its changes."""
        path, named = talk_place(agent_id, session_id)
        return self(above + path, **named, **query)

    def static(self, name: str) -> str:
        return f"{self.base}/static/{name}"


_FOLDED = frozenset({"", ".", ".."})
"""Segments of a path that browsers and proxies remove, encoded or not. The rest is the path of another page."""


def talk_place(agent_id: str, session_id: str) -> tuple[str, dict[str, str]]:
    """Return the path of a conversation's page, and its query.

    The query has the session if a path would not preserve it.
    """
    if _FOLDED.isdisjoint(session_id.split("/")):
        return f"/talk/{agent_id}/{session_id}", {}
    return f"/talk/{agent_id}", {"session": session_id}


def _each(value: Any) -> list[str]:
    values = cast("Sequence[Any]", value) if isinstance(value, list | tuple) else [value]
    return [str(each) for each in values if each not in (None, "", False)]


@dataclass(frozen=True, slots=True)
class Visit:
    """A request for a page, and its principal."""

    request: Request
    console: ConsoleState
    asking: Principal
    url: Links
    waiting: int | None = None
    """Number of the tenant's runs that wait for a person.

    None if it is unknown, or if a script requests a part of a page.
    """

    @property
    def service(self) -> Service:
        """Service that reads the runs."""
        return self.console.service

    @property
    def is_part(self) -> bool:
        return "hx-request" in self.request.headers

    @property
    def has_cookie(self) -> bool:
        """Whether the visitor has signed in here, and so can sign out."""
        return bool(key_of(self.request.scope, self.url.base))

    @property
    def audience(self) -> tuple[str, ...]:
        """Site prefix and roles, which every part of a page depends on.

        They are cache keys, in addition to the content of the part.
        """
        return self.url.base, *sorted(self.asking.roles)

    def may(self, role: Role) -> bool:
        """Check whether the visitor has a role.

        A page offers only actions that the visitor may take.
        """
        return role in self.asking.roles

    def query(self, name: str) -> str:
        return self.request.query_params.get(name, "").strip()

    def event_id(self, name: str) -> str:
        """Return a query field that names an event, or an empty text.

        Raises:
            Problem: It names none.
        """
        text = self.query(name)
        if text and not EVENT_ID.match(text):
            then = "Open the page without it."
            raise Problem(422, "invalid_input", f"{name}: {text[:100]!r} is no event", then=then)
        return text

    async def form(self) -> Form:
        return keep_form(self.request, await form_of(self.request))

    def render(self, template: str, **values: Any) -> str:
        return render(template, visit=self, url=self.url, rooms=ROOMS, **values)

    def page(self, template: str, *, http_status: int = 200, **values: Any) -> Response:
        return HTMLResponse(self.render(template, **values), http_status)

    def go(self, path: str, **query: Any) -> Response:
        """Redirect the browser after a form was handled.

        Going back then sends nothing again.
        """
        return RedirectResponse(self.url(path, **query), 303)


@dataclass(frozen=True, slots=True)
class Filters:
    """Filters of a list, as in the fields of its form and of its URL."""

    @classmethod
    def of(cls, text: Callable[[str], str]) -> Self:
        """Read the filters, each cut to 300 characters or its `most`.

        Args:
            text: Returns the text of a field of a form or of a query.
        """
        return cls(*(text(each.name)[: each.metadata.get("most", 300)] for each in fields(cls)))

    @property
    def query(self) -> dict[str, str]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def is_any(self) -> bool:
        return any(self.query.values())


Show: TypeAlias = Callable[..., Awaitable[Response]]
"""A function of a visit, and of the parameters of its path."""


class Pages:
    """Registry of a section's pages.

    Put `@pages.get("/runs")` above a function that takes a `Visit` and the parameters in its path.
    """

    def __init__(self) -> None:
        self._found: list[tuple[str, str, Role, Show]] = []

    def get(self, path: str, *, role: Role = "viewer") -> Callable[[Show], Show]:
        return self._add("GET", path, role)

    def post(self, path: str, *, role: Role) -> Callable[[Show], Show]:
        """Register the action of a form for visitors with the role."""
        return self._add("POST", path, role)

    def _add(self, method: str, path: str, role: Role) -> Callable[[Show], Show]:
        def add(show: Show) -> Show:
            self._found.append((method, path, role, show))
            return show

        return add

    def paths(self) -> list[str]:
        return [path for _, path, _, _ in self._found]

    def routes(self, console: ConsoleState, prefix: str) -> list[Route]:
        return [
            _Counted(prefix + path, _endpoint(show, console, prefix, role), methods=[method])
            for method, path, role, show in self._found
        ]


class _Counted(Route):
    def __init__(self, path: str, endpoint: Callable[..., Any], methods: list[str]) -> None:
        super().__init__(path, endpoint, methods=methods)
        self.path_regex = re.compile(self.path_regex.pattern, re.DOTALL)  # ids of waits may have line breaks

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, found = super().matches(scope)
        return match, {**found, "route": self} if match is Match.FULL else found


def _endpoint(
    show: Show, console: ConsoleState, prefix: str, role: Role
) -> Callable[[Request], Awaitable[Response]]:
    service = console.service
    taken = list(inspect.signature(show).parameters)[1:]

    async def answer(request: Request) -> Response:
        links = Links(request.scope.get("root_path", "") + prefix)
        asking = principal_of(request.scope)
        if asking is None:
            raise RuntimeError("the console is behind no security middleware")
        try:
            require(asking, role)
            await service.open()
            parameters = {name: request.path_params[name] for name in taken}
            is_part = "hx-request" in request.headers
            waiting = None if is_part else await service.waiting_count(asking)
            shown = show(Visit(request, console, asking, links, waiting), **parameters)
            # Wait for a form even if the server goes down, since it may have taken effect already.
            return await (_while_up(service, shown) if request.method == "GET" else shown)
        except (Problem, SojournError) as error:
            return problem_page(problem_of(error), links, asking, is_part="hx-request" in request.headers)
        except Exception as error:  # noqa: BLE001 - the last edge: the visitor sees a problem, the log the reason
            _log.error("page_failed", path=request.url.path, exc_info=error)
            return problem_page(problem_of(error), links, asking, is_part="hx-request" in request.headers)

    return answer


async def _while_up(service: Service, making: Awaitable[T]) -> T:
    task = asyncio.ensure_future(making)
    try:
        while not (await asyncio.wait({task}, timeout=PATIENCE))[0]:
            if not await service.is_available() and not task.done():
                raise ServerUnavailable("the Temporal server does not answer; is it running?")
        return task.result()
    finally:
        task.cancel()


_THEN = {
    "run_not_found": "The list has the runs that you may see.",
    "run_ended": "Its page shows how it ended. You can fork it from any step.",
    "service_stops": "It restarts. Go back, where what you typed still stands, and send it again.",
    **dict.fromkeys(("unknown_wait", "await_closed", "already_answered"), "The inbox has what is open."),
}
"""What to do next on a page, by the code of a problem whose `then` names a path of the API."""

_LOOK_FIRST = "It restarts. What you sent may have been accepted before: look at the run first, and go back to send it again if it was not."
"""What to do next after a form that may have a second effect."""


def problem_page(
    problem: Problem,
    links: Links,
    asking: Principal | None,
    *,
    is_part: bool = False,
    form: Form | None = None,
) -> Response:
    """Return the response for a problem, with what to do next.

    It is a page. For a script it is a notice on the open page. If the visitor must sign in, the script
    reloads the page instead, which leads to the sign-in page.

    Args:
        problem: The problem.
        links: The console's links.
        asking: Who asked, if that is known.
        is_part: Whether a script asks.
        form: What the visitor sent before the process stopped. If it has one effect, the page has a button that sends it again.
    """
    again = form.pairs() if form and form.has_one_effect else []
    problem.then = _LOOK_FIRST if form and not again else _THEN.get(problem.code, problem.then)
    title = HTTPStatus(problem.status).phrase
    name = "problem_notice.html" if is_part else "problem.html"
    html = render(
        name, problem=problem, title=title, url=links, rooms=ROOMS, visit=None, asking=asking, again=again
    )
    headers = (
        {**problem.headers, "HX-Refresh": "true"} if is_part and problem.status == 401 else problem.headers
    )
    return HTMLResponse(html, problem.status, headers=headers)
