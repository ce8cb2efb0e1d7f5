"""Cancel or retry many runs for a principal.

A repeated request changes nothing more.
"""

from collections.abc import Sequence

from sojourn.client.bulk import BulkAction, BulkResult, Retried, act_on_each
from sojourn.client.run import Run
from sojourn.contracts.principal import Principal
from sojourn.http.problems import problem_of
from sojourn.http.security import audit
from sojourn.http.security.principals import require
from sojourn.http.service import Service

__all__ = ["act_on_runs"]


async def act_on_runs(
    service: Service, asking: Principal, action: BulkAction, run_ids: Sequence[str], *, reason: str = ""
) -> list[BulkResult]:
    """Cancel or retry runs, and return the result of each in their order.

    A run that the principal may not see is as one that does not exist. One that has another status is left as it is. A run
    that was retried since it ended is not retried again.

    Raises:
        MissingRole: The principal is no operator.
    """
    require(asking, "operator")
    forks = dict[str, str]()
    audit.bind(bulk=action, runs=list(run_ids))

    async def status_of(run_id: str) -> str:
        return (await service.listed_run(asking, run_id)).status

    async def retry(run: Run) -> Retried:
        retried = await service.retry_once(asking, run)
        if not retried.already:
            forks[run.id] = retried.run_id
            audit.bind(forks=forks)  # at once, since the client may disconnect before the others
        return retried

    results = await act_on_each(
        service.client,
        action,
        run_ids,
        status_of=status_of,
        retry=retry,
        by=asking.subject,
        reason=reason,
    )
    if refused := {each.run_id: problem_of(each.error).code for each in results if each.error}:
        audit.bind(refused=refused)
    return results
