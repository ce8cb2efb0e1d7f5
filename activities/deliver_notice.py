"""DeliverNoticeActivity: an app's own function is told what a run did."""

from temporalio import activity

from sojourn.authoring.app import App
from sojourn.contracts.run import Notice
from sojourn.contracts.wire_names import DELIVER_NOTICE
from sojourn.serving.still_wanted import still_wanted

from .heartbeat import beating
from .wrong_worker import pass_on

__all__ = ["DeliverNoticeActivity"]


class DeliverNoticeActivity:
    """Delivers notices to the functions of an app."""

    def __init__(self, app: App) -> None:
        self._app = app

    @activity.defn(name=DELIVER_NOTICE)
    async def deliver_notice(self, notice: Notice) -> None:
        """Call the function for notices of this kind; an app that has none any more drops the notice.

        Raises:
            ApplicationError: `WRONG_WORKER`, while another worker has the agent; `NotWantedError`, if the server has given the attempt up.
            Exception: The error of the function, after which the notice is delivered again.
        """
        if self._app.agent(notice.agent_id) is None:
            await pass_on(notice.agent_id)
        tell = self._app.notices.get(notice.kind)
        if tell is not None:
            with beating(who={"agent_id": notice.agent_id, "run_id": notice.run_id}):
                await still_wanted()
                await tell(notice)
