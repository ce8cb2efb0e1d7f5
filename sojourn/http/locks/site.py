"""Site: pages for people, under the same locks as the API: which paths they have, what stands in for a key there, and how they are refused.

A browser sends no `Authorization` by itself. So on the pages' paths, and on no other, a cookie is read as one; and since a browser sends
cookies whoever makes it ask, a request that changes something has to come from one of the pages themselves.
"""

from typing import Protocol

from starlette.responses import Response
from starlette.types import Scope

from sojourn.http.locks.requests import SITE, header_values
from sojourn.http.problems import Problem, shape

__all__ = ["Site", "check_form", "has_files", "site_of", "visit"]

_READS = ("GET", "HEAD")


class Site(Protocol):
    """The pages of a service."""

    headers: dict[str, str]
    """Headers of every answer, in place of those of the API."""

    def covers(self, path: str) -> bool:
        """Whether a path is that of a page, or of what a page loads."""
        ...

    def is_open(self, path: str) -> bool:
        """Whether everybody may ask for it: it says nothing of any run."""
        ...

    def with_credentials(self, scope: Scope) -> Scope:
        """The request with the credentials of its cookie as `Authorization`, where it has no others."""
        ...

    def refused(self, problem: Problem, scope: Scope) -> Response:
        """The page that says why a request was refused, and what to do."""
        ...


def visit(site: Site | None, scope: Scope, path: str) -> Site | None:
    """Let the locks know that a request is for a page, if it is; returns the site then."""
    if site is None or scope["type"] != "http" or not site.covers(path):
        return None
    scope[SITE] = site
    shape(scope, lambda problem: site.refused(problem, scope))
    return site


def site_of(scope: Scope) -> Site | None:
    """The site that a request is for; None for the API."""
    return scope.get(SITE)


def has_files(scope: Scope) -> bool:
    """Whether a request is a form of a page that may have files, whose bytes are no text."""
    (given, *_) = [*header_values(scope, "content-type"), ""]
    is_form = given.partition(";")[0].strip().lower() == "multipart/form-data"
    return is_form and site_of(scope) is not None


def check_form(scope: Scope, *, is_own: bool) -> None:
    """Check that what changes something was sent by a page of the site's own, which browsers say in `Origin`.

    Args:
        scope: The request.
        is_own: Whether its origin is the service itself.

    Raises:
        Problem: It was not: another page, even one that may use the API, sent it with the cookie of a visitor.
    """
    if site_of(scope) is None or scope["method"] in _READS or is_own:
        return
    (origin, *_) = [*header_values(scope, "origin"), "a page that does not say which"]
    raise Problem(
        403,
        "foreign_origin",
        f"a form of {origin[:200]} may not be sent here",
        then="Open the page here, and send its form; a program uses the API, /v1, with a key.",
    )
