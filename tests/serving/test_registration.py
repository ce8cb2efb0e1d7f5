"""Registered: what a worker holds to be missing, and what it does where it may not look."""

from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.api.operatorservice.v1 import ListSearchAttributesResponse
from temporalio.service import RPCError, RPCStatusCode

from sojourn.search_attributes import NAMES
from sojourn.serving.registration import Registered


class Operator:
    """The server's side of a look."""

    def __init__(self) -> None:
        self.known: list[str] | None = list(NAMES)
        """None where nobody may ask."""

    async def list_search_attributes(self, _asked: Any, *, timeout: Any) -> ListSearchAttributesResponse:
        del timeout
        if self.known is None:
            raise RPCError("not for you", RPCStatusCode.PERMISSION_DENIED, b"")
        return ListSearchAttributesResponse(custom_attributes=dict.fromkeys(self.known, 1))


@pytest.mark.parametrize("found", [(), NAMES[:1]], ids=["all there", "one missing"])
async def test_a_look_that_fails_changes_nothing(found: tuple[str, ...]) -> None:
    """A server that does not answer, or lets nobody ask, makes no run unlisted, and none listed that could not be."""
    operator, registered = Operator(), Registered()
    client: Any = SimpleNamespace(namespace="default", operator_service=operator)
    operator.known = [name for name in NAMES if name not in found]
    await registered.look(client)
    assert tuple(registered.missing) == tuple(found)
    operator.known = None
    await registered.look(client)
    assert tuple(registered.missing) == tuple(found)
