"""Registered: which search attributes a worker counts as missing, also after a check that fails."""

from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.api.operatorservice.v1 import ListSearchAttributesResponse
from temporalio.service import RPCError, RPCStatusCode

from sojourn.search_attributes import NAMES
from sojourn.serving.registration import Registered


class Operator:
    """A Temporal operator service with the search attributes that a test sets."""

    def __init__(self) -> None:
        self.known: list[str] | None = list(NAMES)
        """None when the request is denied."""

    async def list_search_attributes(self, _asked: Any, *, timeout: Any) -> ListSearchAttributesResponse:
        del timeout
        if self.known is None:
            raise RPCError("not for you", RPCStatusCode.PERMISSION_DENIED, b"")
        return ListSearchAttributesResponse(custom_attributes=dict.fromkeys(self.known, 1))


@pytest.mark.parametrize("missing", [(), NAMES[:1]], ids=["all there", "one missing"])
async def test_a_check_that_fails_changes_nothing(missing: tuple[str, ...]) -> None:
    """A check that the server refuses leaves the missing attributes as they were."""
    operator, registered = Operator(), Registered()
    client: Any = SimpleNamespace(namespace="default", operator_service=operator)
    operator.known = [name for name in NAMES if name not in missing]
    await registered.look(client)
    assert tuple(registered.missing) == tuple(missing)
    operator.known = None
    await registered.look(client)
    assert tuple(registered.missing) == tuple(missing)
