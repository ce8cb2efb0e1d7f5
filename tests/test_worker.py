"""Worker: what it opened is closed, also when it cannot start."""

import pytest

from sojourn import Agent, App, Client, PlanResult, Worker
from sojourn.live import LocalTransport


class Live(LocalTransport):
    """A transport that records whether it was closed."""

    is_closed = False

    async def close(self) -> None:
        self.is_closed = True


class Half(App):
    """An app of which a part cannot be opened."""

    async def open(self) -> None:
        await super().open()
        raise OSError("no such device")


@pytest.mark.parametrize("how", ["run", "context"])
async def test_an_app_that_cannot_be_opened_is_closed(temporal_address: str, how: str) -> None:
    """The parts that were opened before the failure are closed, and the failure is raised."""

    async def plan(_turn: object) -> PlanResult:
        return PlanResult.final("done")

    live = Live()
    app = Half(agents=[Agent("test.agent", planner=plan)], live=live)
    worker = Worker(app, await Client.connect(temporal_address))
    with pytest.raises(OSError, match="no such device"):
        await (worker.run() if how == "run" else worker.__aenter__())
    assert live.is_closed
