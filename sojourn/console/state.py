"""State that the pages of one service share.

It has the runs that visitors have open, and caches the data read for them.
"""

from sojourn.console.checkup import Checkup
from sojourn.console.decision_log import DecisionLog
from sojourn.console.wait_histories import WaitHistories
from sojourn.console.watched import WatchedRun, WatchedTalk
from sojourn.console.watching import Watching
from sojourn.http.service import Service

__all__ = ["ConsoleState"]


class ConsoleState:
    """Shared state, one for each application.

    A page reaches it as `visit.console`.

    Args:
        service: What the visitors may see.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        self.runs = Watching(service, WatchedRun)
        """The runs whose pages somebody looks at."""
        self.talks = Watching(service, WatchedTalk)
        """The conversations whose pages somebody looks at."""
        self.checkup = Checkup(service)
        self.decisions = DecisionLog(service)
        self.wait_histories = WaitHistories(service)
