"""Replay many recorded runs on one app."""

import contextlib
from collections.abc import AsyncGenerator, Iterable, Sequence
from itertools import islice
from typing import Self

from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter

from sojourn.authoring.app import App
from sojourn.replay.checking import check_against
from sojourn.replay.decisions import open_app
from sojourn.replay.determinism import WorkflowReplay
from sojourn.replay.finding import Finding, RunReport
from sojourn.replay.planners import check_plans
from sojourn.replay.recording import read_recording
from sojourn.replay.sources import Source
from sojourn.worker import shell

__all__ = ["Replay"]

AT_ONCE = 20
"""Most runs that are in memory at once."""


class Replay:
    """Replays recorded runs, with the app open while its block runs.

    Args:
        app: The app, as it is served.
        converter: Decodes the payloads of the histories.
        plans: Whether plans are made again.
    """

    def __init__(self, app: App, converter: DataConverter, *, plans: bool = True) -> None:
        self._app = app
        self._converter = converter
        self._plans = plans
        self._workflow = WorkflowReplay(list(shell(app).workflows), converter)
        self._open = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._open.enter_async_context(open_app(self._app))
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._open.aclose()

    async def reports(self, sources: Iterable[Source]) -> AsyncGenerator[RunReport]:
        """Yield a report of each run, in the given order."""
        rest = iter(sources)
        while some := list(islice(rest, AT_ONCE)):
            for report in await self._report_batch(some):
                yield report

    async def _report_batch(self, sources: Sequence[Source]) -> list[RunReport]:
        reports = [RunReport(source.name) for source in sources]
        read: list[tuple[RunReport, list[WorkflowHistory]]] = []
        for source, report in zip(sources, reports, strict=True):
            try:
                read.append((report, await source.read()))
            except ValueError as error:
                report.findings.append(Finding("unreadable", str(error)))
        found = await self._workflow.findings([history for _, histories in read for history in histories])
        by_execution = iter(found)
        for report, histories in read:
            report.run_id = histories[-1].workflow_id
            report.findings += [differs for _ in histories if (differs := next(by_execution))]
            await self._check(report, histories)
        return reports

    async def _check(self, report: RunReport, histories: Sequence[WorkflowHistory]) -> None:
        try:
            run = await read_recording(histories, self._converter)
        except Exception as error:  # noqa: BLE001 - any program may have written a history
            # Its workflow does not replay either, for that reason.
            report.findings = [Finding("unreadable", f"{report.source} cannot be read: {error}")]
            return
        report.agent_id, report.is_open = run.agent_id, run.is_open
        report.findings += check_against(self._app, run)
        if not self._plans or self._app.agent(run.agent_id) is None:
            return
        if run.why_no_plans:
            text = f"its plans are not made again: {run.why_no_plans}"
            report.findings.append(Finding("not_compared", text, is_problem=False))
        await check_plans(self._app, run, report)
