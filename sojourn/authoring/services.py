"""The objects behind bound tools, and the interceptors of calls."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, cast, runtime_checkable

from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.errors import DefinitionError

__all__ = ["Interceptor", "Services"]


class Services:
    """The services of an app.

    A service is known by its class's name, by that name without `Service`, ignoring case (`SiteService` is
    `site` too), and by its name in a mapping.
    """

    def __init__(self, services: Iterable[Any] | Mapping[str, Any] = ()) -> None:
        named: list[tuple[str | None, Any]]
        if isinstance(services, Mapping):
            named = list(cast("Mapping[str, Any]", services).items())
        else:
            named = [(None, item) for item in services]
        self._services: list[Any] = [service for _, service in named]
        self._by_name: dict[str, Any] = {}
        for name, service in named:
            if isinstance(service, type):
                raise DefinitionError(
                    f"App(services=[...]) takes objects; {service.__name__} is a class, so write {service.__name__}()"
                )
            for key in {_plain(type(service).__name__), _plain(name or type(service).__name__)}:
                if self._by_name.setdefault(key, service) is not service:
                    raise DefinitionError(
                        f"two services in App(services=...) are called {key!r}; name them: services={{'{key}': ...}}"
                    )

    def with_method(self, method: Callable[..., Any], place: str) -> Any:
        """Return the one service whose class, or a base of it, has this method."""
        found = [service for service in self._services if _has(cast("type[Any]", type(service)), method)]
        if len(found) == 1:
            return found[0]
        owner = method.__qualname__.rsplit(".", 1)[0]
        which = "several of them have" if found else "none of them has"
        raise DefinitionError(
            f"{place} is bound to {method.__qualname__}; App(services=[{self._known()}]) must hold one {owner}, "
            f"and {which} this method"
        )

    def named(self, name: str, place: str) -> Any:
        service = self._by_name.get(_plain(name))
        if service is None:
            raise DefinitionError(
                f"{place} is bound to service {name!r}, which is not in App(services=[{self._known()}]); "
                "add it, or name the service: bind(..., service=...)"
            )
        return service

    def _known(self) -> str:
        return ", ".join(type(service).__name__ for service in self._services)


def _plain(name: str) -> str:
    folded = name.replace("_", "").lower()
    return folded.removesuffix("service") or folded


def _has(kind: type[Any], method: Callable[..., Any]) -> bool:
    return any(vars(base).get(method.__name__) is method for base in kind.__mro__)


@runtime_checkable
class Interceptor(Protocol):
    """Prepares the calls of an app (SR-44, SR-47, SR-48).

    A worker's call is intercepted when it is executed, on every attempt. A child run's or external call is
    intercepted when it is dispatched, so that its changed arguments are recorded.
    """

    async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
        """Return the call to continue with.

        `tool.inject(call, field=value)` sets an injected field. An exception is answered like a failure of
        the tool. If the return value is not this call, that is logged, and the call is answered as
        unavailable.
        """
        ...
