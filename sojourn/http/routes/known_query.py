"""Refuse unknown query parameters on the API's paths.

Otherwise a misspelt filter would select everything.
"""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from sojourn.contracts.record import suggestion

__all__ = ["KnownQueryRoute"]


class KnownQueryRoute(APIRoute):
    """A route that answers an unknown query parameter with 422.

    It checks this before it does anything else.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, with the check before it."""
        handle = super().get_route_handler()
        known = sorted(set(_names(self.dependant)))

        async def checked(request: Request) -> Response:
            if unknown := [name for name in request.query_params if name not in known]:
                faults = [
                    {"type": "extra_forbidden", "loc": ("query", name), "msg": _fault(name, known)}
                    for name in unknown
                ]
                raise RequestValidationError(faults)
            return await handle(request)

        return checked


def _names(dependant: Dependant) -> Iterator[str]:
    """Yield the names of the query parameters of a route and of its dependencies."""
    yield from (each.alias for each in dependant.query_params)
    for below in dependant.dependencies:
        yield from _names(below)


def _fault(name: str, known: list[str]) -> str:
    there = f"this path has {', '.join(known)}" if known else "this path has none"
    return f"there is no such parameter{suggestion(name[:200], known) or ';'} {there}"
