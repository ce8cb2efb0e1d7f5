"""Addresses: requests of nobody known are counted by the address that they come from.

That is the address of the connection, or behind a proxy that the server trusts (uvicorn's `FORWARDED_ALLOW_IPS`) the one that the proxy names.
"""

import ipaddress

from starlette.types import Scope

__all__ = ["address_of", "network_of"]

_PREFIX = 64
"""Bits of an address of IPv6 that stand for one client, who commonly has all those below them."""


def address_of(scope: Scope) -> str:
    """The address that a request comes from; of IPv6 its network. Empty for a Unix socket."""
    client = scope.get("client")
    return network_of(str(client[0])) if client else ""


def network_of(host: str) -> str:
    """The address, or of IPv6 the network, that one client has."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host[:100]
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((int(address), _PREFIX), strict=False).network_address)
    return str(address)
