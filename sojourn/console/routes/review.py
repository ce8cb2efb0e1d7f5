"""Several approvals on one page at `/review`, each with its own choice.

Every call is shown whole, and its choice carries the digest of what was shown. The page sends all choices at
once, and each is decided by itself: one that is refused, or that another person decided first, stops no other.
A visitor who leaves a call alone decides nothing on it.
"""

import asyncio
from dataclasses import dataclass, replace

from starlette.responses import Response

from sojourn.answers import Decision, DecisionResult
from sojourn.console.answering import find_wait, read_answer, refresh
from sojourn.console.form import Form
from sojourn.console.page import Pages, Visit
from sojourn.console.views.waits import WaitForm
from sojourn.errors import ApprovalVoid, InvalidInput, RunNotFound
from sojourn.http.answering import decide_each
from sojourn.http.problems import Problem, problem_of

__all__ = ["pages"]

pages = Pages()

MOST = 20
"""Most approvals of a page. The rest follow on the next one."""

CHOICES = ("approve", "deny")


@dataclass(frozen=True, slots=True)
class ReviewedCall:
    """A call on the page, before or after the visitor's choice on it."""

    view: WaitForm
    done: str = ""
    """What the visitor did just now, such as `Approved`. Empty if nothing."""
    choice: str = ""
    """The visitor's choice that was not carried out."""
    decision: Decision | None = None
    """The decision to send, by that choice."""

    @property
    def is_decidable(self) -> bool:
        return self.view.found is not None and not self.done

    @property
    def is_destructive(self) -> bool:
        return self.view.level == "danger"


@pages.get("/review")
async def review(visit: Visit) -> Response:
    keys = list(dict.fromkeys(visit.request.query_params.getlist("wait")))
    found = await asyncio.gather(*(_find(visit, key) for key in keys[:MOST]))
    return _page(visit, [ReviewedCall(each) for each in found if each], keys[MOST:])


@pages.post("/review", role="viewer")
async def decide(visit: Visit) -> Response:
    form = await visit.form()
    keys = list(dict.fromkeys(form.texts("wait")))[:MOST]
    found = await asyncio.gather(*(_find(visit, key) for key in keys))
    calls = [_choose(each, form) for each in found if each]
    chosen = [(each.view.wait.ref, each.decision) for each in calls if each.decision]
    try:
        results = iter(await decide_each(visit.service, visit.asking, chosen))
    finally:  # as `submit_form`
        for ref, _ in chosen:
            visit.service.reader.waits.forget(ref.run_id)
    decided = await asyncio.gather(
        *(_after(visit, each, next(results) if each.decision else None) for each in calls)
    )
    return _page(visit, decided, list(dict.fromkeys(form.texts("later"))))


async def _find(visit: Visit, key: str) -> WaitForm | None:
    """Return the form of an approval, or None if the visitor sees no such wait."""
    run_id, _, await_id = key.partition(" ")
    async with visit.console.reading_decisions:
        try:
            view = await find_wait(visit, run_id, await_id)
        except (Problem, RunNotFound, InvalidInput):
            return None
    return view if view.wait.kind == "approval" else None


def _choose(view: WaitForm, form: Form) -> ReviewedCall:
    """Return a call with the decision that the visitor chose, if it can be sent."""
    choice, reason = form.text(f"{view.anchor}-choice"), form.text(f"{view.anchor}-reason")
    view = replace(view, reason=reason)
    if choice not in CHOICES or view.found is None:
        return ReviewedCall(view)
    digest = form.text(f"{view.anchor}-digest")
    if digest != view.wait.digest:
        fault = "The call changed after you saw it, and nothing was decided on it."
        return ReviewedCall(replace(view, fault=fault, then="Review it as it is now."))
    item = ReviewedCall(view, choice=choice)
    if choice == "approve" and item.is_destructive and f"{view.anchor}-tick" not in form:
        view = replace(view, fault="Not approved.", then="Tick that you have read what it can destroy.")
        return replace(item, view=view)
    given, view = read_answer(view, Form({"do": [choice], "digest": [digest], "reason": [reason]}))
    return replace(item, view=view, decision=given if isinstance(given, Decision) else None)


async def _after(visit: Visit, item: ReviewedCall, result: DecisionResult | None) -> ReviewedCall:
    """Return a call after its decision was sent, if the visitor decided on it."""
    if result is None:
        return item
    view, error = item.view, result.error
    if isinstance(error, ApprovalVoid):
        fault, then = str(error), "It is asked about again, in the inbox."
        return ReviewedCall(replace(view, found=None, fault=fault, then=then))
    if error:
        return replace(item, view=await refresh(visit, view, problem_of(error)))
    if view.is_only:
        visit.service.note_answered(visit.asking)
    done = result.outcome.capitalize()
    return ReviewedCall(view, done=f"{done}, one of several approvals" if result.left else done)


def _page(visit: Visit, calls: list[ReviewedCall], later: list[str]) -> Response:
    return visit.page("review.html", calls=calls, later=later, most=MOST)
