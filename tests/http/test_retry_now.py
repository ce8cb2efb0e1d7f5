"""Retry now over HTTP: for an operator, and idempotent."""


async def test_nothing_that_waits_is_no_error(served):
    """The reply counts the attempts that begin; a run that has ended is refused."""
    run_id, _ = await served.waiting("ask")
    answer = await served.http.post(f"/v1/runs/{run_id}/retry-now")
    assert answer.status_code == 200
    reply = answer.json()
    assert (reply["run_id"], reply["done"], reply["attempts"]) == (run_id, "retried_now", 0)
    ended = await served.start("hello")
    await served.output(ended)
    answer = await served.http.post(f"/v1/runs/{ended}/retry-now")
    assert (answer.status_code, answer.json()["code"]) == (409, "run_ended")
