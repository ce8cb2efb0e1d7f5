"""The activity that makes one planner turn, with a `Dispatch` for every call.

The policy has judged each call. All that the workflow needs is in the result, and so recorded:
users may deploy renamed tools, new planners and changed policies while runs are open.

A local activity makes only turns that this worker can plan at once, from its memory.
While it runs, its workflow task is open: the run does not answer a query for its transcript, and
gets no message.
"""

import asyncio
import difflib
import time
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import structlog
from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from sojourn.attachments import Attachments
from sojourn.authoring.agent import Agent
from sojourn.authoring.app import App
from sojourn.contracts.attachment import AttachmentRecord
from sojourn.contracts.dispatch import LOCAL_PLAN_LIMIT, NOT_LOCAL
from sojourn.contracts.message import Message
from sojourn.contracts.quota import Admission, Ask, quota_reached
from sojourn.contracts.run_policy import Limits
from sojourn.contracts.tasks import PlanOutcome, PlanTask
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.wire_names import PLAN
from sojourn.core.run.limits import caps_left, limits_of, stricter_limits, turn_policy
from sojourn.core.run.totals import RunTotals
from sojourn.core.run.transcript import question_message
from sojourn.live.deltas import PlanAttempt, telling
from sojourn.live.transport import LiveTransport, topic_of
from sojourn.serving.artifact_reader import ArtifactReader, AttachmentReader, reading_artifacts
from sojourn.serving.fair_slots import bind_tenant
from sojourn.serving.hardening.attempt import OwnTask
from sojourn.serving.hardening.lost_workers import MAX_LOST, FirstTime, earlier_attempts
from sojourn.serving.quota_broker import QuotaBroker
from sojourn.values.wire import MAX_LOCAL_BYTES, size_of

from .heartbeat import check_worker, send_heartbeats
from .planning import Planning, notices_of
from .transcripts import PICTURES, Key, Transcripts, memory_of, storage_of

__all__ = ["PlanActivity", "check_local", "is_quick", "limit_local", "local_outcome"]

_log = structlog.get_logger("sojourn.activity")


def check_local(app: App, transcripts: Transcripts, key: Key, task: PlanTask) -> None:
    """Return if this worker can plan the turn at once."""
    lacks = "agent" if app.agent(task.agent_id) is None else "transcript"
    if lacks == "agent" or not transcripts.has(key, task):
        raise ApplicationError(f"this worker does not have the {lacks}", type=NOT_LOCAL, non_retryable=True)


def limit_local(limits: Limits) -> Limits:
    return limits.model_copy(update={"plan_timeout": min(limits.plan_timeout, LOCAL_PLAN_LIMIT)})


def local_outcome(task: PlanTask, outcome: PlanOutcome, seconds: float) -> PlanOutcome:
    """Return the outcome of a local activity, with its duration and input.

    Temporal does not record the input of a local activity.
    """
    if size_of(outcome) > MAX_LOCAL_BYTES:
        raise ApplicationError("the plan is large", type=NOT_LOCAL, non_retryable=True)
    return outcome.model_copy(update={"task": task.recorded(), "spent_ms": round(seconds * 1_000)})


def is_quick(agent_id: str, seconds: float) -> bool:
    """Check whether a local activity may also plan the next turn of a local agent."""
    if timedelta(seconds=seconds) < LOCAL_PLAN_LIMIT:
        return True
    _log.warning("local_planner_slow", agent_id=agent_id, seconds=round(seconds, 1))
    return False


QUOTA_EXCEEDED = "tenant_quota_exceeded"
"""The error code of a run that its tenant's quota refuses, since it may not wait. In a conversation only the turn fails."""

AGENT_ATTEMPTS = 3
"""Attempts before an unknown agent fails the run.

During a deploy another worker may know the agent.
"""


class PlanActivity:
    def __init__(
        self,
        app: App,
        transcripts: Transcripts | None = None,
        first_time: FirstTime | None = None,
        broker: QuotaBroker | None = None,
    ) -> None:
        self._app = app
        self._broker = broker
        self._first_time = first_time or FirstTime()
        self.transcripts = transcripts or Transcripts(storage=partial(storage_of, app))

    @activity.defn(name=PLAN)
    async def plan(self, task: PlanTask) -> PlanOutcome:
        """Run the planner on the new messages and judge its plan.

        Raises:
            ApplicationError: `WRONG_WORKER`, while another worker has the agent; `AgentNotFound`, after 3 attempts, or `InvalidInput`, at once; the planner's own
                exception, with its type, after 5 attempts, or after 20 if it says when to try again;
                `PlannerLost` when 3 workers were lost under it; `NOT_LOCAL` for a turn that an ordinary activity
                has to plan.
        """
        info = activity.info()
        key = (info.workflow_id or "", info.workflow_run_id or "")
        bind_tenant(task.principal, key[0])
        if info.is_local:
            check_local(self._app, self.transcripts, key, task)
        agent = await self._agent(task, info.attempt)
        earlier = await earlier_attempts()
        if earlier.lost >= MAX_LOST:
            raise ApplicationError(
                f"the planner of {agent.id} is given up: each of {earlier.lost} workers that ran it was lost",
                *notices_of(self._app),
                type="PlannerLost",
                non_retryable=True,
            )
        with send_heartbeats(who={"agent_id": agent.id, "run_id": key[0]}, earlier=earlier):
            admission = await self._admission(task, key[0])
            if admission is not None and not admission.admitted:
                return self._without_place(task, admission)
            await self._app.act_for(agent.id, key[0], task.principal)
            messages = await self.transcripts.read(key, task)
            memory = await memory_of(key, task)
            policy = (
                self._app.policy_of(agent, task.override, is_child=task.parent is not None)
                if task.plan == 1 or task.unlimited
                else None
            )
            limits = limits_of(policy) if policy else task.limits
            if task.forked:
                present = self._app.policy_of(agent, task.override, is_child=False)
                limits = stricter_limits(limits, limits_of(present))
            planning = Planning(
                app=self._app,
                agent=agent,
                task=task,
                run_id=key[0],
                messages=messages,
                memory=memory,
                limits=limit_local(limits) if info.is_local else limits,
                caps=caps_left(turn_policy(policy, RunTotals()), RunTotals()) if policy else task.caps,
                attempt=info.attempt,
                waited=datetime.now(UTC) - info.scheduled_time,
            )
            began = time.monotonic()
            async with _streaming(self._app.live, task):
                with reading_artifacts(
                    self._picture_reader((key[0], task.key_run_id)),
                    self._file_reader(key[0], task.key_run_id),
                ):
                    outcome = await planning.outcome()
            took = time.monotonic() - began
            is_local = agent.local and is_quick(agent.id, took)
            if info.is_local:
                outcome = local_outcome(task, outcome, took)
        if not task.interim_for:  # nothing of such a plan is in the transcript
            self._keep(key, task, outcome, messages, info.attempt)
        self._first_time.mark_planned(key[1], outcome)
        changes = self._notes(task)
        if is_local:
            changes["local"] = True
        if admission is not None:
            changes["quota"] = admission
        if policy is not None or info.attempt > 1:
            first = {"policy": policy, "opening_taint": planning.opening_taint}
            changes |= {**first, "attempt": info.attempt}
        outcome = outcome.recorded()
        return outcome.model_copy(update=changes) if changes else outcome

    def _notes(self, task: PlanTask) -> dict[str, Any]:
        """Return what a run learns from each plan, whatever the planner says."""
        changes: dict[str, Any] = {}
        if task.opens and task.parent is None and self._app.visibility_of(task.agent_id) == "subject":
            changes["visibility"] = "subject"
        if task.version:
            changes["version"] = task.version
        if self._app.notices:
            changes["notices"] = list(self._app.notices)
        return changes

    async def _admission(self, task: PlanTask, run_id: str) -> Admission | None:
        # Only of runs whose tenant has a quota.
        if self._broker is None or not task.quota_tenant:
            return None
        if activity.info().is_local:  # it has to end at once, so an ordinary one asks
            if self._broker.has_quota(task.quota_tenant):
                raise ApplicationError("the tenant has a quota", type=NOT_LOCAL, non_retryable=True)
            return None
        return await self._broker.ask(
            task.quota_tenant, Ask(run_id=run_id, place=task.plan, starts=task.opens)
        )

    def _without_place(self, task: PlanTask, admission: Admission) -> PlanOutcome:
        if not admission.refused:
            return PlanOutcome(quota=admission, version=task.version)
        why = quota_reached(task.quota_tenant, admission.kind, admission.limit)
        return PlanOutcome(failure=ToolError.new(why, code=QUOTA_EXCEEDED), **self._notes(task))

    def _keep(
        self, key: Key, task: PlanTask, outcome: PlanOutcome, messages: list[Message], attempt: int
    ) -> None:
        """Cache the transcript for the next plan, if there is one."""
        if (outcome.final or outcome.failure) and not task.conversation:
            self.transcripts.drop(key)
        else:
            self.transcripts.keep(
                key, [*messages, *_assistant_messages(outcome)], plan=task.plan, attempt=attempt
            )

    def _picture_reader(self, runs: Collection[str]) -> ArtifactReader:
        return lambda ref: PICTURES.read(ref, runs, partial(storage_of, self._app))

    def _file_reader(self, run_id: str, origin: str) -> AttachmentReader:
        async def read(file: AttachmentRecord) -> bytes:
            stored = Attachments(activity.client(), storage_of(self._app))
            return await stored.read_by(run_id, origin).read(file)

        return read

    async def _agent(self, task: PlanTask, attempt: int) -> Agent:
        agent = self._app.agent(task.agent_id)
        if agent is None:
            elsewhere = await check_worker(task.agent_id)
            raise ApplicationError(
                f"no agent {task.agent_id!r} on this worker; {self._instead(task.agent_id, elsewhere)}",
                type="AgentNotFound",
                non_retryable=attempt >= AGENT_ATTEMPTS,
            )
        if task.plan == 1 and not task.new and task.until is None:
            raise ApplicationError(
                "a run starts with at least one message", type="InvalidInput", non_retryable=True
            )
        return agent

    def _instead(self, agent_id: str, elsewhere: list[str]) -> str:
        """Return a hint: the queues that serve the agent, or the agents served here."""
        if elsewhere:
            return f"workers of task queue {' and '.join(elsewhere)} serve it: start the run there"
        known = self._app.list_agents()
        close = difflib.get_close_matches(agent_id, known, n=3)
        return f"did you mean {' or '.join(close)}?" if close else f"it serves {', '.join(known[:10])}"


@asynccontextmanager
async def _streaming(live: LiveTransport, task: PlanTask) -> AsyncGenerator[None]:
    """Let the planner stream its text.

    A plan that is canceled leaves the text in the history.
    """
    async with telling(live, _attempt(task)) as deltas:
        try:
            yield
        except asyncio.CancelledError:
            await _record_partial(deltas.partial)
            raise


async def _record_partial(text: str) -> None:
    # The SDK reports a cancellation without details.
    details, own = activity.cancellation_details(), OwnTask.current()
    is_asked = details is not None and details.cancel_requested and not activity.info().is_local
    if not (text and is_asked and own):
        return
    try:
        await own.report_cancellation(await own.encode([text]))
    except RPCError as error:
        _log.warning("partial_text_lost", run_id=activity.info().workflow_id or "", reason=str(error)[:200])
        return
    activity.raise_complete_async()


def _attempt(task: PlanTask) -> PlanAttempt:
    info = activity.info()
    return PlanAttempt(
        topic=topic_of(info.workflow_namespace or "", info.workflow_id or ""),
        plan=task.plan,
        attempt=info.attempt,
        scheduled=info.scheduled_time,
        started=info.started_time,
    )


def _assistant_messages(outcome: PlanOutcome) -> list[Message]:
    if outcome.final:
        return [outcome.final]
    if outcome.calls:
        return [outcome.message or Message.calls(outcome.calls)]
    return [question_message(outcome)] if outcome.await_ else []
