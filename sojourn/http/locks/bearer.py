"""Bearer: the credentials of a request, as RFC 6750 has them in the header `Authorization`."""

from starlette.requests import Request

__all__ = ["bearer_of"]


def bearer_of(request: Request) -> str:
    """The key or token of a request; empty where it has none."""
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    return text.strip() if scheme.lower() == "bearer" else ""
