"""What the locks read of a request, and how they refuse one."""

from starlette.types import Receive, Scope, Send

from sojourn.http.problems import Problem, shaped

__all__ = ["SITE", "header_values", "path_of", "refuse"]

SITE = "sojourn.site"
"""Where the scope of a request for a page has the `Site` that it is of."""


def header_values(scope: Scope, name: str) -> list[str]:
    """The values of a request's header, in their order; the name is in lower case."""
    wanted = name.encode()
    return [value.decode("latin-1") for key, value in scope["headers"] if key == wanted]


def path_of(scope: Scope) -> str:
    """The path of a request within the application, wherever that is mounted."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path[len(root) :] if root and path.startswith(root + "/") else path


async def refuse(problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request with a problem, and with nothing else."""
    await shaped(problem, scope)(scope, receive, send)
