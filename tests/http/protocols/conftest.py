"""Fixtures: who asks, by a key that says it."""

import pytest

from sojourn import Principal


@pytest.fixture
def principals():
    """An `auth`: the key `ana@acme` is a user of that tenant, `+approver` adds the role, and `-user` takes that one away."""

    async def auth(request):
        key = request.headers.get("authorization", "").removeprefix("Bearer ")
        subject, at, rest = key.partition("@")
        if not at:
            return None
        tenant = rest.partition("+")[0].partition("-")[0]
        roles = ["viewer"] if "-user" in rest else ["user", *rest.split("+")[1:]]
        return Principal(subject=subject, tenant=tenant, roles=roles)

    return auth
